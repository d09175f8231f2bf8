"""A policy turns a fault into a verdict: retry after a delay, or fail.

A policy is data: a name, an allowance of attempts, and rules. The first rule that matches the
fault judges it; `otherwise` judges the rest. Nothing here waits, stores or logs: the verdict is a
value, and whoever asked carries it out. Holding an upstream is the upstream's affair, never a
policy's verdict.

Counting. `attempt` is the number of the try that just failed, counting only tries that counted:
1 + the earlier failures whose verdict said so. A rule's own allowance counts only failures that
the same rule judged, which is why `decide` takes the earlier faults; without them it assumes that
every earlier attempt failed by the same rule. A rule that does not count is bound by its own
allowance and by time, never by the policy's `max_attempts`.

Retry-After is a lower bound. The wait is the hint plus a spread, so that all who were told the
same do not come back together; our own curve may make it longer, never shorter.
"""

import dataclasses
import hashlib
import json
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Literal, ParamSpec, TypeVar

from seawall.decisions.backoff import LONGEST_SECONDS, Backoff, Window
from seawall.decisions.matching import Matcher, Matchers, matches, normalised
from seawall.faults import FINAL_CODES, Fault, FaultCode

P = ParamSpec("P")
R = TypeVar("R")

Reason = Literal["fatal", "exhausted", "deadline"]

MOST_RULES = 100
MOST_ATTEMPTS = 1_000_000
SPREAD_LEAST_SECONDS = 5.0
SPREAD_MOST_SECONDS = 20.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after the delay. `counts`: this failure used up one of the policy's attempts."""

    delay_seconds: float
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Fail:
    """No further attempt.

    fatal: trying again cannot help. exhausted: it might have, but the allowance is used up.
    deadline: the next attempt would come later than the policy's time allows.
    """

    reason: Reason


Verdict = Retry | Fail

CAREFUL = Backoff(curve="exponential", base_seconds=2, cap_seconds=300, jitter="equal")
"""The back-off of a rule that names none."""


