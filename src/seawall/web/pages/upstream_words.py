"""An upstream in plain words: how it is, and what was said about it."""

from collections.abc import Iterator

from seawall.decisions.breaker import Breaker
from seawall.decisions.explain import backoff_in_words, in_words
from seawall.decisions.limits import Limits
from seawall.decisions.upstream import Upstream
from seawall.upstreams import UpstreamView
from seawall.web.pages.wording import many


def state_of(view: UpstreamView) -> tuple[str, str]:
    """How it is: a kind that the style knows, and a word."""
    if view.forced == "open":
        return "held", "held by hand"
    if view.forced == "closed":
        return "sea", "let through by hand"
    if view.phase == "open":
        return "open", "asked to wait" if view.asked else "held"
    if view.phase == "half_open":
        return "half_open", "being tried"
    return ("closed", "well") if view.share >= 1 else ("run", f"let go, {view.share:.0%}")


def told(view: UpstreamView) -> str:
    """How it is, in a sentence; when it ends is told beside it."""
    free = "no attempt is used up"
    if view.forced == "open":
        return f"Somebody holds it: none of its jobs begins, and {free}."
    if view.forced is not None:
        return "Somebody lets everything through, whatever its breaker thinks."
    if view.phase == "open":
        again = f", {view.openings} times in a row" if view.openings > 1 else ""
        what = "It asked to be left alone" if view.asked else f"It is not answering{again}"
        return f"{what}: its jobs wait, and {free}."
    if view.phase == "half_open":
        return "It is being tried with few calls; the rest waits until they go well."
    if view.share < 1:
        return f"It answers again: its jobs are let go little by little, {view.share:.0%} by now."
    lately = "" if view.calls else "; nothing called it in the last minute"
    return f"It is called as jobs need it{lately}."


def breaker_in_words(upstream: Upstream) -> list[str]:
    """When it is held, for how long, and how it is let go."""
    breaker = upstream.breaker
    lines = [_opening(breaker)]
    if upstream.quorum > 1:
        lines.append(
            f"Where several workers call it, {upstream.quorum} of them must have seen failures."
        )
    lines.append(f"Held for {backoff_in_words(breaker.open)}.")
    calls = many(breaker.probes, "call")
    probe = f"{calls} at a time"
    if upstream.probe is not None:
        probe = "a health probe, instead of a job,"
    wins, losses = breaker.successes_to_close, breaker.failures_to_reopen
    lines.append(
        f"Then {probe} {'tries' if breaker.probes == 1 or upstream.probe else 'try'} it:"
        f" {many(wins, 'success', 'successes')} {'lets' if wins == 1 else 'let'} it go,"
        f" {many(losses, 'failure')} {'holds' if losses == 1 else 'hold'} it again."
    )
    ramp = breaker.ramp_seconds
    how = f"little by little, within {in_words(ramp)}" if ramp else "at once"
    lines.append(f"What waited is let go {how}.")
    return lines


def _opening(breaker: Breaker) -> str:
    window = (
        f"the last {breaker.window_calls:,} calls"
        if breaker.window_seconds is None
        else f"the calls of the last {in_words(breaker.window_seconds)}"
    )
    reasons = []
    if breaker.consecutive_failures is not None:
        reasons.append(f"after {many(breaker.consecutive_failures, 'failure')} in a row")
    rates = []
    if breaker.failure_rate is not None:
        rates.append(f"{breaker.failure_rate:.0%} of {window} fail")
    if breaker.slow_call_seconds is not None:
        slow = in_words(breaker.slow_call_seconds)
        rates.append(f"{breaker.slow_call_rate:.0%} of {window} take {slow} or longer")
    if rates:
        reasons.append(f"when {' or '.join(rates)}")
    if not reasons:
        return "No failure holds it."
    judged = f" (judged from {many(breaker.minimum_calls, 'call')} on)" if rates else ""
    return f"Held {', or '.join(reasons)}{judged}; also for as long as it asks for by Retry-After."


def more_in_words(upstream: Upstream) -> Iterator[str]:
    """Its retry budget, and what one owner may use of it."""
    budget = upstream.retry_budget
    if budget is None:
        yield "Retries are not bounded: as many as policies want."
    else:
        yield (
            f"Of its first calls {budget.share:.0%} may be retried, and"
            f" {budget.floor_per_second:g} a second in any case, over any"
            f" {in_words(budget.window_seconds)}."
        )
    if upstream.each_owner is not None and upstream.each_owner.bounded:
        yield f"Each owner may use: {_limits_in_words(upstream.each_owner)}."
    if not upstream.limited:
        yield "How much of it is used is not limited."


def _limits_in_words(limits: Limits) -> str:
    said = [f"{most:,.6g} {unit} a minute" for unit, most in limits.per_minute.items()]
    if limits.concurrency is not None:
        said.insert(0, f"{limits.concurrency:,} calls at once")
    return ", ".join(said)
