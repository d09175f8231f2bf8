"""Dead letters: one for each job that has failed, written with the failure, until its job is gone."""

from datetime import timedelta

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import dead, open_store
from seawall.store.dead import LONGEST_NOTE, MOST_SAMPLES
from seawall.store.letters import Dealt, LetterFilter, LetterState, Pile
from seawall.store.values import MOST_ROWS, Advance, Change, Redrive, Taken
from tests.support.kinds import shared
from tests.support.ledger import (
    TIMEOUT,
    WORKER_LOST,
    at_once,
    claimed,
    ended,
    enqueued,
    failed,
    lost,
    new_job,
    wanted,
)

OPEN = LetterFilter(state=LetterState.OPEN)
SECOND = Lane(task="work", stage=1, upstream="openai")


def letter_of(store, job_id):
    return store.letters_of([job_id]).get(job_id)


def ids(page):
    return [letter.job_id for letter in page]


def failed_by(store, *faults, **fields):
    """The ids of jobs, each failed by its fault, one second after the other."""
    claims = claimed(store, *(new_job(**fields) for _ in faults), limit=len(faults))
    for claim, fault in zip(claims, faults, strict=True):
        store.settle([ended(claim.token, Outcome.FAILED, fault=fault)])
    return [claim.token.job_id for claim in claims]


def fail_again(store, *redrives):
    store.redrive(list(redrives))
    claims = store.claim(wanted(limit=MOST_ROWS))
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])


# --- how one comes to be --------------------------------------------------------------------------


def test_a_job_that_fails_leaves_one_with_all_that_people_ask_first(store, clock):
    (claim,) = claimed(
        store, new_job(owner="ann", run=7, lane=Lane("work", "default", 0, "openai"))
    )
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0)])
    (claim,) = store.claim(wanted())
    clock.advance(3)

    store.settle([ended(claim.token, Outcome.FAILED)])

    letter = letter_of(store, claim.token.job_id)
    assert (letter.state, letter.task, letter.queue) == (LetterState.OPEN, "work", "default")
    assert (letter.stage, letter.upstream, letter.owner, letter.run) == (0, "openai", "ann", 7)
    assert (letter.fault, letter.code, letter.attempts, letter.times) == (
        TIMEOUT, FaultCode.TIMEOUT, 2, 1,
    )  # fmt: skip
    assert letter.fingerprint == TIMEOUT.fingerprint
    assert letter.first_at == letter.last_at == clock.now()
    assert (letter.note, letter.handled_at, letter.handled_by) == (None, None, None)


def test_it_tells_the_stage_at_which_the_job_failed(store):
    (claim,) = claimed(store)
    store.advance([Advance(token=claim.token, lane=SECOND, output="one")])
    store.settle([ended(claim.token.next(), Outcome.FAILED)])

    letter = letter_of(store, claim.token.job_id)

    assert (letter.stage, letter.upstream, letter.attempts) == (1, "openai", 2)


def test_a_job_that_is_given_up_leaves_one(store, clock):
    first, second = claimed(store, new_job(), new_job(), limit=2)
    clock.advance(60)

    store.reclaim([lost(first.token, None), lost(second.token, 5)])

    assert ids(store.letters(OPEN)) == [first.token.job_id]
    letter = letter_of(store, first.token.job_id)
    assert (letter.fault, letter.attempts, letter.last_at) == (WORKER_LOST, 1, clock.now())


def test_a_job_whose_deadline_passed_leaves_one(store, clock):
    deadline = clock.now() + timedelta(seconds=10)
    late = enqueued(store, *(new_job(deadline_at=deadline, owner="ann") for _ in range(3)))
    clock.advance(10)

    assert sorted(store.expire(limit=2)) == late[:2]

    letters = store.letters_of(late)
    assert sorted(letters) == late[:2]
    assert {letter.code for letter in letters.values()} == {FaultCode.EXPIRED}
    assert {(letter.attempts, letter.owner) for letter in letters.values()} == {(0, "ann")}


