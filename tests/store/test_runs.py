"""Runs: how they begin and end, and that their counts are those of their items, whatever happens."""

from collections import Counter

import pytest

from seawall.model import Lane, Outcome, Usage
from seawall.states import State
from seawall.store import Filter, Items, NewRun, RunStop, open_store
from seawall.store.values import MOST_ROWS, Advance, Redrive, Release, Scope
from tests.support.kinds import shared
from tests.support.ledger import at_once, ended, enqueued, lost, new_job, wanted

ENDS = {State.SUCCEEDED, State.SKIPPED, State.FAILED, State.CANCELLED}


def _new(name="monday", pipeline="work", stages=("fetch", "ask"), **fields):
    return NewRun(pipeline=pipeline, name=name, stages=stages, terms="{}", **fields)


def begun(store, name="monday"):
    return store.start_run(_new(name)).run_id


def lane(run, stage=0, **fields):
    return Lane(task="work", stage=stage, run=run, **fields)


def fed(store, run, many=1, **fields):
    return enqueued(store, *(new_job(lane=lane(run), run=run, **fields) for _ in range(many)))


def taken(store, run, many=1, **fields):
    """Items of the run, claimed."""
    fed(store, run, many, **fields)
    claims = store.claim(wanted(many))
    assert len(claims) == many
    return claims


def total(store, run):
    found = store.items(run)
    return Items(-1, *(sum(column) for column in list(zip(*found, strict=True))[1:]))


def exact(store, run):
    """The counts are those of the items that are there, and folding them changes nothing."""
    before = store.items(run)
    store.fold_runs()
    assert store.items(run) == before
    there = [job for job in store.page(Filter(run=run), limit=MOST_ROWS) if job.run == run]
    states = Counter(job.state for job in there)
    counted = total(store, run)
    assert counted.entered - counted.pruned == len(there)
    assert counted.ended - counted.pruned == sum(states[state] for state in ENDS)
    if not counted.pruned:
        assert {state: getattr(counted, state) for state in ENDS} == {s: states[s] for s in ENDS}
        by_stage = Counter(job.stage for job in there if job.state in ENDS)
        assert {each.stage: each.ended for each in before if each.ended} == dict(by_stage)
    running = sum(each.running for each in store.live_items(run))
    assert running == states[State.RUNNING]
    stops = [job.id for job in there if job.state not in ENDS and not job.cancel_requested]
    assert sorted(store.unfinished_items(run)) == sorted(stops)
    return counted


# ── Beginning ────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_kept_as_it_was_asked_for(store, clock):
    run, created = store.start_run(_new(owner="ann"))
    assert created
    kept = store.run(run)
    assert (kept.pipeline, kept.name, kept.round, kept.stages) == (
        "work", "monday", 1, ("fetch", "ask"),
    )  # fmt: skip
    assert (kept.terms, kept.owner, kept.stop, kept.reason) == ("{}", "ann", None, "")
    assert (kept.created_at, kept.sealed_at, kept.closed_at) == (clock.now(), None, None)
    assert store.run(run + 1) is None


def test_an_unfinished_run_of_that_name_goes_on(store):
    run = begun(store)
    assert store.start_run(_new()) == (run, False)
    fed(store, run)
    store.seal_run(run)
    assert store.start_run(_new()) == (run, False)
    assert store.start_run(_new("tuesday")).created
    assert store.start_run(_new(pipeline="other")).created


def test_a_finished_one_starts_anew(store):
    run = begun(store)
    (claim,) = taken(store, run)
    store.seal_run(run)
    store.settle([ended(claim.token)])
    again, created = store.start_run(_new())
    assert (again > run, created) == (True, True)
    assert store.run(again).round == 2


def test_one_whose_items_have_ended_goes_on_until_all_of_them_are_there(store):
    run = begun(store)
    (claim,) = taken(store, run)
    store.settle([ended(claim.token)])
    assert store.start_run(_new()) == (run, False)


