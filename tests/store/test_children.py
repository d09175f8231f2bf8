"""Jobs that an attempt asked for are written with its end, or not at all."""

import threading

import pytest

from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import MOST_ROWS, Answer, Filter, Redrive, Result
from tests.support.kinds import shared
from tests.support.ledger import claimed, ended, enqueued, lost, new_job, wanted

CHILD = Lane(task="child")


def child(arguments="[]", **fields):
    return new_job(arguments, lane=CHILD, **fields)


def children(store):
    """Their arguments, in the order in which they were asked for."""
    page = store.page(Filter(task="child"), limit=MOST_ROWS)
    return [store.arguments(job.id) for job in reversed(page.jobs)]


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.SNOOZED])
def test_they_are_written_with_the_attempts_end(store, outcome):
    (claim,) = claimed(store)
    asked = (child("[1]", key="a", tags=("t",), owner="o"), child("[2]"))

    (answer,) = store.settle([ended(claim.token, outcome, children=asked)])

    assert answer.result is Result.DONE
    assert children(store) == ["[1]", "[2]"]
    (first,) = store.page(Filter(task="child", key="a"))
    assert (first.tags, first.owner, first.state) == (("t",), "o", State.QUEUED)
    assert len(store.claim(wanted(tasks=("child",)))) == 2


def test_a_settlement_that_is_asked_again_makes_none_twice(store):
    (claim,) = claimed(store)
    settlement = ended(claim.token, children=(child(),))

    answers = [store.settle([settlement])[0].result for _ in range(3)]

    assert answers == [Result.DONE, Result.ALREADY, Result.ALREADY]
    assert children(store) == ["[]"]


def test_a_lost_attempt_makes_none(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(claim.token)])

    assert store.settle([ended(claim.token, children=(child(),))]) == [Answer(Result.LOST)]
    assert children(store) == []


def test_a_child_that_is_there_already_is_well(store):
    enqueued(store, child("[1]", key="k"))
    (claim,) = claimed(store)

    (answer,) = store.settle([ended(claim.token, children=(child("[1]", key="k"), child("[2]")))])

    assert answer.result is Result.DONE
    assert children(store) == ["[1]", "[2]"]


def test_a_child_whose_key_has_other_arguments_keeps_its_settlement_from_being_written(store):
    (holder,) = enqueued(store, child("[1]", key="k"))
    bad, good = claimed(store, new_job(), new_job())
    before = store.jobs([bad.token.job_id])

    refused, done = store.settle(
        [
            ended(bad.token, output="x", children=(child("[3]"), child("[2]", key="k"))),
            ended(good.token, children=(child("[4]"),)),
        ]
    )

    assert refused.result is Result.REFUSED
    assert refused.reason == (
        f"its child 'child' with the key 'k' is there with other arguments: job {holder}"
    )
    assert done.result is Result.DONE
    assert store.jobs([bad.token.job_id]) == before
    assert store.attempts(bad.token.job_id) == []
    assert store.output(bad.token.job_id, 0) is None
    assert children(store) == ["[1]", "[4]"]
    assert store.settle([ended(bad.token, Outcome.FAILED)])[0].result is Result.DONE


def test_a_child_that_cannot_be_stored_is_named_in_the_refusal(store):
    bad, good = claimed(store, new_job(), new_job())

    refused, done = store.settle(
        [
            ended(bad.token, children=(child(), child("\ud800", key="odd"))),
            ended(good.token, children=(child("[4]"),)),
        ]
    )

    assert refused.result is Result.REFUSED
    assert refused.reason.startswith("its child 'child' with the key 'odd': it cannot be stored")
    assert done.result is Result.DONE
    assert children(store) == ["[4]"]


def test_of_two_that_want_one_key_with_other_arguments_one_is_written(store):
    claims = claimed(store, new_job(), new_job())

    answers = store.settle(
        [ended(each.token, children=(child(f"[{n}]", key="k"),)) for n, each in enumerate(claims)]
    )

    assert sorted(answer.result for answer in answers) == [Result.DONE, Result.REFUSED]
    assert len(children(store)) == 1


def test_two_settlements_may_ask_for_the_same_child(store):
    claims = claimed(store, new_job(), new_job())

    answers = store.settle([ended(each.token, children=(child(key="k"),)) for each in claims])

    assert [answer.result for answer in answers] == [Result.DONE, Result.DONE]
    assert children(store) == ["[]"]


def test_a_batch_may_mix_those_with_children_and_those_without(store):
    claims = claimed(store, *(new_job() for _ in range(4)))
    store.settle([ended(claims[3].token)])

    answers = store.settle(
        [ended(c.token, children=(child(),) if n % 2 else ()) for n, c in enumerate(claims)]
    )

    assert [answer.result for answer in answers] == ["done", "done", "done", "already"]
    assert children(store) == ["[]"]


def test_a_job_that_was_to_stop_is_cancelled_and_still_leaves_its_children(store):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])

    answers = store.settle([ended(claim.token, Outcome.SNOOZED, children=(child(),))])

    assert answers == [Answer(Result.DONE, State.CANCELLED)]
    assert children(store) == ["[]"]


def test_an_exchange_writes_them_and_may_claim_them_at_once(store):
    (claim,) = claimed(store)

    answers, claims = store.exchange(
        [ended(claim.token, children=(child("[1]"),))], wanted(tasks=("work", "child"))
    )

    assert answers == [Answer(Result.DONE, State.SUCCEEDED)]
    assert [each.arguments for each in claims] == ["[1]"]


