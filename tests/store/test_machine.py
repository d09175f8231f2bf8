"""Any sequence of verbs, crashes and clock jumps leaves every store where the plain model stands.

Hypothesis drives a store and `LedgerModel` side by side: three workers with jobs in their hands, a
person, upkeep, those who decide about upstreams, dead workers whose writes arrive late, and a clock
that passes, jumps ahead and goes back. After every step all answers, all jobs, their history and the books must be the model's, whose
states move by `states.step` alone. The last tests break a store on purpose and see it caught.

The machine has one rule, which draws what happens next: of many rules Hypothesis would switch off
half for each sequence, and what takes a claim, a lapse, a reclaim and a late write hardly happened.
`SEAWALL_MACHINE_EXAMPLES` sets how many sequences are tried on each store.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from seawall.clock import ManualClock
from seawall.model import SETTLING_OUTCOMES, Begin, Lane, NewJob, Outcome, Token
from seawall.states import FINISHED, State
from seawall.store import Store, open_store, values
from seawall.store.letters import LetterFilter, LetterState
from tests.support.ledger import ended, lost
from tests.support.ledger_model import LedgerModel

EXAMPLES = {"memory": 30, "file": 12, "postgres16": 10, "postgres18": 10}
STEPS = 50
STEPS_BETWEEN_VERIFICATIONS = 10
ENOUGH_JOBS = 6
"""With more, each would meet fewer of the others' troubles, and comparing them takes time."""
LEASE = 60.0
WORKERS = ("w1", "w2", "inline:w3")
TASKS = ("a", "b")
QUEUES = ("default", "other")
LANES = (
    Lane(task="a"),
    Lane(task="a", owner="one"),
    Lane(task="a", upstream="api", priority=5),
    Lane(task="b"),
    Lane(task="b", queue="other", priority=5),
    Lane(task="b", queue="other", priority=-1, upstream="api"),
    Lane(task="a", upstream="shop:one", owner="one"),
    Lane(task="a", run=7),
)
UPSTREAMS = ("api", "shop:one")
HELD = tuple(zip(values.Scope, ("other", "a", "api", "7"), strict=True))


def seldom(*values):
    return st.sampled_from([None] * 5 + list(values))


spans = st.sampled_from([0.0, 0.25, 3.0])
delays = st.sampled_from([0.0, 0.5, 20.0, 4_000.0])
limits = st.integers(1, 4)
further = st.sampled_from([1, 1, 1, 2, 0])
outcomes = st.sampled_from([Outcome.RETRIED, Outcome.RETRIED, *sorted(SETTLING_OUTCOMES)])
new_jobs = st.fixed_dictionaries(
    {
        "lane": st.sampled_from(LANES),
        "arguments": st.sampled_from(["[]", "[1]"]),
        "key": seldom("k1", "k2"),
        "run_after": seldom(-60.0, 10.0, 4_000.0),
        "deadline_at": seldom(-1.0, 50.0, 4_000.0),
        "begin": seldom(*(Begin(worker=worker, lease_seconds=LEASE) for worker in WORKERS)),
        "owner": seldom("somebody"),
        "run": seldom(7),
        "request_id": seldom("r-1"),
        "tags": st.sampled_from([(), (), ("urgent",), ("b", "a")]),
    }
)
wishes = st.builds(
    values.Wanted,
    worker=st.sampled_from(WORKERS),
    queues=st.sampled_from([QUEUES, None, QUEUES[:1]]),
    tasks=st.sampled_from([TASKS, TASKS, TASKS[:1], TASKS[1:]]),
    limit=st.integers(1, 6),
    lease_seconds=st.sampled_from([5.0, LEASE, 1_000.0]),
    prefetch=st.booleans(),
    upstream=st.none(),
    retry=st.just(False),
    without=st.just(frozenset()),
    guarded=st.sampled_from([frozenset()] * 4 + [frozenset({"api"}), frozenset({"shop"})]),
    owner=st.none(),
)
"""Plain claims; what is asked for at an upstream's desk is drawn there."""
observations = st.builds(
    values.Observation,
    upstream=st.sampled_from(UPSTREAMS),
    worker=st.sampled_from(WORKERS[:2]),
    **dict.fromkeys(values.Observation._fields[2:8], st.integers(0, 3)),
    spans=st.sampled_from([(), ((0, 1),), ((3, 2), (28, 1))]),
)