def test_a_cancelled_one_starts_anew_and_an_aborted_one_goes_on(store):
    run = begun(store)
    fed(store, run)
    store.stop_run(run, RunStop.ABORTED, reason="too much")
    assert store.start_run(_new()) == (run, False)
    store.stop_run(run, RunStop.CANCELLED, reason="enough")
    assert store.start_run(_new()).created


@shared
def test_of_many_that_begin_it_at_once_one_does_and_the_others_go_on(store):
    found = at_once(4, lambda _: store.start_run(_new()))
    assert len({each.run_id for each in found}) == 1
    assert [each.created for each in found].count(True) == 1


def test_runs_are_listed_from_the_newest_by_pipeline_name_and_whether_they_are_over(store):
    one, two, three = (store.start_run(_new(name, pipe)).run_id
                       for name, pipe in (("a", "p"), ("b", "p"), ("a", "q")))  # fmt: skip
    assert [each.id for each in store.runs()] == [three, two, one]
    assert [each.id for each in store.runs(pipeline="p")] == [two, one]
    assert [each.id for each in store.runs(name="a")] == [three, one]
    assert [each.id for each in store.runs(before=three, limit=1)] == [two]
    store.seal_run(two)
    store.close_run(two)
    assert [each.id for each in store.runs(unfinished=True)] == [three, one]


# ── Stopping and closing ─────────────────────────────────────────────────────────────────────────


def test_items_of_a_stopped_run_wait_and_those_of_others_do_not(store):
    one, two = begun(store, "one"), begun(store, "two")
    fed(store, one)
    (other,) = fed(store, two)
    assert store.stop_run(one, RunStop.PAUSED, reason="while I look")
    assert not store.stop_run(one, RunStop.ABORTED, reason="later")
    assert (store.run(one).stop, store.run(one).reason) == (RunStop.PAUSED, "while I look")
    assert [claim.token.job_id for claim in store.claim(wanted())] == [other]
    assert [hold.scope for hold in store.holds()] == [Scope.RUN]
    assert store.resume_run(one)
    assert not store.resume_run(one)
    assert store.holds() == []
    assert len(store.claim(wanted())) == 1


def test_what_was_cancelled_is_never_resumed(store):
    run = begun(store)
    assert store.stop_run(run, RunStop.PAUSED, reason="x")
    assert store.stop_run(run, RunStop.CANCELLED, reason="for good")
    assert not store.resume_run(run)
    assert not store.stop_run(run, RunStop.PAUSED, reason="y")
    assert store.run(run).reason == "for good"


def test_what_happened_before_it_was_resumed_is_written_down(store):
    run = begun(store)
    claims = taken(store, run, 5)
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims[:3]])
    store.settle([ended(claims[3].token)])
    store.fold_runs()
    store.settle([ended(claims[4].token)])
    store.stop_run(run, RunStop.ABORTED, reason="x")
    store.resume_run(run)
    kept = store.run(run)
    assert (kept.pardoned_failed, kept.pardoned_succeeded) == (3, 2)


def test_what_is_sent_again_is_pardoned_no_more(store):
    """Else all of it could fail again, and nothing of that would be held against the run."""
    run = begun(store)
    claims = taken(store, run, 5)
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims[:3]])
    store.stop_run(run, RunStop.ABORTED, reason="x")
    store.resume_run(run)
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims[3:]])
    ids = [Redrive(claim.token.job_id) for claim in claims]
    store.redrive(ids[3:])
    assert store.run(run).pardoned_failed == 3, "those that failed since were sent again"
    store.redrive(ids[1:3])
    assert store.run(run).pardoned_failed == 1
    store.fold_runs()
    store.redrive(ids)
    assert (store.run(run).pardoned_failed, exact(store, run).failed) == (0, 0)


@pytest.mark.parametrize("stop", list(RunStop))
def test_a_stopped_run_that_is_over_is_stopped_no_more_unless_for_good(store, stop):
    run = begun(store)
    (claim,) = taken(store, run)
    store.seal_run(run)
    store.stop_run(run, stop, reason="x")
    store.settle([ended(claim.token, Outcome.FAILED)])
    assert store.close_run(run)
    kept, for_good = store.run(run), stop is RunStop.CANCELLED
    assert (kept.stop, kept.reason) == ((stop, "x") if for_good else (None, ""))
    assert (kept.stopped_at is not None) == for_good
    assert store.holds() == []