@pytest.mark.parametrize(
    "outcome",
    [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.CANCELLED, Outcome.RETRIED, Outcome.SNOOZED],
)
def test_no_other_end_leaves_one(store, outcome):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, outcome)])
    assert store.letters_of([claim.token.job_id]) == {}


def test_a_cancelled_job_that_would_have_been_given_up_leaves_none(store, clock):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])
    clock.advance(60)
    store.reclaim([lost(claim.token, None)])
    assert store.letters_of([claim.token.job_id]) == {}


def test_a_failure_that_is_told_again_is_the_same_letter(store):
    (claim,) = claimed(store)
    end = ended(claim.token, Outcome.FAILED)
    store.settle([end])
    before = letter_of(store, claim.token.job_id)

    (answer,) = store.settle([end])

    assert answer.result == "already"
    assert letter_of(store, claim.token.job_id) == before


def test_whoever_lost_the_lease_writes_none(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])

    store.settle([ended(claim.token, Outcome.FAILED)])

    assert store.letters_of([claim.token.job_id]) == {}


def test_a_thousand_fail_at_once(store):
    claims = claimed(store, *(new_job() for _ in range(MOST_ROWS)), limit=MOST_ROWS)
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
    (pile,) = store.count_letters(OPEN)
    assert pile == Pile(LetterState.OPEN, "work", "default", 0, FaultCode.TIMEOUT, MOST_ROWS)


# --- what becomes of it ---------------------------------------------------------------------------


def test_a_redrive_marks_it_in_the_same_write(store, clock):
    (job_id,) = failed(store)
    clock.advance(5)

    store.redrive([Redrive(job_id, by="ann")])

    letter = letter_of(store, job_id)
    assert (letter.state, letter.handled_by) == (LetterState.REDRIVEN, "ann")
    assert letter.handled_at == clock.now()
    assert letter.fault == TIMEOUT  # the job's own is cleared


def test_a_job_that_fails_again_opens_it_again_and_counts(store, clock):
    (job_id,) = failed(store)
    first_at = letter_of(store, job_id).first_at
    for times in (2, 3):
        clock.advance(10)
        fail_again(store, Redrive(job_id, by="ann"))
        letter = letter_of(store, job_id)
        assert (letter.state, letter.times, letter.attempts) == (LetterState.OPEN, times, times)
        assert (letter.first_at, letter.last_at) == (first_at, clock.now())
        assert (letter.handled_at, letter.handled_by) == (None, None)


def test_one_that_comes_back_by_another_fault_says_so(store):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id)])
    (claim,) = store.claim(wanted())
    other = Fault(FaultCode.NOT_FOUND, "gone")
    store.settle([ended(claim.token, Outcome.FAILED, fault=other)])

    letter = letter_of(store, job_id)

    assert (letter.fault, letter.fingerprint, letter.times) == (other, other.fingerprint, 2)
    assert ids(store.letters(LetterFilter(fingerprint=other.fingerprint))) == [job_id]
    assert ids(store.letters(LetterFilter(fingerprint=TIMEOUT.fingerprint))) == []


def test_a_redriven_job_that_succeeds_keeps_it_until_both_are_pruned(store, clock):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id)])
    (claim,) = store.claim(wanted())
    store.settle([ended(claim.token)])
    assert letter_of(store, job_id).state is LetterState.REDRIVEN
    clock.advance(1)

    assert store.prune(State.SUCCEEDED, older_than_seconds=0) == 1

    assert store.letters_of([job_id]) == {}


def test_pruned_failures_take_theirs_with_them(store, clock):
    (job_id,) = failed(store)
    clock.advance(1)
    assert store.prune(State.FAILED, older_than_seconds=0) == 1
    assert store.letters_of([job_id]) == {}
    assert store.verify().pruned == 1


# --- dismissing -----------------------------------------------------------------------------------