def _need_attempts(found: int | None) -> None:
    """`ValueError` unless this is an allowance of attempts."""
    if found is not None and (isinstance(found, bool) or not 1 <= found <= MOST_ATTEMPTS):
        raise ValueError(f"max_attempts: found {found!r}, expected 1 to {MOST_ATTEMPTS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do about the faults that it is `on`; see `matching` for how those are named."""

    on: InitVar[Matchers]
    matchers: tuple[Matcher, ...] = field(init=False)
    _codes: frozenset[FaultCode] = field(init=False, repr=False, compare=False)
    _others: tuple[Matcher, ...] = field(init=False, repr=False, compare=False)
    retry: bool = True
    max_attempts: int | None = None
    """How many attempts may fail by this rule before it gives up; None leaves it to the policy."""
    counts: bool = True
    """Whether such a failure uses up one of the policy's attempts."""
    needs_retry_after: bool = False
    """Retry only where the upstream said when."""
    backoff: Backoff = CAREFUL

    def __post_init__(self, on: Matchers) -> None:
        found = normalised(on)
        codes = frozenset(matcher for matcher in found if isinstance(matcher, FaultCode))
        object.__setattr__(self, "matchers", found)
        object.__setattr__(self, "_codes", codes)
        object.__setattr__(self, "_others", tuple(m for m in found if m not in codes))
        _need_attempts(self.max_attempts)

    def matches(self, fault: Fault) -> bool:
        """Whether it judges this fault; codes, by far the most common, cost one look."""
        return fault.code in self._codes or bool(self._others and matches(self._others, fault))

    @property
    def title(self) -> str:
        """What it matches, in words."""
        return ", ".join(map(str, self.matchers))


WORKER_LOST = Rule(
    on=FaultCode.WORKER_LOST,
    max_attempts=5,
    counts=False,
    backoff=Backoff(curve="exponential", base_seconds=1, cap_seconds=60, jitter="equal"),
)
"""Every policy has this rule unless it names WORKER_LOST itself: a crash has its own allowance."""

FAIL_THE_REST = Rule(on="all", retry=False)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision before its delay is drawn: which rule, its how-manieth failure, what it allows."""

    rule: Rule
    own: int
    """How many attempts have now failed by this rule."""
    reason: Reason | None = None
    """Why there is no further attempt; None where there is one."""
    window: Window = (0.0, 0.0)
    """The least and the greatest delay."""
    remaining_seconds: float | None = None
    """What is left of the policy's time."""

    def verdict(self, rng: random.Random) -> Verdict:
        """The verdict, with the delay drawn evenly from the window."""
        if self.reason is not None:
            return Fail(self.reason)
        least, most = self.window
        delay = min(most, least + (most - least) * rng.random())
        if self.remaining_seconds is not None and delay > self.remaining_seconds:
            return Fail("deadline")
        return Retry(delay, self.rule.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules for faults, with an allowance of attempts and of time."""

    name: str
    max_attempts: int | None = None
    """Attempts in all, the first included."""
    max_elapsed_seconds: float | None = None
    """From the first attempt on: a retry that would begin later fails as `deadline`."""
    max_wait_seconds: float | None = None
    """A Retry-After beyond this fails as `deadline`: somebody is waiting for the answer."""
    rules: Sequence[Rule] = ()
    otherwise: Rule = FAIL_THE_REST
    description: str = ""
    notes: str = ""
    version: str = field(init=False, compare=False)
    """A hash of the content: two policies that decide alike have the same version."""

    def __post_init__(self) -> None:
        rules = tuple(self.rules)
        if not any(FaultCode.WORKER_LOST in rule.matchers for rule in rules):
            rules = (*rules, WORKER_LOST)
        object.__setattr__(self, "rules", rules)
        _need_policy(self)
        text = json.dumps(self.content(), sort_keys=True, separators=(",", ":"))
        object.__setattr__(self, "version", hashlib.sha256(text.encode()).hexdigest()[:12])

    @property
    def id(self) -> str:
        """Name and version: what an attempt records of the policy that judged it."""
        return f"{self.name}@{self.version}"

    def decide(
        self,
        fault: Fault,
        *,
        attempt: int,
        rng: random.Random,
        elapsed_seconds: float = 0.0,
        earlier: Sequence[Fault | FaultCode] | None = None,
        previous_delay_seconds: float | None = None,
    ) -> Verdict:
        """The verdict on an attempt that just failed; see `judge` for the arguments."""
        return self.judge(
            fault,
            attempt=attempt,
            elapsed_seconds=elapsed_seconds,
            earlier=earlier,
            previous_delay_seconds=previous_delay_seconds,
        ).verdict(rng)

    def judge(
        self,
        fault: Fault,
        *,
        attempt: int,
        elapsed_seconds: float = 0.0,
        earlier: Sequence[Fault | FaultCode] | None = None,
        previous_delay_seconds: float | None = None,
    ) -> Judgement:
        """All of a decision but the draw.

        `attempt` is the counted try that just failed, from 1; `elapsed_seconds` runs from the
        first attempt's start; `earlier` are the faults of the attempts before this one, in this
        cycle and stage; `previous_delay_seconds` is the wait before this attempt.
        """
        if attempt < 1:
            raise ValueError(f"attempt: found {attempt}, expected 1 or more")
        rule = self.rule_for(fault)
        own = attempt if earlier is None else 1 + self._failed_by(rule, earlier)
        reason = self._reason_to_fail(rule, fault, attempt, own)
        if reason is not None:
            return Judgement(rule, own, reason)
        window = self._window(rule, fault, own, previous_delay_seconds)
        if self.max_elapsed_seconds is None:
            return Judgement(rule, own, None, window)
        remaining = self.max_elapsed_seconds - elapsed_seconds
        return Judgement(
            rule, own, "deadline" if window[0] > remaining else None, window, remaining
        )

    def rule_for(self, fault: Fault) -> Rule:
        """The rule that judges this fault: the first that matches, else `otherwise`."""
        if fault.code is FaultCode.WORKER_LOST:  # its own allowance, even where a rule takes "all"
            return next(rule for rule in self.rules if fault.code in rule.matchers)
        for rule in self.rules:
            if rule.matches(fault):
                return rule
        return self.otherwise

    def content(self) -> dict[str, object]:
        """Everything that decides, as plain data, defaults included; not the name or the prose."""
        return {
            "max_attempts": self.max_attempts,
            "max_elapsed_seconds": self.max_elapsed_seconds,
            "max_wait_seconds": self.max_wait_seconds,
            "rules": [_rule_content(rule) for rule in self.rules],
            "otherwise": _rule_content(self.otherwise),
        }

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` now, and again as this policy says; waits in this thread. See `inline`."""
        from seawall.decisions.inline import Inline  # noqa: PLC0415 - inline knows policies

        return Inline(self).call(fn, *args, **kwargs)

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The async twin of `call`: waits on the event loop."""
        from seawall.decisions.inline import Inline  # noqa: PLC0415 - inline knows policies

        return await Inline(self).acall(fn, *args, **kwargs)

    def _failed_by(self, rule: Rule, earlier: Sequence[Fault | FaultCode]) -> int:
        faults = (past if isinstance(past, Fault) else _BARE[FaultCode(past)] for past in earlier)
        return sum(self.rule_for(past) is rule for past in faults)

    def _reason_to_fail(self, rule: Rule, fault: Fault, attempt: int, own: int) -> Reason | None:
        hint = fault.retry_after_seconds
        if fault.final or fault.code in FINAL_CODES or not rule.retry:
            return "fatal"
        if rule.needs_retry_after and hint is None:
            return "fatal"
        if rule.max_attempts is not None and own >= rule.max_attempts:
            return "exhausted"
        if rule.counts and self.max_attempts is not None and attempt >= self.max_attempts:
            return "exhausted"
        if self.max_wait_seconds is not None and hint is not None and hint > self.max_wait_seconds:
            return "deadline"
        return None

    def _window(self, rule: Rule, fault: Fault, own: int, previous: float | None) -> Window:
        """Our own window, lifted by what the upstream asked for.

        A hint below the cap leaves the cap in force; a hint that reaches it is spread beyond it.
        """
        least, most = rule.backoff.window(own, previous)
        hint = fault.retry_after_seconds
        if hint is None:
            return least, most
        top = hint + min(SPREAD_MOST_SECONDS, max(SPREAD_LEAST_SECONDS, hint))
        for bound in (rule.backoff.cap_seconds, self.max_wait_seconds):
            if bound is not None and hint < bound:
                top = min(top, bound)
        return max(least, hint), max(most, top)


_BARE: dict[FaultCode, Fault] = {code: Fault(code) for code in FaultCode}


def _rule_content(rule: Rule) -> dict[str, object]:
    return {
        "on": [str(m) if isinstance(m, FaultCode) else m for m in rule.matchers],
        "retry": rule.retry,
        "max_attempts": rule.max_attempts,
        "counts": rule.counts,
        "needs_retry_after": rule.needs_retry_after,
        "backoff": dataclasses.asdict(rule.backoff) if rule.retry else None,
    }


def _need_policy(policy: Policy) -> None:
    """`ValueError`, naming the field, unless the policy can judge and will end."""
    if not _NAME.fullmatch(policy.name):
        raise ValueError(
            f"name: found {policy.name!r}, expected letters, digits, '.', '_', '-', at most 100"
        )
    _need_attempts(policy.max_attempts)
    for name in ("max_elapsed_seconds", "max_wait_seconds"):
        found = getattr(policy, name)
        if found is not None and not 0 < found <= LONGEST_SECONDS:
            raise ValueError(f"{name}: found {found!r}, expected a number of seconds above 0")
    if len(policy.rules) > MOST_RULES:
        raise ValueError(f"rules: found {len(policy.rules)}, expected at most {MOST_RULES}")
    for place, rule in [*enumerate(policy.rules), ("otherwise", policy.otherwise)]:
        endless = rule.max_attempts is None and (policy.max_attempts is None or not rule.counts)
        if rule.retry and endless and policy.max_elapsed_seconds is None:
            where = place if place == "otherwise" else f"rules[{place}]"
            raise ValueError(
                f"{where} ({rule.title}): would retry for ever; give the rule max_attempts, "
                "or the policy max_attempts or max_elapsed_seconds"
            )