def test_a_run_is_closed_only_where_all_its_items_are_there_and_have_ended(store):
    run = begun(store)
    (claim,) = taken(store, run)
    assert not store.close_run(run), "not all are there"
    assert store.seal_run(run)
    assert not store.seal_run(run)
    assert not store.close_run(run), "one of them runs"
    store.settle([ended(claim.token)])
    assert store.close_run(run)
    assert not store.close_run(run)
    assert not store.stop_run(run, RunStop.PAUSED, reason="x")
    assert not store.close_run(10**12)


def test_what_is_sent_again_opens_its_run_and_is_found(store, clock):
    run = begun(store)
    (claim,) = taken(store, run)
    store.seal_run(run)
    store.settle([ended(claim.token, Outcome.FAILED)])
    store.close_run(run)
    store.redrive([Redrive(claim.token.job_id)])
    assert store.run(run).closed_at is None
    assert exact(store, run).failed == 0
    clock.advance(2)
    store._lanes.look_again()
    (again,) = store.claim(wanted())
    store.settle([ended(again.token)])
    assert (exact(store, run).succeeded, store.close_run(run)) == (1, True)


def test_lanes_of_a_run_that_is_over_are_not_visited(store):
    run = begun(store)
    (claim,) = taken(store, run)
    store.seal_run(run)
    store.settle([ended(claim.token, Outcome.FAILED)])
    enqueued(store, new_job())
    store.close_run(run)
    store._lanes.look_again()
    assert [store._lanes.named([id_])[id_].run for id_ in store._lanes.visit(wanted()).order] == [0]
    store.redrive([Redrive(claim.token.job_id)])
    store._lanes.look_again()
    runs = {store._lanes.named([id_])[id_].run for id_ in store._lanes.visit(wanted()).order}
    assert runs == {0, run}


def test_items_that_came_in_while_it_was_closed_open_it(store):
    """Two that feed it: one was done, and it was closed, while the other was at it."""
    run = begun(store)
    (claim,) = taken(store, run)
    store.seal_run(run)
    store.settle([ended(claim.token)])
    store.close_run(run)
    fed(store, run)
    assert store.run(run).closed_at is None, "though whoever fed it was killed just then"
    assert store.verify().ok
    store._lanes.look_again()
    assert len(store.claim(wanted())) == 1


@shared
def test_whoever_closes_a_run_and_whoever_sends_an_item_again_never_strand_it(store):
    for number in range(10):
        run = begun(store, str(number))
        (claim,) = taken(store, run)
        store.seal_run(run)
        store.settle([ended(claim.token, Outcome.FAILED)])
        acts = [lambda r=run: store.close_run(r),
                lambda c=claim: store.redrive([Redrive(c.token.job_id)])]  # fmt: skip
        at_once(2, lambda at, acts=acts: acts[at]())
        assert store.run(run).closed_at is None
        assert store.verify().ok
        store.cancel([claim.token.job_id])


@shared
def test_whoever_closes_a_run_and_whoever_feeds_it_never_strand_an_item(store):
    for number in range(10):
        run = begun(store, str(number))
        (claim,) = taken(store, run)
        store.seal_run(run)
        store.settle([ended(claim.token)])
        acts = [lambda r=run: store.close_run(r), lambda r=run: fed(store, r)]
        at_once(2, lambda at, acts=acts: acts[at]())
        assert store.run(run).closed_at is None
        assert store.verify().ok


# ── Counting, through every way an item can move ─────────────────────────────────────────────────


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.FAILED])
def test_an_item_that_ends_is_counted_where_it_did(store, outcome):
    run = begun(store)
    claims = taken(store, run, 3)
    store.advance([Advance(token=claims[0].token, lane=lane(run, 1), output="[]")])
    assert exact(store, run).advanced == 1
    store.settle([ended(claims[0].token.next(), outcome), ended(claims[1].token, outcome)])
    found = exact(store, run)
    assert getattr(found, outcome) == 2
    assert [getattr(each, outcome) for each in store.items(run)] == [1, 1]
    assert [each.advanced for each in store.items(run)] == [1, 0]