EVENTS: list[tuple[str, int, Callable]] = []


def event(often: int, when: Callable = lambda machine: True):
    """Something that can happen, how often beside the others, and when it makes sense."""

    def kept(method):
        EVENTS.append((method.__name__, often, when))
        return method

    return kept


def someone_holds_a_job(machine: "LedgerMachine") -> bool:
    return any(machine.hands.values())


class JumpingClock(ManualClock):
    """A clock that someone may set, to later or earlier."""

    def jump(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class ChangedMindError(Exception):
    """Whoever decided about an upstream leaves without having decided."""


Opened = Callable[[JumpingClock, random.Random], Store]


class LedgerMachine(RuleBasedStateMachine):
    """A store, the model, and everyone who uses them."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self.clock = JumpingClock()
        self.turns = random.Random(0)
        self.store = opened(self.clock, self.turns)
        self.model = LedgerModel(self.clock.now)
        self.hands: dict[str, list[Token]] = {worker: [] for worker in WORKERS}
        self.zombies: list[Token] = []
        """Tokens of workers that have crashed, and those that were used up."""
        self.asked: list[tuple[str, object]] = []
        """Writes that were answered, to be asked again."""
        self.compared: dict[int, tuple[int, int]] = {}
        """Up to which attempt and cycle each job's history was found to be the model's."""
        self.steps = 0

    @initialize(seed=st.integers(0, 3), jobs=st.lists(new_jobs, min_size=2, max_size=5))
    def some_jobs_wait(self, seed, jobs):
        self.turns.seed(seed)
        self.ask_for(jobs)

    @rule(data=st.data())
    def something_happens(self, data):
        possible = [name for name, often, when in EVENTS if when(self) for _ in range(often)]
        getattr(self, data.draw(st.sampled_from(possible)))(data.draw)

    def teardown(self) -> None:
        with self.store:
            if sys.exception() is None:
                self.the_books_balance()

    # --- a worker's life ----------------------------------------------------------------------

    @event(10, someone_holds_a_job)
    def write(self, draw):
        verb = draw(st.sampled_from(["settle", "settle", "release", "release", "advance", "renew"]))
        self.ask(verb, [self.request(draw, verb, token) for token in self.picked(draw)])

    @event(7)
    def claim(self, draw):
        wanted = self.wish(draw)
        self.take(wanted, self.store.claim(wanted))

    @event(2, lambda machine: bool(machine.model.jobs))
    def take_back(self, draw):
        """By whoever tried it last, or believes so."""
        record = self.model.jobs[draw(st.sampled_from(sorted(self.model.jobs)))]
        token = Token(record.id, record.lease_no, record.seq + draw(st.sampled_from([0, 0, 0, 1])))
        worker = draw(st.sampled_from(WORKERS))
        expected = self.model.take_back(token, worker, LEASE)
        assert self.store.take_back(token, worker=worker, lease_seconds=LEASE) == expected
        if expected is not None:
            self.hands[worker].append(expected.token)

    def wish(self, draw) -> values.Wanted:
        """A plain claim, which may know of some upstreams that they are gated."""
        knows = draw(st.booleans())
        return draw(wishes)._replace(without=self.model.gated() if knows else frozenset())

    def take(self, wanted: values.Wanted, claims: list[values.Claim]) -> None:
        self.model.claim(wanted, claims)
        for claim in claims:
            record = self.model.jobs[claim.token.job_id]
            assert self.store.earlier(claim) == record.earlier()
        self.hands[wanted.worker] += [claim.token for claim in claims]

    @event(2, someone_holds_a_job)
    def exchange(self, draw):
        batch = [self.request(draw, "settle", token) for token in self.picked(draw)]
        wanted, seen = self.wish(draw), draw(st.lists(observations, max_size=3))
        answers, claims = self.store.exchange(batch, wanted, observations=seen)
        assert answers == [self.model.settle(each) for each in batch]
        self.written("settle", batch, answers)
        self.take(wanted, claims)
        for each in seen:
            self.model.observe(each)

    @event(3, someone_holds_a_job)
    def another_worker_takes_over(self, draw):
        """What was handed back, or lost; then it is only a matter of who writes first."""
        tokens = self.picked(draw)
        if draw(st.booleans()):
            self.ask("release", [values.Release(token=token) for token in tokens])
        else:
            self.clock.advance(1_000.0)
            self.ask("reclaim", [lost(token, 0.0) for token in tokens])
        self.claim(draw)

    def picked(self, draw) -> list[Token]:
        """Some of what a worker has in hand, lost or not: it cannot know."""
        return draw(some(draw(st.sampled_from([hand for hand in self.hands.values() if hand]))))

    def request(self, draw, verb: str, token: Token) -> object:
        if verb == "renew":
            return token
        took, ago, output = draw(st.tuples(spans, spans, st.sampled_from([None, "x", "y"])))
        if verb == "release":
            begun = draw(st.booleans())
            return values.Release(
                token=token, duration_seconds=took if begun else None, age_seconds=ago
            )
        how = {"duration_seconds": took, "age_seconds": ago, "output": output, "policy": "p@1"}
        how["counts"] = draw(st.booleans())
        if verb == "advance":
            record = self.model.jobs.get(token.job_id)
            stage = draw(further) + (record.lane.stage if record else 0)
            lane = draw(st.sampled_from(LANES))
            return values.Advance(token=token, lane=replace(lane, stage=stage), **how)
        outcome = draw(outcomes)
        if outcome in (Outcome.RETRIED, Outcome.SNOOZED):
            how["delay_seconds"] = draw(delays)
        if outcome is Outcome.RETRIED and draw(st.booleans()):
            how["lane"] = self.where_it_waits(token, draw)
        return ended(token, outcome, **how)

    def where_it_waits(self, token: Token, draw) -> Lane | None:
        """Among the retries at its upstream or, now and then, among the others again."""
        record = self.model.jobs.get(token.job_id)
        if record is None or not record.lane.upstream:
            return None
        return replace(record.lane, retry=draw(st.sampled_from([True, True, False])))

    def ask(self, verb: str, batch: list) -> None:
        """Ask the store and the model the same."""
        if verb == "renew":
            answers = self.store.renew(batch, lease_seconds=LEASE)
            assert answers == [self.model.renew(token, LEASE) for token in batch]
            return
        answers = getattr(self.store, verb)(batch)
        assert answers == [getattr(self.model, verb)(each) for each in batch]
        self.written(verb, batch, answers)

    def written(self, verb: str, batch: list, answers: list[values.Answer]) -> None:
        """A token is used up by a write; after an advance its holder goes on with the next."""
        self.asked += [(verb, each) for each in batch]
        if verb == "reclaim":
            return  # the holder is not told: it learns by writing
        used = {each.token: answer.result for each, answer in zip(batch, answers, strict=True)}
        for worker, hand in self.hands.items():
            kept = [token for token in hand if token not in used]
            done = [token for token in hand if used.get(token) is values.Result.DONE]
            self.hands[worker] = kept + [token.next() for token in done if verb == "advance"]
        self.zombies += [token for token in used if token not in self.zombies]

    # --- upstreams ----------------------------------------------------------------------------

    @event(6)
    def govern(self, draw):
        """Decide about an upstream and take some of its jobs, or change one's mind about both."""
        name = draw(st.sampled_from(UPSTREAMS))
        asked = draw(st.lists(st.tuples(wishes, st.booleans(), seldom("", "one")), max_size=3))
        wanted = [w._replace(upstream=name, retry=retry, owner=of) for w, retry, of in asked]
        decides = draw(st.sampled_from(["gates", "gates", "opens", "drops", "nothing", "regrets"]))
        before = self.model.watched.get(name)
        with suppress(ChangedMindError), self.store.govern(name, wait=draw(st.booleans())) as desk:
            assert desk.state == (before.state if before else "")
            assert desk.now == self.clock.now()
            assert desk.observed(within_seconds=100) == self.model.seen_at(name, 100)
            claims = [desk.claim(each._replace(upstream=None)) for each in wanted]
            if decides in ("gates", "opens"):
                self.keep(draw, desk, gated=decides == "gates")
            if decides == "drops":
                desk.drop()
                self.model.watched.pop(name, None)
            if decides == "regrets":
                desk.keep("nobody will know", gated=True)
                raise ChangedMindError
            for each, taken in zip(wanted, claims, strict=True):
                self.take(each, taken)

    def keep(self, draw, desk, *, gated: bool) -> None:
        state, until = draw(st.sampled_from(["a", "b"])), self.at(draw(seldom(50.0)))
        desk.keep(state, gated=gated, held_until=until, reason="because")
        self.model.keep(values.Watched(desk.name, state, gated, until, "because"))

    @event(1)
    def look_where_something_is_due(self, draw):
        wanted, names = draw(wishes), draw(st.sets(st.sampled_from(UPSTREAMS)))
        found = self.store.due_at(wanted, names)
        assert len(found) == len(set(found))
        assert set(found) == self.model.due_at(wanted, names)

    @event(1)
    def observe(self, draw):
        seen = draw(st.lists(observations, min_size=1, max_size=4))
        self.store.observe(seen)
        for each in seen:
            self.model.observe(each)

    # --- asking -------------------------------------------------------------------------------

    @event(3, lambda machine: len(machine.model.jobs) < ENOUGH_JOBS)
    def enqueue(self, draw):
        self.ask_for(draw(st.lists(new_jobs, min_size=1, max_size=5)))

    def ask_for(self, jobs: list[dict]) -> None:
        times = [{at: self.at(job[at]) for at in ("run_after", "deadline_at")} for job in jobs]
        batch = [NewJob(**{**job, **chosen}) for job, chosen in zip(jobs, times, strict=True)]
        answers = self.store.enqueue(batch)
        self.model.enqueue(batch, answers)
        for asked, answer in zip(batch, answers, strict=True):
            if asked.begin and answer.taken is values.Taken.CREATED:
                self.hands[asked.begin.worker].append(Token(answer.job_id, 1, 1))

    def at(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.clock.now() + timedelta(seconds=seconds)

    # --- what goes wrong ----------------------------------------------------------------------

    @event(1, someone_holds_a_job)
    def crash(self, draw):
        worker = draw(st.sampled_from([worker for worker, hand in self.hands.items() if hand]))
        self.zombies += self.hands[worker]
        self.hands[worker] = []

    @event(5, lambda machine: machine.zombies)
    def a_dead_worker_writes(self, draw):
        """Above all where somebody else has the job by now."""
        now = {r.id: r.token for r in self.model.jobs.values() if r.state is State.RUNNING}
        contested = [t for t in self.zombies if now.get(t.job_id, t) != t]
        verb = draw(st.sampled_from(["settle", "settle", "advance", "release", "renew"]))
        tokens = draw(some(contested * 3 + self.zombies))
        self.ask(verb, [self.request(draw, verb, token) for token in tokens])

    @event(2, lambda machine: machine.asked)
    def an_answer_is_lost_and_the_write_asked_again(self, draw):
        verb, request = draw(st.sampled_from(self.asked))
        self.ask(verb, [request])

    # --- time ---------------------------------------------------------------------------------

    @event(3)
    def time_passes(self, draw):
        self.clock.advance(draw(st.sampled_from([0.001, 6.0, 30.0, 5_000.0])))

    @event(5, lambda machine: machine.model.moments())
    def a_moment_comes(self, draw):
        """Just when something is due, lapses, ends or is old enough."""
        moment = draw(st.sampled_from(self.model.moments()))
        self.clock.jump((moment - self.clock.now()).total_seconds())

    @event(2)
    def the_clock_jumps(self, draw):
        self.clock.jump(draw(st.sampled_from([-10_000, -3_600, -6, -4, 3_600, 10_000])))

    # --- upkeep -------------------------------------------------------------------------------

    @event(5, lambda machine: machine.model.lapsed())
    def reclaim(self, draw):
        limit = draw(limits)
        found = self.store.lapsed(limit=limit)
        assert found == self.model.lapsed()[:limit]
        delay = draw(delays | st.none())
        self.ask("reclaim", [lost(each.token, delay) for each in found])

    @event(1, someone_holds_a_job)
    def reclaim_what_may_not_have_lapsed(self, draw):
        self.ask("reclaim", [lost(token) for token in self.picked(draw)])

    @event(1)
    def expire(self, draw):
        limit = draw(limits)
        self.model.expire(limit, self.store.expire(limit=limit))

    @event(6, lambda machine: any(machine.model.set_in_the_future(slack_seconds=0)))
    @event(1)
    def straighten(self, draw):
        assert self.store.straighten() == self.model.straighten()

    @event(2, lambda machine: machine.ends())
    def prune(self, draw):
        state, age, limit = draw(st.tuples(st.sampled_from(self.ends()), delays, limits))
        old = self.model.prunable(state, age)
        pruned = self.store.prune(state, older_than_seconds=age, limit=limit)
        gone = old - self.store.jobs(list(old)).keys()
        assert pruned == len(gone) == min(limit, len(old))
        self.model.prune(gone)

    @event(2, lambda machine: machine.model.prunable_dismissed(-1e9))
    def prune_dismissed(self, draw):
        age, limit = draw(delays), draw(limits)
        old = self.model.prunable_dismissed(age)
        pruned = self.store.prune_dismissed(older_than_seconds=age, limit=limit)
        gone = old - self.store.jobs(list(old)).keys()
        assert pruned == len(gone) == min(limit, len(old))
        self.model.prune(gone)

    @event(1)
    def tell_of_new_letters(self, draw):
        every = draw(limits)
        assert self.store.new_letters(every=every) == self.model.new_letters(every)

    @event(1)
    def fold(self, draw):
        assert self.store.fold(limit=draw(limits)) >= 0
        assert self.store.fold_pace(limit=draw(limits)) >= 0

    def ends(self) -> list[State]:
        return sorted(FINISHED & {record.state for record in self.model.jobs.values()})

    # --- people -------------------------------------------------------------------------------

    def named(self, draw) -> list[int]:
        """Jobs that a person names: often one that runs, some may be gone, and one never was."""
        running = [r.id for r in self.model.jobs.values() if r.state is State.RUNNING]
        known = st.sampled_from([*running, *self.model.ever, 10_000])
        return draw(st.lists(known, min_size=1, max_size=2, unique=True))

    @event(2)
    def cancel(self, draw):
        ids = self.named(draw)
        assert self.store.cancel(ids) == [self.model.cancel(job_id) for job_id in ids]

    @event(2, lambda machine: machine.model.counts()[State.FAILED])
    def redrive(self, draw):
        failed = [r.id for r in self.model.jobs.values() if r.state is State.FAILED]
        ids = dict.fromkeys([draw(st.sampled_from(failed)), *self.named(draw)])
        first = {job_id: record.asked.lane for job_id, record in self.model.jobs.items()}
        back, delay = draw(st.booleans()), draw(st.sampled_from([0.0, 0.0, 20.0]))
        edited, only_open = draw(seldom("[1]", "[2]")), draw(st.booleans())
        batch = [
            values.Redrive(
                job_id, first.get(job_id) if back else None, arguments=edited,
                delay_seconds=delay, only_open=only_open, by=draw(seldom("ann")),
            )
            for job_id in ids
        ]  # fmt: skip
        assert self.store.redrive(batch) == [self.model.redrive(each) for each in batch]

    @event(2, lambda machine: machine.model.letters())
    def deal_with_a_letter(self, draw):
        ids = [draw(st.sampled_from(self.model.letters())).job_id, *self.named(draw)]
        if draw(st.integers(0, 2)):
            note, by = draw(st.sampled_from(["one", "two"])), draw(seldom("ann"))
            answers = self.store.dismiss(ids, note=note, by=by)
            assert answers == [self.model.dismiss(job_id, note, by) for job_id in ids]
        else:
            distinct = list(dict.fromkeys(ids))
            answers = self.store.undismiss(distinct)
            assert answers == [self.model.undismiss(job_id) for job_id in distinct]

    @event(1)
    def hold(self, draw):
        what, seconds = draw(st.sampled_from(HELD)), draw(st.sampled_from([0.0, 5.0, 50.0, None]))
        self.store.hold(*what, reason="because", seconds=seconds)
        self.model.hold(*what, "because", seconds)

    @event(2, lambda machine: machine.model.holds)
    def resume(self, draw):
        what = draw(st.sampled_from(HELD))
        assert self.store.resume(*what) == (what in self.model.holds_in_force())
        self.model.holds.pop(what, None)

    # --- what holds after every step ----------------------------------------------------------

    @invariant()
    def every_job_stands_where_the_model_says(self):
        found = self.store.jobs(self.model.ever)
        assert found == {job_id: record.as_job() for job_id, record in self.model.jobs.items()}
        assert self.store.counts() == self.model.counts()

    @invariant()
    def every_letter_reads_as_the_model_says(self):
        expected = {letter.job_id: letter for letter in self.model.letters()}
        assert self.store.letters_of(self.model.ever) == expected

    @invariant()
    def history_and_outputs_are_those_of_the_model(self):
        for job_id, record in self.model.jobs.items():
            latest = (len(record.history), record.cycle)
            if latest != self.compared.get(job_id, (0, 0)):
                self.compared[job_id] = latest
                assert self.store.attempts(job_id) == record.history
                for stage in {attempt.stage for attempt in record.history}:
                    assert self.store.output(job_id, stage) == record.outputs.get(stage)

    @invariant()
    def the_totals_are_those_of_the_model(self):
        totals, pace = self.store.totals(), self.model.pace
        assert {each[:6]: each.many for each in totals} == pace.many
        micros = {each[:6]: round(each.seconds * 1e6) for each in totals if each.seconds}
        assert micros == {key: many for key, many in pace.micros.items() if many}

    @invariant()
    def now_and_then_the_whole_ledger_is_verified(self):
        self.steps += 1
        if self.steps % STEPS_BETWEEN_VERIFICATIONS == 0:
            self.the_books_balance()

    def the_books_balance(self) -> None:
        found, model = self.store.verify(), self.model
        assert found.violations == ()
        assert found.present == model.counts()
        assert (found.entered, found.pruned) == (len(model.ever), model.pruned.total())
        assert found.entered == sum(found.present.values()) + found.pruned
        holds = {(held.scope, held.name): held for held in self.store.holds()}
        assert holds == model.holds_in_force()
        assert self.store.watched() == [each for _, each in sorted(model.watched.items())]
        for name in UPSTREAMS:
            assert self.store.observed(name, within_seconds=5_000) == model.seen_at(name, 5_000)
        assert self.store.lapsed() == model.lapsed()
        self.the_lists_of_letters_agree()
        self.the_minutes_are_those_of_the_model()

    def the_minutes_are_those_of_the_model(self) -> None:
        hours = 4
        minutes = self.model.pace.minutes
        first, last = (f(minute for minute, *_ in minutes) * 60 for f in (min, max))
        window = [datetime.fromtimestamp(each, UTC) for each in (first, last)]
        for task in (None, *TASKS):
            expected = Counter()
            for (minute, of, what), many in minutes.items():
                if task in (None, of):
                    expected[minute // (60 * hours), what] += many
            found = Counter()
            for each in self.store.pace(*window, step_seconds=hours * 3_600, task=task):
                at = int(each.at.timestamp()) // (3_600 * hours)
                found += Counter(
                    {(at, what): n for what, n in each._asdict().items() if what != "at"}
                )
            assert found == expected

    def the_lists_of_letters_agree(self) -> None:
        """As lists, as counts and as groups, whatever order the clock gave them."""
        letters = self.model.letters()
        assert list(self.store.letters(LetterFilter())) == letters
        for state in LetterState:
            here = [letter for letter in letters if letter.state is state]
            which = LetterFilter(state=state)
            assert list(self.store.letters(which)) == here
            assert sum(pile.letters for pile in self.store.count_letters(which)) == len(here)
            groups = {group.fingerprint: group.count for group in self.store.letter_groups(which)}
            assert groups == Counter(letter.fingerprint for letter in here)


def some(tokens: list[Token]):
    """A batch may name a job only once."""
    one = st.sampled_from(tokens)
    return st.lists(one, min_size=1, max_size=3, unique_by=lambda token: token.job_id)


def run(opened: Opened, **how) -> None:
    """Sequences are long and machines noisy; neither is a sign of bad health."""
    how = settings(stateful_step_count=STEPS, suppress_health_check=list(HealthCheck), **how)
    run_state_machine_as_test(lambda: LedgerMachine(opened), settings=how)


def test_no_sequence_of_events_parts_the_store_from_the_model(kind, tmp_path, request):
    numbers = count()

    def opened(clock: JumpingClock, turns: random.Random) -> Store:
        url = "sqlite://"
        if kind == "file":
            url = f"sqlite:///{tmp_path}/{next(numbers)}.db"
        elif kind != "memory":
            url = request.getfixturevalue("postgres_urls")(kind.removeprefix("postgres"))
        return open_store(url, clock=clock, rng=turns)

    run(opened, max_examples=int(os.environ.get("SEAWALL_MACHINE_EXAMPLES", EXAMPLES[kind])))


# --- the machine can fail ---------------------------------------------------------------------


def settles_for_anyone(store):
    """A late write is carried out under the token of whoever has the job by now."""
    honest = store.settle

    def settle(batch):
        return [settled(each) for each in batch]

    def settled(given):
        (answer,) = honest([given])
        job = store.jobs([given.token.job_id]).get(given.token.job_id)
        if answer.result is values.Result.LOST and job and job.state is State.RUNNING:
            (answer,) = honest([replace(given, token=Token(job.id, job.lease_no, job.seq + 1))])
        return answer

    store.settle = settle


def forgets_who_was_lost(store):
    store.reclaim = lambda batch: store.release(
        [values.Release(token=each.token) for each in batch]
    )


def never_straightens(store):
    store.straighten = lambda: values.Straightened(0, 0, 0)


def takes_what_is_gated(store):
    """Where it finds nothing else."""
    honest = store.claim
    store.claim = lambda wanted: honest(wanted) or honest(wanted._replace(upstream="api"))


def takes_a_redrive_for_a_failure(store):
    """The letter of a job that was sent again counts that as another time."""
    honest = store.letters_of
    store.letters_of = lambda ids: {
        job_id: replace(letter, times=letter.times + (letter.state == "redriven"))
        for job_id, letter in honest(ids).items()
    }


def redrives_what_was_dismissed(store):
    honest = store.redrive
    store.redrive = lambda batch: honest([each._replace(only_open=False) for each in batch])


def lets_retries_wait_among_the_others(store):
    honest = store.settle
    store.settle = lambda batch: honest([replace(each, lane=None) for each in batch])


@pytest.mark.parametrize(
    "broken_by",
    [
        settles_for_anyone,
        forgets_who_was_lost,
        never_straightens,
        takes_what_is_gated,
        lets_retries_wait_among_the_others,
        takes_a_redrive_for_a_failure,
        redrives_what_was_dismissed,
    ],
)
def test_a_broken_store_is_caught(broken_by):
    def opened(clock: JumpingClock, turns: random.Random) -> Store:
        store = open_store("sqlite://", clock=clock, rng=turns)
        broken_by(store)
        return store

    unshrunk = {"phases": [Phase.generate], "report_multiple_bugs": False}
    with pytest.raises(AssertionError):
        run(opened, max_examples=500, derandomize=True, database=None, **unshrunk)
