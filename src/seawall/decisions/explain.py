"""A decision in words: which rule judged, why, and what the delay is made of.

It takes the very judgement that `Policy.decide` acts on, so that the words cannot differ from the
deed.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seawall.decisions.backoff import Backoff, Window
from seawall.decisions.policy import Fail, Judgement, Policy, Verdict
from seawall.decisions.rule import Rule
from seawall.faults import FINAL_CODES, Fault, FaultCode

MOST_ROWS = 15
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict and the sentences that lead to it."""

    verdict: Verdict
    attempt: int
    rule: str
    window: Window | None
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """One line of a rule's schedule: after this many failures by it, wait this long."""

    failure: int
    least_seconds: float
    most_seconds: float
    sum_seconds: float
    """All waits of this rule so far, in the middle of their windows."""


def explain(
    policy: Policy,
    fault: Fault,
    *,
    attempt: int,
    rng: random.Random,
    elapsed_seconds: float = 0.0,
    earlier: Sequence[Fault | FaultCode] | None = None,
) -> Explanation:
    """The verdict on this fault, with its reasons."""
    judgement = policy.judge(
        fault, attempt=attempt, elapsed_seconds=elapsed_seconds, earlier=earlier
    )
    verdict = judgement.verdict(rng)
    sentences = (
        f"{fault.code}: {fault.code.meaning}",
        _who_judges(policy, judgement.rule),
        *_allowance(policy, judgement, attempt),
        *(_why_not(policy, judgement, fault) if isinstance(verdict, Fail) else ()),
        *(_delay(judgement, fault, attempt) if judgement.reason is None else ()),
        *_clock(policy, judgement, verdict),
    )
    window = judgement.window if judgement.reason is None else None
    return Explanation(verdict, attempt, rule_name(policy, judgement.rule), window, sentences)


def rule_name(policy: Policy, rule: Rule) -> str:
    """How people refer to a rule: by its number, from 1, or as `otherwise`."""
    numbers = (place for place, one in enumerate(policy.rules, 1) if one is rule)
    number = next(numbers, None)
    return "otherwise" if number is None else f"rule {number}"


def schedule(policy: Policy, rule: Rule) -> list[Wait]:
    """Every wait that the rule allows, or the first of them where they have no number."""
    if not rule.retry:
        return []
    limits = [rule.max_attempts, policy.max_attempts if rule.counts else None]
    retries = min((limit - 1 for limit in limits if limit is not None), default=MOST_ROWS)
    waits: list[Wait] = []
    total, previous = 0.0, None
    for failure in range(1, min(retries, MOST_ROWS) + 1):
        least, most = rule.backoff.window(failure, previous)
        previous = (least + most) / 2
        total += previous
        waits.append(Wait(failure, least, most, total))
    return waits