def test_successes_that_are_settled_by_columns_are_counted(store):
    run = begun(store)
    claims = taken(store, run, 20)
    store.settle([ended(claim.token, output=None) for claim in claims])
    assert exact(store, run).succeeded == 20


def test_what_goes_back_is_counted_as_tried_again_or_not_at_all(store):
    run = begun(store)
    claims = taken(store, run, 3)
    store.settle([
        ended(claims[0].token, Outcome.RETRIED),
        ended(claims[1].token, Outcome.SNOOZED),
    ])  # fmt: skip
    store.release([Release(token=claims[2].token)])
    found = exact(store, run)
    assert (found.ended, found.retried) == (0, 1)
    assert [(each.stage, each.later) for each in store.live_items(run)] == [(0, 2)]


def test_what_waits_or_runs_is_told_by_stage(store):
    run = begun(store)
    claims = taken(store, run, 5)
    store.advance([Advance(token=claim.token, lane=lane(run, 1)) for claim in claims[:3]])
    store.settle([ended(claims[0].token.next(), Outcome.RETRIED)])
    store.release([Release(token=claims[1].token.next())])
    fed(store, run, 4)
    live = {each.stage: each for each in store.live_items(run)}
    assert (live[0].running, live[0].later) == (2, 0)
    assert (live[1].running, live[1].waiting, live[1].later) == (1, 2, 1)
    exact(store, run)


def test_cancelled_items_are_counted_however_they_were_cancelled(store, clock):
    run = begun(store)
    waiting, *_ = fed(store, run)
    store.cancel([waiting])
    assert exact(store, run).cancelled == 1
    for end in (
        lambda token: store.settle([ended(token, Outcome.RETRIED)]),
        lambda token: store.settle([ended(token, Outcome.CANCELLED)]),
        lambda token: store.release([Release(token=token)]),
        lambda token: store.reclaim([lost(token)]),
    ):
        (claim,) = taken(store, run)
        store.cancel([claim.token.job_id])
        assert claim.token.job_id not in store.unfinished_items(run)
        clock.advance(61)
        end(claim.token)
        exact(store, run)
    assert exact(store, run).cancelled == 5


def test_lost_items_go_back_or_fail(store, clock):
    run = begun(store)
    one, two = taken(store, run, 2)
    clock.advance(61)
    store.reclaim([lost(one.token), lost(two.token, None)])
    found = exact(store, run)
    assert (found.failed, found.retried, found.ended) == (1, 1, 1)


def test_expired_items_have_failed(store, clock):
    run = begun(store)
    fed(store, run, deadline_seconds=10)
    clock.advance(11)
    assert len(store.expire()) == 1
    assert exact(store, run).failed == 1


def test_what_is_sent_again_from_another_stage_is_taken_off_where_it_failed(store):
    run = begun(store)
    (claim,) = taken(store, run)
    store.advance([Advance(token=claim.token, lane=lane(run, 1))])
    store.settle([ended(claim.token.next(), Outcome.FAILED)])
    assert [each.failed for each in store.items(run)] == [0, 1]
    store.redrive([Redrive(claim.token.job_id, lane(run, 0))])
    assert [each.failed for each in store.items(run)] == [0, 0]
    (again,) = store.claim(wanted())
    store.settle([ended(again.token, Outcome.FAILED)])
    assert [each.failed for each in store.items(run)] == [1, 0]
    exact(store, run)


@pytest.mark.parametrize("state", sorted(ENDS))
def test_pruned_items_stay_counted(store, clock, state):
    run = begun(store)
    claims = taken(store, run, 3)
    store.settle([
        ended(claims[0].token),
        ended(claims[1].token, Outcome.SKIPPED),
        ended(claims[2].token, Outcome.FAILED),
    ])  # fmt: skip
    store.cancel(fed(store, run))
    before = total(store, run)
    clock.advance(10)
    assert store.prune(state, older_than_seconds=5) == 1
    found = exact(store, run)
    assert found == before._replace(pruned=1)