def test_a_dismissed_one_keeps_its_job_failed_and_says_who_and_why(store, clock):
    (job_id,) = failed(store)
    clock.advance(5)

    assert store.dismiss([job_id], note="a test file", by="ann") == [
        Dealt(done=True, state=LetterState.DISMISSED)
    ]

    letter = letter_of(store, job_id)
    assert (letter.state, letter.note) == (LetterState.DISMISSED, "a test file")
    assert (letter.handled_by, letter.handled_at) == ("ann", clock.now())
    assert store.jobs([job_id])[job_id].state is State.FAILED
    assert ids(store.letters(OPEN)) == []


def test_dismissed_again_it_gets_the_new_note(store):
    (job_id,) = failed(store)
    store.dismiss([job_id], note="one")
    (dealt,) = store.dismiss([job_id], note="two", by="bob")
    assert dealt.done
    assert (letter_of(store, job_id).note, letter_of(store, job_id).handled_by) == ("two", "bob")


def test_it_can_be_opened_again_and_keeps_the_note(store):
    (job_id,) = failed(store)
    store.dismiss([job_id], note="a mistake", by="ann")

    assert store.undismiss([job_id]) == [Dealt(done=True, state=LetterState.OPEN)]

    letter = letter_of(store, job_id)
    assert (letter.state, letter.note, letter.handled_at) == (LetterState.OPEN, "a mistake", None)
    assert store.undismiss([job_id]) == [Dealt(done=False, state=LetterState.OPEN)]


def test_a_dismissed_one_can_be_redriven_by_name_but_not_in_passing(store):
    one, two = failed(store, new_job(), new_job())
    store.dismiss([one, two], note="no")

    changes = store.redrive([Redrive(one, only_open=True), Redrive(two)])

    assert changes == [
        Change(done=False, state=State.FAILED), Change(done=True, state=State.QUEUED),
    ]  # fmt: skip
    assert letter_of(store, one).state is LetterState.DISMISSED
    assert letter_of(store, two).state is LetterState.REDRIVEN


def test_what_is_passed_over_keeps_all_it_has(store):
    (claim,) = claimed(store, new_job("[1]", key="k"))
    store.settle([ended(claim.token, Outcome.FAILED, output="partial")])
    job_id = claim.token.job_id
    store.dismiss([job_id], note="no")

    store.redrive([Redrive(job_id, arguments="[2]", only_open=True)])

    assert (store.arguments(job_id), store.output(job_id, 0)) == ("[1]", "partial")
    (again,) = store.enqueue([new_job("[1]", key="k")])
    assert again.taken is Taken.EXISTING


def test_only_what_is_open_or_dismissed_can_be_dismissed(store):
    sent, done = failed(store, new_job(), new_job())
    (waiting,) = enqueued(store)
    store.redrive([Redrive(sent)])
    store.dismiss([done], note="x")

    answers = store.dismiss([10**12, sent, waiting, done, 2**70], note="x")

    assert answers == [
        Dealt(done=False, state=None),
        Dealt(done=False, state=LetterState.REDRIVEN),
        Dealt(done=False, state=None),
        Dealt(done=True, state=LetterState.DISMISSED),
        Dealt(done=False, state=None),
    ]


@pytest.mark.parametrize("note", ["", "  ", "x" * (LONGEST_NOTE + 1), "a\0b", "\x1b[2J", None])
def test_a_note_must_be_one(store, note):
    (job_id,) = failed(store)
    with pytest.raises(ValueError, match="note"):
        store.dismiss([job_id], note=note)
    assert letter_of(store, job_id).state is LetterState.OPEN


def test_too_many_at_once_are_refused(store):
    with pytest.raises(ValueError, match="1,001 rows"):
        store.dismiss([1] * (MOST_ROWS + 1), note="x")