def in_words(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds > 0 and round(seconds, 3) < 1:
        return f"{seconds * 1_000:.0f} ms"
    if round(seconds, 1) < 2 * _MINUTE:
        text = f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"
        return text.rstrip("0").rstrip(".") + " s"
    for least, size, unit, smaller, name in (
        (2 * _DAY, _DAY, "d", _HOUR, "h"),
        (_HOUR, _HOUR, "h", _MINUTE, "min"),
        (0, _MINUTE, "min", 1, "s"),
    ):
        rounded = round(seconds / smaller) * smaller
        if rounded >= least:
            rest = rounded % size // smaller
            return f"{rounded // size} {unit}" + (f" {rest} {name}" if rest else "")
    raise AssertionError(seconds)


def window_in_words(window: Window) -> str:
    least, most = window
    if least == most:
        return in_words(most)
    return f"{in_words(least)} – {in_words(most)}"


def backoff_in_words(backoff: Backoff) -> str:
    """The curve, jitter and cap in one line."""
    base = in_words(backoff.base_seconds)
    curve = {
        "fixed": f"always {base}",
        "linear": f"{base} more each time",
        "exponential": f"{base}, ×{backoff.factor:g} each time",
        "decorrelated": f"{base} to 3× the last wait, drawn anew",
        "schedule": " / ".join(in_words(s) for s in backoff.schedule_seconds),
    }[backoff.curve]
    jitter = {
        "none": "",
        "full": ", full jitter (0 to all of it)",
        "equal": ", equal jitter (half to all of it)",
        "proportional": f", ±{backoff.jitter_ratio or 0:.0%}",
        "additive": f", plus 0 to {in_words(backoff.jitter_seconds or 0)}",
    }[backoff.jitter or "none"]
    cap = "" if backoff.cap_seconds is None else f", at most {in_words(backoff.cap_seconds)}"
    return curve + jitter + cap


def remarks(rule: Rule) -> list[str]:
    """What a retrying rule does, in a few words each."""
    failures = f"{rule.max_attempts} failure{'s' if rule.max_attempts != 1 else ''} by this rule"
    return [
        backoff_in_words(rule.backoff),
        *([failures] if rule.max_attempts else []),
        *([] if rule.counts else ["uses up no attempt"]),
        *(["only with a Retry-After"] if rule.needs_retry_after else []),
    ]


def limits_in_words(policy: Policy) -> str:
    """What bounds the whole policy, whichever rule judges."""
    said = []
    if policy.max_attempts is not None:
        several = "s" if policy.max_attempts > 1 else ""
        said.append(f"{policy.max_attempts} attempt{several} in all")
    if policy.max_elapsed_seconds is not None:
        said.append(f"{in_words(policy.max_elapsed_seconds)} from the first attempt on")
    if policy.max_wait_seconds is not None:
        said.append(f"no Retry-After beyond {in_words(policy.max_wait_seconds)}")
    return ", ".join(said) or "those of each rule"


def _who_judges(policy: Policy, rule: Rule) -> str:
    name = rule_name(policy, rule)
    if name == "otherwise":
        return f"No rule of {policy.name} is on it, so `otherwise` judges it."
    if FaultCode.WORKER_LOST in rule.matchers:
        return f"{name.capitalize()} of {policy.name} judges lost workers: they have their own."
    return f"{name.capitalize()} of {policy.name} judges it, the first that matches: {rule.title}."


def _allowance(policy: Policy, judgement: Judgement, attempt: int) -> Iterator[str]:
    rule = judgement.rule
    if not rule.retry:
        return
    if rule.max_attempts is not None:
        yield f"This is failure {judgement.own} of the {rule.max_attempts} that the rule allows."
    if not rule.counts:
        yield "Such a failure uses up none of the policy's attempts."
    elif policy.max_attempts is not None:
        yield f"This was attempt {attempt} of {policy.max_attempts}."


def _why_not(policy: Policy, judgement: Judgement, fault: Fault) -> Iterator[str]:
    if judgement.reason == "exhausted":
        yield "The allowance is used up."
    elif judgement.reason == "fatal":
        if fault.code in FINAL_CODES:
            yield "No policy retries what a person or a deadline has ended."
        elif fault.final:
            yield "The upstream said not to try again."
        elif judgement.rule.needs_retry_after and judgement.rule.retry:
            yield "The rule retries only where the upstream says when, and it did not."
        else:
            yield "The rule does not retry: the same attempt would end the same way."
    elif policy.max_wait_seconds is not None and judgement.remaining_seconds is None:
        yield (
            f"The upstream asked for {in_words(fault.retry_after_seconds or 0)}; the policy "
            f"waits {in_words(policy.max_wait_seconds)} at most."
        )


def _delay(judgement: Judgement, fault: Fault, attempt: int) -> Iterator[str]:
    backoff = judgement.rule.backoff
    number = judgement.own if judgement.rule.has_own_count else attempt
    own = window_in_words(backoff.window(number))
    yield f"Its own wait: {backoff_in_words(backoff)}; after failure {number}: {own}."
    hint = fault.retry_after_seconds
    if hint is not None:
        yield (
            f"The upstream asked for {in_words(hint)}. That is the least; the rest spreads those "
            f"who were told the same: {window_in_words(judgement.window)}."
        )


def _clock(policy: Policy, judgement: Judgement, verdict: Verdict) -> Iterator[str]:
    left, limit = judgement.remaining_seconds, policy.max_elapsed_seconds
    if left is None or limit is None:
        return
    if isinstance(verdict, Fail):
        yield (
            f"The policy allows {in_words(limit)} from the first attempt on, of which "
            f"{in_words(max(0.0, left))} is left; the wait is {window_in_words(judgement.window)}."
        )
    else:
        yield f"The policy allows {in_words(limit)} from the first attempt on."