def test_items_asked_for_again_by_their_key_are_counted_once(store):
    run = begun(store)
    store.enqueue([new_job(lane=lane(run), run=run, key=f"{run}:a")])
    store.enqueue([new_job(lane=lane(run), run=run, key=f"{run}:a")])
    assert exact(store, run).entered == 1


def test_folding_in_parts_changes_nothing(store):
    run = begun(store)
    for _ in range(3):
        store.settle([ended(claim.token) for claim in taken(store, run, 2)])
    before = store.items(run)
    while store.fold_runs(limit=1):
        assert store.items(run) == before
    assert store.items(run) == before


@shared
def test_counts_are_exact_while_many_settle_and_fold(store, url, clock):
    run = begun(store)
    claims = taken(store, run, 40)

    def work(at):
        with open_store(url, clock=clock) as mine:
            for claim in claims[at::4]:
                mine.settle([ended(claim.token, Outcome.FAILED if at else Outcome.SUCCEEDED)])
                mine.fold_runs(limit=3)

    at_once(4, work)
    assert (exact(store, run).failed, total(store, run).succeeded) == (30, 10)


# ── Causes, usage, lanes, lists ──────────────────────────────────────────────────────────────────


def test_causes_are_told_with_the_commonest_first(store):
    from seawall.faults import Fault, FaultCode

    run = begun(store)
    claims = taken(store, run, 4)
    faults = [Fault(FaultCode.TIMEOUT, "no answer")] * 3 + [Fault(FaultCode.UNAUTHORIZED, "no")]
    store.settle([
        ended(claim.token, Outcome.FAILED, fault=fault)
        for claim, fault in zip(claims, faults, strict=True)
    ])  # fmt: skip
    first, second = store.causes(run)
    assert (first.code, first.items, first.message) == ("TIMEOUT", 3, "no answer")
    assert first.stage == second.stage == 0
    assert (second.code, second.items, second.job_id) == (
        "UNAUTHORIZED", 1, claims[3].token.job_id,
    )  # fmt: skip
    assert sum(each.items for each in store.causes(run, limit=2)) == 2, "of the last two"


def test_what_attempts_used_is_summed_by_stage_by_job_and_by_owner(store):
    run = begun(store)
    (claim,) = taken(store, run, owner="ann")
    store.advance([Advance(token=claim.token, lane=lane(run, 1), usage=Usage(10, 1, 0.5))])
    second = claim.token.next()
    store.settle([ended(second, Outcome.RETRIED, delay_seconds=0, usage=Usage(20, 2, 0.25))])
    (again,) = store.claim(wanted())
    store.settle([ended(again.token, usage=Usage(30, 3, 1.0))])
    assert [(each.tokens_in, each.tokens_out, each.cost) for each in store.items(run)] == [
        (10, 1, 0.5), (50, 5, 1.25),
    ]  # fmt: skip
    assert store.used(claim.token.job_id) == {
        1: Usage(10, 1, 0.5), 2: Usage(20, 2, 0.25), 3: Usage(30, 3, 1.0),
    }  # fmt: skip
    assert store.used_for("ann") == Usage(60, 6, 1.75)
    assert store.used_for("bob") == Usage()
    exact(store, run)


def test_lanes_are_forgotten_with_the_last_item_of_a_run_that_is_over(store, clock):
    run, other = begun(store), begun(store, "other")
    (claim,) = taken(store, run)
    fed(store, other)
    store.seal_run(run)
    assert store.forget_lanes() == 0
    store.settle([ended(claim.token)])
    store.close_run(run)
    assert store.forget_lanes() == 0, "its item is there"
    clock.advance(10)
    store.prune(State.SUCCEEDED, older_than_seconds=5)
    assert store.forget_lanes() == 1
    store._lanes.look_again()
    assert {each.run for each in store._lanes.every().values()} == {other}
    assert store.forget_lanes() == 0