def test_dismissed_ones_are_pruned_by_when_that_was(store, clock):
    old, fresh, still = failed(store, new_job(key="k"), new_job(tags=("t",)), new_job())
    store.dismiss([old], note="x")
    clock.advance(100)
    store.dismiss([fresh], note="x")
    clock.advance(10)

    assert store.prune_dismissed(older_than_seconds=50) == 1

    assert sorted(store.jobs([old, fresh, still])) == [fresh, still]
    assert sorted(store.letters_of([old, fresh, still])) == [fresh, still]
    assert store.verify().pruned == 1
    assert store.prune_dismissed(older_than_seconds=50) == 0
    (again,) = store.enqueue([new_job(key="k")])
    assert again.taken is Taken.CREATED


def test_they_go_in_bounded_batches_with_all_that_hangs_on_them(store, clock):
    claims = claimed(store, *(new_job(tags=("t",), key=f"k{n}") for n in range(5)))
    store.settle([
        ended(claim.token, Outcome.FAILED, output="o", traceback="t") for claim in claims
    ])  # fmt: skip
    store.dismiss([claim.token.job_id for claim in claims], note="x")
    clock.advance(1)
    assert [store.prune_dismissed(older_than_seconds=0, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert store.verify().pruned == 5


def test_one_that_was_opened_again_is_not_pruned(store, clock):
    (job_id,) = failed(store)
    store.dismiss([job_id], note="x")
    store.undismiss([job_id])
    clock.advance(100)
    assert store.prune_dismissed(older_than_seconds=0) == 0


# --- redriving with more to say -------------------------------------------------------------------


def test_a_redrive_may_be_due_later_and_a_wrong_clock_does_not_strand_it(store, clock):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id, delay_seconds=30)])
    assert store.jobs([job_id])[job_id].due_at == clock.now() + timedelta(seconds=30)
    assert store.claim(wanted()) == []
    clock._now -= timedelta(seconds=3_600)
    assert store.straighten().due_times == 1
    clock.advance(30)
    assert [claim.token.job_id for claim in store.claim(wanted())] == [job_id]


def test_new_arguments_take_the_place_of_the_old_for_the_key_as_well(store):
    (job_id,) = failed(store, new_job('{"path":"a"}', key="k"))

    store.redrive([Redrive(job_id, arguments='{"path":"b"}')])

    (claim,) = store.claim(wanted())
    assert claim.arguments == '{"path":"b"}'
    old, new = store.enqueue([new_job('{"path":"a"}', key="k"), new_job('{"path":"b"}', key="k")])
    assert (old.taken, old.job_id) == (Taken.CONFLICT, job_id)
    assert (new.taken, new.job_id) == (Taken.EXISTING, job_id)


def test_arguments_of_what_is_not_sent_stay(store):
    (claim,) = claimed(store, new_job("[1]", key="k"))
    store.redrive([Redrive(claim.token.job_id, arguments="[2]")])
    assert store.arguments(claim.token.job_id) == "[1]"
    (again,) = store.enqueue([new_job("[1]", key="k")])
    assert again.taken is Taken.EXISTING


