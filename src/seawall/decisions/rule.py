"""One rule of a policy: which faults it is on, and what it does about them.

A rule is data and checks itself: what could never do anything, or contradicts itself, is refused
when it is made. Which rule judges, and what its verdict is, stands in `policy`.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import cast

from seawall.decisions.backoff import Backoff
from seawall.decisions.matching import Matcher, Matchers, matches, normalised
from seawall.errors import PolicyError
from seawall.faults import FINAL_CODES, Fault, FaultCode

MOST_ATTEMPTS = 1_000_000

USUAL = Backoff()
"""The back-off of a rule that names none."""


def need(holds: bool, problem: str) -> None:
    """`PolicyError` with these words, unless it holds."""
    if not holds:
        raise PolicyError(problem)


def need_attempts(found: object) -> None:
    """`PolicyError` unless this is an allowance of attempts, or none."""
    whole = isinstance(found, int) and not isinstance(found, bool)
    need(
        found is None or (whole and 1 <= found <= MOST_ATTEMPTS),  # type: ignore[operator]
        f"max_attempts: found {found!r}, expected 1 to {MOST_ATTEMPTS}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do about the faults that it is `on`; see `matching` for how those are named."""

    on: Matchers
    retry: bool = True
    max_attempts: int | None = None
    """How many attempts may fail by this rule before it gives up; None leaves it to the policy."""
    counts: bool = True
    """Whether such a failure uses up one of the policy's attempts."""
    needs_retry_after: bool = False
    """Retry only where the upstream said when."""
    backoff: Backoff = USUAL
    _codes: frozenset[FaultCode] = field(init=False, repr=False, compare=False)
    _others: tuple[Matcher, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        try:
            put(self, "on", normalised(self.on))
        except ValueError as error:
            raise PolicyError(f"on: {error}") from None
        codes = frozenset(matcher for matcher in self.matchers if isinstance(matcher, FaultCode))
        put(self, "_codes", codes)
        put(self, "_others", tuple(m for m in self.matchers if m not in codes))
        _need_rule(self)

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """What it is on, as plain data."""
        return cast("tuple[Matcher, ...]", self.on)

    def matches(self, fault: Fault) -> bool:
        """Whether it judges this fault; codes, by far the most common, cost one look."""
        return fault.code in self._codes or bool(self._others and matches(self._others, fault))

    @property
    def has_own_count(self) -> bool:
        """Whether its curve follows its own failures rather than the policy's attempts."""
        return self.max_attempts is not None or not self.counts

    @property
    def title(self) -> str:
        """What it matches, in words."""
        return ", ".join(map(str, self.matchers))

    def content(self) -> dict[str, object]:
        """The rule as the table that gives an equal one."""
        table: dict[str, object] = {
            "on": [str(m) if isinstance(m, FaultCode) else m for m in self.matchers],
            "retry": self.retry,
        }
        if self.retry:
            backoff = dataclasses.asdict(self.backoff)
            table |= {
                "max_attempts": self.max_attempts,
                "counts": self.counts,
                "needs_retry_after": self.needs_retry_after,
                "backoff": {k: v for k, v in backoff.items() if v not in (None, ())},
            }
        return {name: value for name, value in table.items() if value is not None}


def _need_rule(rule: Rule) -> None:
    """`PolicyError`, naming the field, unless the rule says something that can be done."""
    need_attempts(rule.max_attempts)
    for name in ("retry", "counts", "needs_retry_after"):
        found = getattr(rule, name)
        need(isinstance(found, bool), f"{name}: found {found!r}, expected true or false")
    need(isinstance(rule.backoff, Backoff), f"backoff: found {rule.backoff!r}, expected a Backoff")
    idle = (rule.max_attempts, rule.counts, rule.needs_retry_after, rule.backoff)
    need(
        rule.retry or idle == (None, True, False, USUAL),
        "retry: found False beside keys that would do nothing then; expected true, or none of them",
    )
    ended = ", ".join(sorted(FINAL_CODES.intersection(rule.matchers)))
    need(not rule.retry or not ended, f"on: found {ended}, which nothing retries")


WORKER_LOST = Rule(
    on=FaultCode.WORKER_LOST,
    max_attempts=5,
    counts=False,
    backoff=Backoff(curve="exponential", base_seconds=1, cap_seconds=60, jitter="equal"),
)
"""Every policy has this rule unless it names WORKER_LOST itself: a crash has its own allowance."""

FAIL_THE_REST = Rule(on="all", retry=False)