@pytest.mark.parametrize("state", [None, State.QUEUED, State.RUNNING, State.FAILED])
def test_the_items_of_a_run_are_listed_whatever_their_state(store, state):
    one, two = begun(store, "one"), begun(store, "two")
    for run in (one, two):
        claims = taken(store, run, 2)
        store.settle([ended(claims[0].token, Outcome.FAILED)])
    fed(store, one)
    fed(store, two)
    found = store.page(Filter(run=one, state=state)).jobs
    assert {job.run for job in found} == {one}
    assert len(found) == (3 if state is None else 1)


# ── What history comes to ────────────────────────────────────────────────────────────────────────


def test_an_audit_adds_up_every_attempt(store, clock):
    run, other = begun(store), begun(store, "other")
    taken(store, other)
    claims = taken(store, run, 4)
    for claim, seconds in zip(claims, (1, 2, 3, 4), strict=True):
        store.advance([Advance(token=claim.token, lane=lane(run, 1), duration_seconds=seconds,
                               config="c0")])  # fmt: skip
    seconds = [claim.token.next() for claim in claims]
    store.settle([ended(seconds[0], config="c1"), ended(seconds[1], Outcome.FAILED, config="c1")])
    store.settle([ended(seconds[2], Outcome.RETRIED, delay_seconds=0, config="c1")])
    clock.advance(1)
    (again,) = store.claim(wanted(1))
    store.settle([ended(again.token, config="c2")])
    clock.advance(60)
    store.reclaim([lost(seconds[3])])

    found = store.audit(run)

    first, second = found.stages
    assert (first.attempts, first.done, tuple(first.took)) == (4, 4, (2.0, 4.0, 4.0, 4.0))
    assert (second.attempts, second.done, second.retried, second.failed, second.lost) == (
        5, 2, 1, 1, 1,
    )  # fmt: skip
    assert [tuple(each) for each in found.tries] == [(0, 1, 4), (1, 1, 3), (1, 2, 1)]
    assert [(each.code, each.attempts, each.items, each.stage) for each in found.troubles] == [
        ("TIMEOUT", 2, 2, 1), ("WORKER_LOST", 1, 1, 1),
    ]  # fmt: skip
    assert (found.kinds, found.troubles[0].message) == (2, "no answer")
    assert [(each.stage, each.config, each.attempts) for each in found.configs] == [
        (0, "c0", 4), (1, "c1", 3), (1, "c2", 1),
    ]  # fmt: skip
    assert (found.all_configs, found.succeeded, found.to_success.longest) == (3, 2, 1.0)
    (bad,) = found.failed
    assert (bad.job_id, bad.stage, bad.attempts) == (claims[1].token.job_id, 1, 2)


def test_percentiles_are_those_of_a_sorted_list(store):
    run = begun(store)
    claims = taken(store, run, 100)
    store.settle([
        ended(claim.token, duration_seconds=number)
        for number, claim in zip(range(100, 0, -1), claims, strict=True)
    ])  # fmt: skip
    assert tuple(store.audit(run).stages[0].took) == (50.0, 95.0, 99.0, 100.0)


def test_an_audit_lists_no_more_than_it_was_asked_for_and_says_how_much_there_is(store):
    from seawall.faults import Fault, FaultCode

    run = begun(store)
    claims = taken(store, run, 60)
    store.settle([
        ended(claim.token, Outcome.FAILED, fault=Fault(FaultCode.TIMEOUT, fingerprint=f"f{at}"))
        for at, claim in enumerate(claims)
    ])  # fmt: skip
    found = store.audit(run, failed=3)
    assert [each.job_id for each in found.failed] == [claim.token.job_id for claim in claims[:3]]
    assert (len(found.troubles), found.kinds) == (50, 60)


def test_of_a_run_without_items_there_is_nothing_to_add_up(store):
    assert store.audit(begun(store)) == store.audit(10**12)
    assert store.audit(10**12).succeeded == 0