def test_arguments_that_cannot_be_stored_are_refused_alone(store):
    one, two, three = failed(store, new_job(), new_job(), new_job())
    bad = Redrive(two, arguments='["\ud800"]')

    changes = store.redrive([Redrive(one), bad, Redrive(three, arguments="[3]")])

    assert [change.done for change in changes] == [True, False, True]
    assert changes[1].reason
    assert letter_of(store, two).state is LetterState.OPEN


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"delay_seconds": float("inf")}, "delay_seconds"),
        ({"arguments": "\0"}, "arguments"),
        ({"by": ""}, "by"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_by_name(store, fields, named):
    (job_id,) = failed(store)
    with pytest.raises(ValueError, match=f"^{named}"):
        store.redrive([Redrive(job_id, **fields)])
    assert letter_of(store, job_id).state is LetterState.OPEN


# --- lists ----------------------------------------------------------------------------------------


@pytest.fixture
def several(store, clock):
    """Letters that differ in all that can be asked for, by name."""
    made = {}

    def add(name, fault=TIMEOUT, **fields):
        lane = fields.pop("lane", Lane(task="work"))
        (made[name],) = enqueued(store, new_job(lane=lane, **fields))
        claims = store.claim(wanted(tasks=(lane.task,), queues=None))
        store.settle([ended(claim.token, Outcome.FAILED, fault=fault) for claim in claims])
        clock.advance(10)

    add("plain")
    add("mail", lane=Lane(task="mail", queue="post"), owner="ann")
    add("other", Fault(FaultCode.NOT_FOUND, "gone"), run=7)
    add("again", run=7, owner="bob")
    add("dismissed", run=7)
    store.dismiss([made["dismissed"]], note="x")
    (claim,) = claimed(store)
    store.advance([Advance(token=claim.token, lane=SECOND)])
    store.settle([ended(claim.token.next(), Outcome.FAILED)])
    made["second"] = claim.token.job_id
    clock.advance(10)
    add("sent")
    store.redrive([Redrive(made["sent"])])
    return made


@pytest.mark.parametrize(
    ("which", "names"),
    [
        ({}, "sent second dismissed again other mail plain"),
        ({"state": LetterState.OPEN}, "second again other mail plain"),
        ({"state": LetterState.DISMISSED}, "dismissed"),
        ({"state": LetterState.REDRIVEN}, "sent"),
        ({"code": FaultCode.NOT_FOUND}, "other"),
        ({"fingerprint": TIMEOUT.fingerprint}, "sent second dismissed again mail plain"),
        (
            {"fingerprint": TIMEOUT.fingerprint, "state": LetterState.OPEN},
            "second again mail plain",
        ),
        ({"fingerprint": TIMEOUT.fingerprint, "run": 7}, "dismissed again"),
        ({"stage": 1}, "second"),
        ({"task": "mail"}, "mail"),
        ({"task": "none"}, ""),
        ({"queue": "post"}, "mail"),
        ({"owner": "ann"}, "mail"),
        ({"run": 7}, "dismissed again other"),
        ({"run": 7, "state": LetterState.OPEN}, "again other"),
        ({"run": 7, "owner": "bob"}, "again"),
        ({"run": 8}, ""),
    ],
)
def test_letters_are_found_by_what_they_are(store, several, which, names):
    asked = LetterFilter(**which)
    expected = [several[name] for name in names.split()]

    assert ids(store.letters(asked)) == expected

    assert sum(pile.letters for pile in store.count_letters(asked)) == len(expected)
    assert store.letter_groups(asked).letters == len(expected)
    walked, after = [], None
    while True:
        page = store.letters(asked, after=after, limit=2)
        walked += ids(page)
        after = page.next
        if after is None:
            break
    assert walked == expected


def test_letters_are_found_by_when_they_failed_last(store, clock, several):
    start = letter_of(store, several["plain"]).last_at
    cut = start + timedelta(seconds=20)
    early, late = LetterFilter(until=cut), LetterFilter(since=cut)
    assert ids(store.letters(early)) == [several["mail"], several["plain"]]
    assert len(store.letters(late)) == 5
    assert sum(pile.letters for pile in store.count_letters(late)) == 5
    assert ids(store.letters(LetterFilter(since=cut, until=cut))) == []


def test_a_walk_is_not_disturbed_by_what_comes_and_goes(store, clock):
    first = []
    for _ in range(4):
        first += failed(store)
        clock.advance(1)
    page = store.letters(OPEN, limit=2)
    failed(store)
    store.dismiss([first[3], first[0]], note="x")

    rest = store.letters(OPEN, after=page.next, limit=10)

    assert (ids(page), ids(rest), rest.next) == ([first[3], first[2]], [first[1]], None)


def test_what_failed_in_the_same_moment_has_an_order_too(store):
    made = failed(store, *(new_job() for _ in range(5)))
    page = store.letters(OPEN, limit=2)
    then = store.letters(OPEN, after=page.next, limit=9)
    assert ids(page) + ids(then) == made[::-1]


@pytest.mark.parametrize("after", ["nonsense", "", "cGFnZV9uZXdlc3QgMSA"])
def test_a_place_that_is_none_is_refused(store, after):
    with pytest.raises(ValueError, match=r"^after: "):
        store.letters(OPEN, after=after)


def test_a_place_of_another_list_is_refused(store):
    failed(store, new_job(), new_job())
    place = store.letters(OPEN, limit=1).next
    with pytest.raises(ValueError, match=r"^after: "):
        store.letters(LetterFilter(fingerprint=TIMEOUT.fingerprint), after=place)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"stage": -1}, "stage"),
        ({"stage": "ask"}, "stage"),
        ({"run": "x"}, "run"),
        ({"task": ""}, "task"),
        ({"since": "yesterday"}, "since"),
    ],
)
def test_a_filter_that_is_none_is_refused_by_name(fields, named):
    with pytest.raises(ValueError, match=f"^{named}"):
        LetterFilter(**fields)