def test_whoever_waits_for_work_is_woken(store):
    (claim,) = claimed(store)
    while store.wait(0.05):
        pass

    store.settle([ended(claim.token, children=(child(),))])

    assert store.wait(5)


def test_many_children_are_written_in_parts_but_never_those_of_one_attempt(store):
    claims = claimed(store, *(new_job() for _ in range(3)))
    many = tuple(child() for _ in range(MOST_ROWS))

    answers = store.settle([ended(each.token, children=many) for each in claims])

    assert [answer.result for answer in answers] == [Result.DONE] * 3
    assert store.counts()[State.QUEUED] == 3 * MOST_ROWS


def test_more_children_than_a_batch_may_have_are_refused(store):
    (claim,) = claimed(store)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.settle([ended(claim.token, children=(child(),) * (MOST_ROWS + 1))])

    assert store.counts()[State.RUNNING] == 1


@shared
def test_settlements_that_meet_at_the_same_keys_all_end(url, clock):
    """Each batch asks for the same children in another order; nobody waits in a circle."""
    with open_store(url, clock=clock) as store:
        claims = claimed(store, *(new_job() for _ in range(40)), limit=40)
        shares = [claims[at::4] for at in range(4)]
        found = []

        def settle(share, keys):
            for claim in share:
                asked = tuple(child(key=f"k{key}") for key in keys)
                found.extend(store.settle([ended(claim.token, children=asked)]))

        threads = [
            threading.Thread(target=settle, args=(share, range(10)[:: 1 if at % 2 else -1]))
            for at, share in enumerate(shares)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [answer.result for answer in found] == [Result.DONE] * 40
        assert len(children(store)) == 10
        assert store.verify().ok


# --- whose they are -------------------------------------------------------------------------------


def of(store, job_id, **how):
    return [job.id for job in store.children(job_id, **how)]


def test_a_job_knows_who_asked_for_it_and_who_asked_is_told_of_it(store):
    (claim,) = claimed(store)
    parent = claim.token.job_id
    asked = (child("[1]", parent=parent), child("[2]", parent=parent, key="k", tags=("t",)))

    store.settle([ended(claim.token, children=asked)])

    born = of(store, parent)
    assert [store.arguments(each) for each in born] == ["[1]", "[2]"]
    assert {job.parent for job in store.jobs(born).values()} == {parent}
    assert store.jobs([parent])[parent].parent is None
    assert of(store, born[0]) == []


@pytest.mark.parametrize("plain", [True, False])
def test_it_is_kept_however_a_job_is_enqueued(store, plain):
    fields = {} if plain else {"key": "k", "tags": ("t",)}

    made = enqueued(store, child("[1]", parent=7, **fields), child("[2]"), child("[3]", parent=8))

    assert [store.jobs(made)[each].parent for each in made] == [7, None, 8]
    assert (of(store, 7), of(store, 8)) == ([made[0]], [made[2]])


def test_children_are_read_part_by_part_and_by_owner(store):
    owners = ["ann", "bob", None, "ann", "bob"]
    made = enqueued(store, *(child(parent=7, owner=owner) for owner in owners))

    assert of(store, 7, limit=2) == made[:2]
    assert of(store, 7, after=made[1], limit=2) == made[2:4]
    assert of(store, 7, after=made[4]) == []
    assert of(store, 7, owner="ann") == [made[0], made[3]]
    assert of(store, 7, owner="ann", after=made[0], limit=1) == [made[3]]


def test_the_first_to_ask_for_a_key_stays_its_parent(store):
    (first,) = enqueued(store, child("[1]", key="k", parent=7))
    (claim,) = claimed(store)

    (answer,) = store.settle([ended(claim.token, children=(child("[1]", key="k", parent=8),))])

    assert answer.result is Result.DONE
    assert store.jobs([first])[first].parent == 7
    assert of(store, 8) == []


def test_a_redrive_keeps_it_and_edited_arguments_do_too(store):
    (claim,) = claimed(store, new_job(parent=7))
    store.settle([ended(claim.token, Outcome.FAILED)])
    job_id = claim.token.job_id

    store.redrive([Redrive(job_id, arguments="[9]")])

    assert store.jobs([job_id])[job_id].parent == 7
    assert of(store, 7) == [job_id]


def test_a_parent_that_is_gone_is_still_named(store, clock):
    (claim,) = claimed(store)
    parent = claim.token.job_id
    store.settle([ended(claim.token, children=(child(parent=parent),))])
    clock.advance(1)
    store.prune(State.SUCCEEDED, older_than_seconds=0)

    (job_id,) = of(store, parent)

    assert store.jobs([parent]) == {}
    assert store.jobs([job_id])[job_id].parent == parent


@pytest.mark.parametrize("wrong", [0, -1, 2**63, "7", True, 1.0])
def test_a_parent_that_is_no_number_of_a_job_is_refused(wrong):
    with pytest.raises(ValueError, match=r"^parent: "):
        new_job(parent=wrong)


def test_nobody_has_children_by_a_number_that_is_none(store):
    assert store.children(2**70) == store.children(-1) == store.children(1, after=-1) == []
    with pytest.raises(ValueError, match=r"^limit"):
        store.children(1, limit=0)
