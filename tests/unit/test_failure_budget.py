"""The failure budget: by its bounds, by its promises, and over whole simulated runs."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.decisions.failure_budget import (
    FEWEST_OF_A_TELLING_CODE,
    FEWEST_OF_ONE_FINGERPRINT,
    Cause,
    FailureBudget,
    Passage,
    Standing,
    judge,
    least_failure_rate,
    status,
)
from seawall.faults import FaultCode

BUDGET = FailureBudget()
ITEMS = 10_000
COUNTS = st.integers(0, 3_000)
SHARES = st.sampled_from([0.01, 0.05, 0.07, 0.1, 0.29, 0.5]) | st.floats(0.001, 0.999)
CODES = st.sampled_from(list(FaultCode))
CAUSES = st.lists(
    st.builds(Cause, st.sampled_from(["a", "b", "c"]), CODES, st.integers(0, 3_000)), max_size=5
)
STANDINGS = st.builds(
    Standing,
    succeeded=COUNTS, skipped=COUNTS, failed=COUNTS, cancelled=COUNTS,
    total=st.none() | st.integers(0, 15_000),
    causes=CAUSES.map(tuple),
)  # fmt: skip


def stands(failed, finished, *, total=None, causes=(), **counts):
    return Standing(
        total=total, succeeded=finished - failed, failed=failed, causes=tuple(causes), **counts
    )


def aborted_at(rate, seed, *, budget=BUDGET, items=ITEMS, sealed=False):
    """After how many items a run is aborted that is judged at every settlement; None if never."""
    chance, failed = random.Random(seed), 0
    for finished in range(1, items + 1):
        fails = chance.random() < rate
        failed += fails
        if fails and judge(budget, stands(failed, finished, total=items if sealed else None)):
            return finished
    return None


@pytest.mark.parametrize("sealed", [False, True])
def test_of_200_runs_just_below_the_budget_at_most_2_are_aborted(sealed):
    aborted = [seed for seed in range(200) if aborted_at(0.09, seed, sealed=sealed)]
    assert len(aborted) <= 2


def test_of_200_runs_at_the_budget_itself_hardly_one_in_a_hundred_is_aborted():
    aborted = [seed for seed in range(200) if aborted_at(0.10, seed, items=4_000)]
    assert len(aborted) <= 5


def test_a_plain_threshold_would_abort_runs_that_the_margin_lets_go_on():
    def crosses(seed):
        chance, failed = random.Random(seed), 0
        for finished in range(1, ITEMS + 1):
            failed += chance.random() < 0.09
            if finished >= BUDGET.minimum and failed / finished > 0.10:
                return True
        return False

    assert sum(crosses(seed) for seed in range(200)) > 20


@pytest.mark.parametrize("seed", range(30))
def test_twenty_percent_abort_soon_after_the_minimum_and_not_before(seed):
    at = aborted_at(0.20, seed)
    assert BUDGET.minimum <= at <= BUDGET.minimum + 100


@pytest.mark.parametrize("seed", range(10))
def test_eleven_and_a_half_percent_abort_by_the_end_once_all_items_are_known(seed):
    assert aborted_at(0.115, seed, sealed=True) is not None


def test_eleven_percent_abort_when_no_outcome_of_the_rest_can_help():
    # Every ninth item fails, a little over 11 %.
    def after(finished):
        return judge(BUDGET, stands(finished // 9, finished, total=ITEMS))

    first = next(finished for finished in range(1, ITEMS) if after(finished))
    assert first == 9 * 1_001
    assert after(first).kind == "certain"


@pytest.mark.parametrize("items", [50, 200, 999])
def test_a_run_shorter_than_the_minimum_is_judged_exactly_once_it_is_known(items):
    allowed = items // 10
    assert judge(BUDGET, stands(allowed, allowed, total=items)) is None
    assert judge(BUDGET, stands(allowed + 1, allowed + 1, total=items)).kind == "certain"
    assert judge(BUDGET, stands(allowed + 1, allowed + 1)) is None


def test_one_bad_item_of_a_few_does_not_stop_the_others():
    assert judge(BUDGET, stands(1, 1, total=3)) is None
    assert judge(BUDGET, stands(2, 2, total=3)) is not None
    assert judge(FailureBudget(share=0), stands(1, 1, total=3)) is not None


def test_skipped_and_cancelled_items_are_no_excuse():
    assert judge(BUDGET, stands(10, 10, total=100)) is None
    assert judge(BUDGET, stands(10, 10, total=100, skipped=1)) is not None
    assert judge(BUDGET, stands(10, 10, total=100, cancelled=1)) is not None


@given(STANDINGS, SHARES)
def test_once_all_are_known_a_run_is_certain_exactly_when_the_rest_cannot_help(standing, share):
    abort = judge(FailureBudget(share=share, minimum=10**9), standing)
    if standing.total is None:
        assert abort is None or abort.kind == "systematic"
        return
    neither = standing.skipped + standing.cancelled
    judged = max(standing.total - neither, standing.finished)
    # The share is the decimal number that somebody wrote, not the float nearest to it.
    lost = judged > 0 and Fraction(standing.failed, judged) > Fraction(repr(share))
    if abort is not None and abort.kind == "certain":
        assert lost
    if abort is None:
        assert not lost or standing.failed == 1


@given(STANDINGS)
def test_a_budget_of_none_or_of_all_never_aborts(standing):
    assert judge(FailureBudget(share=None), standing) is None
    assert judge(FailureBudget(share=1), standing) is None


@given(STANDINGS, SHARES, st.integers(1, 2_000), COUNTS)
def test_more_successes_never_bring_an_abort_about(standing, share, minimum, more):
    budget = FailureBudget(share=share, minimum=minimum)
    counts = {name: getattr(standing, name) for name in ("skipped", "failed", "cancelled")}
    better = Standing(succeeded=standing.succeeded + more, causes=standing.causes, **counts)
    before = judge(budget, Standing(succeeded=standing.succeeded, causes=standing.causes, **counts))
    if before is None and standing.finished >= minimum:
        assert judge(budget, better) is None


@settings(max_examples=300)
@given(STANDINGS, SHARES, st.integers(1, 2_000))
def test_a_likely_abort_is_one_whose_lower_bound_is_above_the_share(standing, share, minimum):
    budget = FailureBudget(share=share, minimum=minimum)
    bound = least_failure_rate(standing.failed, standing.finished, budget.confidence)
    abort = judge(budget, standing)
    if abort is None and standing.finished >= minimum:
        assert bound <= share * (1 + 1e-9)
    if abort is not None and abort.kind == "likely":
        assert bound >= share * (1 - 1e-9)
        assert standing.finished >= minimum


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.5, 0.999999))
def test_the_lower_bound_is_below_what_was_seen(failed, succeeded, confidence):
    finished = failed + succeeded
    bound = least_failure_rate(failed, finished, confidence)
    assert 0 <= bound <= (failed / finished if finished else 0)


def test_the_lower_bound_comes_closer_with_more_items():
    bounds = [least_failure_rate(n // 5, n) for n in (10, 100, 1_000, 10_000, 1_000_000)]
    assert bounds == sorted(bounds)
    assert bounds[2] > 0.15
    assert bounds[-1] > 0.197


def cause(code, count, fingerprint="f", message="no", job_id=7):
    return Cause(fingerprint, code, count, message, job_id)


@pytest.mark.parametrize("code", ["UNAUTHORIZED", "CONFIG_MISSING", "QUOTA_EXHAUSTED"])
def test_a_bad_key_aborts_within_twenty_items_far_below_the_minimum(code):
    def after(count):
        return judge(BUDGET, stands(count, count, causes=[cause(code, count)]))

    assert after(FEWEST_OF_A_TELLING_CODE - 1) is None
    abort = after(FEWEST_OF_A_TELLING_CODE)
    assert (abort.kind, abort.rate) == ("systematic", 1.0)
    assert FEWEST_OF_A_TELLING_CODE <= 20


def test_a_bad_key_is_one_cause_whatever_its_words():
    causes = [cause("UNAUTHORIZED", 2, fingerprint=str(at)) for at in range(5)]
    assert judge(BUDGET, stands(10, 10, causes=causes)).kind == "systematic"


@pytest.mark.parametrize("code", sorted(set(FaultCode) - {"WORKER_LOST", "CANCELLED", "EXPIRED"}))
def test_one_fingerprint_for_everything_aborts_within_twenty_items(code):
    count = FEWEST_OF_ONE_FINGERPRINT
    assert judge(BUDGET, stands(count, count, causes=[cause(code, count)])).kind == "systematic"
    assert count <= 20


@pytest.mark.parametrize("code", ["WORKER_LOST", "CANCELLED", "EXPIRED"])
def test_lost_workers_cancelled_and_late_items_are_no_systematic_cause(code):
    assert judge(BUDGET, stands(500, 500, causes=[cause(code, 500)])) is None


def test_a_few_successes_do_not_hide_a_bad_key_but_many_do():
    bad = [cause("UNAUTHORIZED", 18)]
    assert judge(BUDGET, stands(18, 20, causes=bad)).kind == "systematic"
    assert judge(BUDGET, stands(18, 21, causes=bad)) is None


def at_two_stages(*passages, causes):
    """A run whose second stage is slow, or held: what the first threw out has finished first."""
    failed = sum(each.failed for each in passages)
    return Standing(
        failed=failed, succeeded=passages[-1].past, causes=tuple(causes), stages=passages
    )


@pytest.mark.parametrize("code", ["UNAUTHORIZED", "CONFIG_MISSING", "QUOTA_EXHAUSTED"])
def test_bad_data_of_an_earlier_stage_does_not_hide_a_bad_key(code):
    bad = Cause("data", "INVALID_INPUT", 100, stage=0)
    key = Cause("key", code, 10, stage=1)
    abort = judge(BUDGET, at_two_stages(Passage(100, 900), Passage(10, 0), causes=[bad, key]))
    assert (abort.kind, abort.cause) == ("systematic", key)
    assert (
        judge(BUDGET, at_two_stages(Passage(100, 900), Passage(10, 2), causes=[bad, key])) is None
    )


def test_bad_data_is_no_systematic_cause_while_the_others_wait_for_a_later_stage():
    bad = [Cause("data", "INVALID_INPUT", 100)]
    assert judge(BUDGET, at_two_stages(Passage(100, 9_900), Passage(0, 0), causes=bad)) is None
    abort = judge(BUDGET, at_two_stages(Passage(100, 5), Passage(0, 0), causes=bad))
    assert abort.kind == "systematic"


def test_a_run_is_not_likely_to_fail_because_what_fails_finishes_first():
    assert judge(BUDGET, at_two_stages(Passage(5_000, 95_000), Passage(0, 50), causes=[])) is None
    abort = judge(BUDGET, at_two_stages(Passage(5_000, 40_000), Passage(0, 50), causes=[]))
    assert abort.kind == "likely"
    small = at_two_stages(Passage(600, 9_400), Passage(600, 8_800), causes=[])  # 6 % and 6.4 %
    assert judge(BUDGET, small).kind == "likely"


def test_different_faults_are_no_systematic_cause():
    causes = [cause("INVALID_INPUT", 5, fingerprint=str(at)) for at in range(100)]
    assert judge(BUDGET, stands(500, 500, causes=causes)) is None


@pytest.mark.parametrize("rate", [0.05, 0.10, 0.30])
def test_scattered_bad_data_of_one_kind_is_no_systematic_cause(rate):
    for seed in range(20):
        chance, failed = random.Random(seed), 0
        for finished in range(1, BUDGET.minimum):
            failed += chance.random() < rate
            bad = [cause("INVALID_INPUT", failed)]
            assert judge(BUDGET, stands(failed, finished, causes=bad)) is None


def test_the_reason_tells_the_rate_the_count_the_commonest_fault_and_a_sample():
    causes = [
        cause("TIMEOUT", 14, "t", "no answer", 3),
        cause("INVALID_INPUT", 200, "i", "page 3 of\n/srv/files/a.pdf is no image", 91),
    ]
    abort = judge(BUDGET, stands(214, 1_003, causes=causes))
    assert abort.reason == (
        "failed 214 of 1,003 finished items (21.3 %), above its budget of 10 %; "
        "commonest, 200 times: INVALID_INPUT: page 3 of …/a.pdf is no image (job 91)"
    )
    assert (abort.failed, abort.finished, abort.cause.job_id) == (214, 1_003, 91)


def test_the_reason_of_a_certain_and_of_a_systematic_abort():
    assert judge(BUDGET, stands(101, 901, total=1_000, skipped=0)).reason == (
        "failed 101 of 901 finished items (11.2 %), above its budget of 10 % "
        "even if all the rest of its 1,000 items succeed"
    )
    assert judge(BUDGET, stands(101, 1_000, total=1_000, skipped=0)).reason == (
        "failed 101 of 1,000 finished items (10.1 %), above its budget of 10 %"
    )
    bad = [cause("UNAUTHORIZED", 10, message="key is wrong")]
    assert judge(BUDGET, stands(10, 11, causes=bad)).reason == (
        "failed 10 of 11 items that came as far for one cause: UNAUTHORIZED: key is wrong (job 7)"
    )


@given(STANDINGS, SHARES)
def test_a_reason_is_one_line_and_its_figures_are_those_of_the_standing(standing, share):
    abort = judge(FailureBudget(share=share, minimum=1), standing)
    if abort is not None:
        assert len(abort.reason.splitlines()) == 1
        assert (abort.failed, abort.finished) == (standing.failed, standing.finished)
        assert abort.rate == standing.failed / standing.finished > share


@pytest.mark.parametrize(("succeeded", "failed", "word"), [
    (0, 0, "completed"), (95, 5, "completed"), (94, 6, "partial_success"),
    (50, 50, "partial_success"), (49, 51, "failed"), (0, 1, "failed"), (1, 0, "completed"),
    (949_999, 50_001, "partial_success"), (950_000, 50_000, "completed"),
])  # fmt: skip
def test_the_status_goes_by_the_success_rate(succeeded, failed, word):
    standing = Standing(succeeded=succeeded, failed=failed, skipped=1_000, total=10**7)
    assert status(BUDGET, standing) == word


def test_a_run_of_skipped_items_is_completed_and_one_of_cancelled_items_is_not():
    assert status(BUDGET, Standing(total=5, skipped=5)) == "completed"
    assert status(BUDGET, Standing(total=0)) == "completed"
    assert status(BUDGET, Standing(total=5, cancelled=5)) == "failed"
    assert status(BUDGET, Standing(total=10, succeeded=6, cancelled=4)) == "partial_success"


@given(STANDINGS, st.floats(0, 1), st.floats(0, 1))
def test_another_success_never_worsens_the_status(standing, one, other):
    budget = FailureBudget(complete_at=max(one, other), partial_at=min(one, other))
    order = ("failed", "partial_success", "completed")
    counts = {name: getattr(standing, name) for name in ("skipped", "failed", "cancelled")}
    better = Standing(succeeded=standing.succeeded + 1, **counts)
    assert order.index(status(budget, better)) >= order.index(status(budget, standing))


@pytest.mark.parametrize(("name", "value"), [
    ("share", -0.1), ("share", 1.1), ("share", math.nan), ("share", True), ("share", "0.1"),
    ("minimum", 0), ("minimum", -1), ("minimum", 1.5), ("minimum", True), ("minimum", None),
    ("confidence", 1), ("confidence", 0.4), ("confidence", math.nan),
    ("complete_at", 1.1), ("complete_at", -0.1), ("complete_at", math.nan), ("complete_at", None),
    ("partial_at", 0.96), ("partial_at", -0.1), ("partial_at", math.nan),
])  # fmt: skip
def test_a_budget_that_cannot_be_is_refused_by_the_name_of_its_field(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: found ") as refused:
        FailureBudget(**{name: value})
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize("name", ["total", "succeeded", "skipped", "failed", "cancelled"])
def test_a_count_below_nought_is_refused(name):
    with pytest.raises(ValueError, match=rf"^{name}: found -1, expected 0 or more$"):
        Standing(**{name: -1})


def test_a_cause_with_a_code_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="no fault code"):
        Cause("f", "NO_SUCH_CODE", 1)