def test_piles_say_where_how_many_lie(store, several):
    work = LetterState.OPEN, "work", "default"
    assert store.count_letters(OPEN) == [
        Pile(*work, 0, FaultCode.TIMEOUT, 2),
        Pile(LetterState.OPEN, "mail", "post", 0, FaultCode.TIMEOUT, 1),
        Pile(*work, 0, FaultCode.NOT_FOUND, 1),
        Pile(*work, 1, FaultCode.TIMEOUT, 1),
    ]


# --- groups ---------------------------------------------------------------------------------------


def test_groups_tell_how_much_of_the_trouble_is_the_same(store, several, clock):
    first, second = store.letter_groups(OPEN)

    assert (first.fingerprint, first.count, first.share) == (TIMEOUT.fingerprint, 4, 0.8)
    assert (first.codes, first.stages) == ((FaultCode.TIMEOUT,), (0, 1))
    assert first.tasks == ("mail", "work")
    assert first.came_back == 0
    assert first.first_at == letter_of(store, several["plain"]).first_at
    assert first.last_at == letter_of(store, several["second"]).last_at
    assert (second.count, second.codes) == (1, (FaultCode.NOT_FOUND,))
    assert ids(second.samples) == [several["other"]]


def test_a_group_says_how_many_came_back(store):
    one, _ = failed(store, new_job(), new_job())
    fail_again(store, Redrive(one))
    (group,) = store.letter_groups(OPEN)
    assert (group.count, group.came_back) == (2, 1)


def test_samples_differ_where_there_are_different_ones(store):
    """Their fingerprints are the same, since they differ in numbers only."""
    faults = [Fault(FaultCode.NOT_FOUND, f"no page {n}") for n in (1, 1, 1, 1, 1, 1, 2, 3)]
    failed_by(store, *faults)

    (group,) = store.letter_groups(OPEN)

    assert (group.count, len(group.samples)) == (8, MOST_SAMPLES)
    assert {letter.fault.message for letter in group.samples[:3]} == {
        "no page 1", "no page 2", "no page 3",
    }  # fmt: skip
    assert len({letter.job_id for letter in group.samples}) == MOST_SAMPLES


def test_groups_that_are_left_out_are_counted(store):
    words = ["one", "two", "three"]
    failed_by(store, *(Fault(FaultCode.NOT_FOUND, word) for word in [*words, "three"]))

    groups = store.letter_groups(OPEN, limit=1)

    assert (len(groups), groups.total, groups.letters) == (1, 3, 4)
    assert (groups.groups[0].count, groups.groups[0].share) == (2, 0.5)


def test_no_letters_are_no_groups(store):
    groups = store.letter_groups(OPEN)
    assert (list(groups), groups.total, groups.letters) == ([], 0, 0)
    assert store.count_letters(OPEN) == []


