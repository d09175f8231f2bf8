"""A policy turns a fault into a verdict: retry after a delay, or fail.

A policy is data: a name, an allowance of attempts, and rules. The first rule that matches the
fault judges it; `otherwise` judges the rest. Nothing here waits, stores or logs: the verdict is a
value, and whoever asked carries it out. Holding an upstream is the upstream's affair, never a
policy's verdict.

Counting. `attempt` is the number of the try that just failed, counting only tries that counted:
1 + the earlier failures whose verdict said so. A rule's own allowance counts only failures that
the same rule judged, which is why `decide` takes the earlier faults. Without them it assumes that
every earlier attempt failed by the same rule: then let `attempt` count every failure. A rule that
does not count is bound by its own allowance and by time, never by the policy's `max_attempts`. A
rule with an allowance of its own, or that does not count, has a curve of its own; the others share
the policy's count.

Retry-After is a lower bound. The wait is the hint plus a spread, so that all who were told the
same do not come back together; our own curve may make it longer, never shorter.
"""

import hashlib
import json
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, ParamSpec, TypeVar

from seawall.decisions.backoff import LONGEST_SECONDS, Window, is_number
from seawall.decisions.rule import FAIL_THE_REST, WORKER_LOST, Rule, need, need_attempts
from seawall.errors import PolicyError
from seawall.faults import FINAL_CODES, Fault, FaultCode

P = ParamSpec("P")
R = TypeVar("R")

Reason = Literal["fatal", "exhausted", "deadline"]

MOST_RULES = 100
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
"""What a policy decides: try again after a delay, or not any more."""


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
    """A hash of the content: equal policies have equal versions, whatever their names."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("max_elapsed_seconds", "max_wait_seconds"):
            found = getattr(self, name)
            need(
                found is None or (is_number(found) and 0 < found <= LONGEST_SECONDS),
                f"{name}: found {found!r}, expected a number of seconds above 0",
            )
            put(self, name, None if found is None else float(found))
        _need_policy(self)
        rules = tuple(self.rules)
        if not any(FaultCode.WORKER_LOST in rule.matchers for rule in rules):
            rules = (*rules, WORKER_LOST)
        put(self, "rules", rules)
        text = json.dumps(self.content(), sort_keys=True, separators=(",", ":"))
        put(self, "version", hashlib.sha256(text.encode()).hexdigest()[:12])

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
        own = attempt if earlier is None else 1 + self._failed_by(rule, fault, earlier)
        return self.judge_by(
            rule,
            fault,
            attempt=attempt,
            own=own,
            elapsed_seconds=elapsed_seconds,
            previous_delay_seconds=previous_delay_seconds,
        )

    def judge_by(
        self,
        rule: Rule,
        fault: Fault,
        *,
        attempt: int,
        own: int,
        elapsed_seconds: float = 0.0,
        previous_delay_seconds: float | None = None,
    ) -> Judgement:
        """As `judge`, for whoever keeps count of `own`, the attempts that failed by this rule."""
        reason = self._reason_to_fail(rule, fault, attempt, own)
        if reason is not None:
            return Judgement(rule, own, reason)
        window = self._window(rule, fault, attempt, own, previous_delay_seconds)
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
        """Everything that decides, as the table that gives an equal policy; no name, no prose."""
        table = {
            "max_attempts": self.max_attempts,
            "max_elapsed_seconds": self.max_elapsed_seconds,
            "max_wait_seconds": self.max_wait_seconds,
            "rules": [rule.content() for rule in self.rules],
            "otherwise": {k: v for k, v in self.otherwise.content().items() if k != "on"},
        }
        return {name: value for name, value in table.items() if value is not None}

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` now, and again as this policy says; waits in this thread. See `inline`."""
        from seawall.decisions.inline import Inline  # noqa: PLC0415 - inline knows policies

        return Inline(self).call(fn, *args, **kwargs)

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The async twin of `call`: waits on the event loop."""
        from seawall.decisions.inline import Inline  # noqa: PLC0415 - inline knows policies

        return await Inline(self).acall(fn, *args, **kwargs)

    def _failed_by(self, rule: Rule, fault: Fault, earlier: Sequence[Fault | FaultCode]) -> int:
        """How many of the earlier attempts this rule judged.

        A bare code says nothing of statuses and names; one that equals the present fault's is
        taken to have been the same trouble, so that no allowance is endless.
        """
        return sum(
            self.rule_for(past) is rule
            if isinstance(past, Fault)
            else past == fault.code or self.rule_for(_BARE[FaultCode(past)]) is rule
            for past in earlier
        )

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

    def _window(
        self, rule: Rule, fault: Fault, attempt: int, own: int, previous: float | None
    ) -> Window:
        """Our own window, lifted by what the upstream asked for.

        A hint below the cap leaves the cap in force; a hint that reaches it is spread beyond it.
        No spread goes beyond `max_wait_seconds`.
        """
        least, most = rule.backoff.window(own if rule.has_own_count else attempt, previous)
        hint = fault.retry_after_seconds
        if hint is None:
            return least, most
        top = hint + min(SPREAD_MOST_SECONDS, max(SPREAD_LEAST_SECONDS, hint))
        cap, limit = rule.backoff.cap_seconds, self.max_wait_seconds
        if cap is not None and hint < cap:
            top = min(top, cap)
        if limit is not None:
            top = min(top, limit)
        return max(least, hint), max(hint, most, top)


_BARE: dict[FaultCode, Fault] = {code: Fault(code) for code in FaultCode}


def _need_policy(policy: Policy) -> None:
    """`PolicyError`, naming the field, unless the policy can judge and will end."""
    need(
        isinstance(policy.name, str) and _NAME.fullmatch(policy.name) is not None,  # type: ignore[redundant-expr]
        f"name: found {policy.name!r}, expected letters, digits, '.', '_', '-', at most 100",
    )
    need_attempts(policy.max_attempts)
    need(
        isinstance(policy.rules, list | tuple),
        f"rules: found {policy.rules!r}, expected a list of rules",
    )
    count = len(policy.rules)
    need(count <= MOST_RULES, f"rules: found {count}, expected at most {MOST_RULES}")
    everything: str | None = None
    for place, rule in enumerate(policy.rules):
        where = f"rules[{place}]"
        need(isinstance(rule, Rule), f"{where}: found {rule!r}, expected a Rule")
        reached = everything is None or FaultCode.WORKER_LOST in rule.matchers
        need(reached, f"{where} ({rule.title}): is never reached, {everything} is on all")
        everything = everything or (where if "all" in rule.matchers else None)
        _need_end(policy, rule, f"{where} ({rule.title})")
    otherwise = policy.otherwise
    need(isinstance(otherwise, Rule), f"otherwise: found {otherwise!r}, expected a Rule")
    need(otherwise.matchers == ("all",), 'otherwise.on: expected "all": it judges the rest')
    _need_end(policy, otherwise, "otherwise")


def _need_end(policy: Policy, rule: Rule, where: str) -> None:
    """Refuse a rule by which a job could be retried for ever."""
    bounded = rule.max_attempts is not None or policy.max_elapsed_seconds is not None
    if not rule.retry or bounded or (rule.counts and policy.max_attempts is not None):
        return
    why = "" if rule.counts else "its failures use up none of the policy's attempts and "
    also = "max_attempts or " if rule.counts else ""
    raise PolicyError(
        f"{where}: {why}would retry for ever; give the rule max_attempts, "
        f"or the policy {also}max_elapsed_seconds"
    )