def test_a_fingerprint_of_any_length_can_be_kept_and_found(store):
    fault = Fault(FaultCode.NOT_FOUND, "gone", fingerprint="x" * 5_000)
    (job_id,) = failed_by(store, fault)
    (group,) = store.letter_groups(OPEN)
    assert ids(group.samples) == [job_id]
    assert ids(store.letters(LetterFilter(fingerprint=group.fingerprint))) == [job_id]


# --- telling the fleet ----------------------------------------------------------------------------


def test_new_ones_are_told_once_and_only_when_they_are_enough(store, clock):
    failed(store, new_job(), new_job())
    assert store.new_letters(every=3) == 0
    clock.advance(1)
    (third,) = failed(store)
    store.redrive([Redrive(third, delay_seconds=60)])
    assert store.new_letters(every=3) == 3
    assert store.new_letters(every=1) == 0
    clock.advance(1)
    failed(store)
    assert store.new_letters(every=1) == 1


@shared
def test_of_many_who_ask_at_once_one_is_told(url, clock):
    with open_store(url, clock=clock) as store:
        failed(store, *(new_job() for _ in range(4)))
        found = at_once(6, lambda _: store.new_letters(every=2))
    assert sorted(found) == [0, 0, 0, 0, 0, 4]


# --- who is first ---------------------------------------------------------------------------------


@shared
@pytest.mark.parametrize("rivals", ["dismiss", "undismiss", "prune_dismissed", "prune", "redrive"])
def test_redriven_and_something_else_at_once_leaves_a_whole_ledger(url, clock, rivals):
    """Whoever is first decides; what is left agrees with the job, whatever it is."""
    with open_store(url, clock=clock) as store, open_store(url, clock=clock) as other:
        for _ in range(5):
            ids_ = failed(store, *(new_job() for _ in range(8)))
            if rivals in ("undismiss", "prune_dismissed"):
                store.dismiss(ids_, note="x")
            clock.advance(1)
            act = {
                "dismiss": lambda ids_=ids_: other.dismiss(ids_, note="x"),
                "undismiss": lambda ids_=ids_: other.undismiss(ids_),
                "prune_dismissed": lambda: other.prune_dismissed(older_than_seconds=0),
                "prune": lambda: other.prune(State.FAILED, older_than_seconds=0),
                "redrive": lambda ids_=ids_: other.redrive([Redrive(each) for each in ids_]),
            }[rivals]
            at_once(2, lambda at, act=act, ids_=ids_: (
                act() if at else store.redrive([Redrive(each) for each in ids_])
            ))  # fmt: skip
            assert store.verify().violations == ()
            for claim in store.claim(wanted(limit=100)):
                store.settle([ended(claim.token)])


@shared
def test_what_is_dismissed_at_this_moment_is_not_redriven_in_passing(url, clock):
    """Each job ends as one of both said, and exactly one of both was answered that it is done."""
    with open_store(url, clock=clock) as store, open_store(url, clock=clock) as other:
        for _ in range(10):
            (job_id,) = failed(store)
            answers = dict(at_once(2, lambda at, job_id=job_id: (at, (
                other.dismiss([job_id], note="x") if at
                else store.redrive([Redrive(job_id, only_open=True)])
            )[0].done)))  # fmt: skip
            assert sorted(answers.values()) == [False, True]
            state = store.letters_of([job_id])[job_id].state
            assert state == (LetterState.DISMISSED if answers[1] else LetterState.REDRIVEN)
            store.cancel([job_id])


# --- what is to be thought of a group -------------------------------------------------------------


def test_a_group_says_whether_it_is_new_has_been_there_or_came_back(store, clock):
    old, back = Fault(FaultCode.TIMEOUT, "old"), Fault(FaultCode.NOT_FOUND, "back")
    failed_by(store, old)
    (job_id,) = failed_by(store, back)
    clock.advance(25 * 3_600)
    failed_by(store, old, Fault(FaultCode.IO_ERROR, "new"))
    store.redrive([Redrive(job_id)])
    (claim,) = store.claim(wanted())
    store.settle([ended(claim.token, Outcome.FAILED, fault=back)])

    kinds = {group.codes: str(group.kind) for group in store.letter_groups(OPEN)}

    assert kinds == {
        (FaultCode.TIMEOUT,): "recurring",
        (FaultCode.IO_ERROR,): "new",
        (FaultCode.NOT_FOUND,): "came back",
    }


def test_a_group_names_the_policies_and_configurations_of_its_newest_failures(store):
    made = [("mail/1", "c1"), ("mail/2", "c1"), ("mail/1", None), (None, "c2")]
    claims = claimed(store, *(new_job() for _ in made))
    for claim, (policy, config) in zip(claims, made, strict=True):
        store.settle([ended(claim.token, Outcome.FAILED, policy=policy, config=config)])

    (group,) = store.letter_groups(OPEN)

    assert (group.policies, group.configs) == (("mail/1", "mail/2"), ("c1", "c2"))


def test_a_trend_counts_when_letters_came_by_parts_of_a_span(store, clock):
    for hours in (0, 6.5, 0, 22, 1, 0.5):  # later than the one before
        clock.advance(hours * 3_600)
        failed_by(store, TIMEOUT)
    now = clock.now()
    other = failed_by(store, Fault(FaultCode.NOT_FOUND, "gone"))[0]
    print_of = letter_of(store, other).fingerprint

    trends = store.letter_trends(OPEN, [TIMEOUT.fingerprint, print_of, "none"])

    trend = trends[TIMEOUT.fingerprint]
    assert (trend.since, trend.part_seconds) == (now - timedelta(days=1), 3_600)
    assert trend.counts == (2, *[0] * 21, 1, 2)
    assert trends[print_of].counts == (*[0] * 23, 1)
    assert trends["none"].counts == (0,) * 24
    assert all(each.whole for each in trends.values())


def test_a_trend_is_of_what_matches(store, clock):
    one, _ = failed_by(store, TIMEOUT, TIMEOUT, owner="ann")
    failed_by(store, TIMEOUT, owner="bob")
    store.dismiss([one], note="x")

    def count(**which):
        (trend,) = store.letter_trends(
            LetterFilter(**which), [TIMEOUT.fingerprint], seconds=60, parts=1
        ).values()
        return trend.counts

    assert count() == (3,)
    assert count(state=LetterState.OPEN) == (2,)
    assert count(owner="ann") == (2,)
    assert count(owner="ann", state=LetterState.OPEN) == (1,)
    assert count(code=FaultCode.NOT_FOUND) == (0,)
    assert count(task="none") == (0,)
    assert store.letter_trends(LetterFilter(fingerprint="other"), [TIMEOUT.fingerprint]) == {}


def test_a_trend_counts_only_so_many_and_says_so(store, clock, monkeypatch):
    monkeypatch.setattr(dead, "MOST_COUNTED", 3)
    for _ in range(5):
        clock.advance(10)
        failed_by(store, TIMEOUT)

    (trend,) = store.letter_trends(OPEN, [TIMEOUT.fingerprint], seconds=60, parts=6).values()

    assert (trend.counts, trend.whole) == ((0, 0, 0, 0, 1, 2), False)


@pytest.mark.parametrize(
    ("field", "how"),
    [
        ("fingerprints", {"fingerprints": [f"f{n}" for n in range(101)]}),
        ("fingerprint", {"fingerprints": [""]}),
        ("seconds", {"seconds": 0}),
        ("seconds", {"seconds": -5}),
        ("parts", {"parts": 0}),
        ("parts", {"parts": 201}),
        ("parts", {"parts": 1.5}),
    ],
)
def test_a_trend_that_cannot_be_told_is_refused(store, field, how):
    with pytest.raises(ValueError, match=f"^{field}: "):
        store.letter_trends(OPEN, **{"fingerprints": ["f"], **how})
