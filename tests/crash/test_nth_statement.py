"""Whatever goes wrong at whichever statement of a verb, the books balance and asking again is safe.

Every verb is asked of the same prepared state. First undisturbed, to learn its answer, how many
statements it sends, and what stands afterwards. Then once for every N, with a fault at the N-th
statement: an error, an interrupt, a connection that is cut before the statement or after it, a
process that is killed. Only `StoreUnavailableError` may come out; then the same store is asked
again, answers as the port allows, and leaves what stands after the undisturbed ask.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from seawall.clock import ManualClock
from seawall.errors import StoreUnavailableError
from seawall.store.backend import Backend
from seawall.store.ledger import Ledger
from seawall.store.migrate import bring_up
from seawall.store.values import Observed, Result
from tests.crash import proxy, tracer
from tests.crash.places import File, Memory, Postgres, Subject
from tests.crash.world import LEASE_SECONDS, NOW, VERBS, Verb, opened_backend, settle_down, standing
from tests.support.ledger import lost

ROOT = Path(__file__).parents[2]
KILLED_VERBS = (
    "enqueue with a key", "claim", "settle", "exchange", "advance", "reclaim", "prune",
    "observe with settle", "govern", "redrive", "prune dismissed",
    "tell",
)  # fmt: skip
PATIENCE_SECONDS = 60
MOST_KILLS = {"file": 5, "postgres16": 3}
"""Of each verb: a process takes its time to start, and to a server its end is one more cut."""

STRIKES: list[tuple[str, tracer.Strike | proxy.Strike]] = [
    ("memory", tracer.Strike.ERROR),
    ("file", tracer.Strike.ERROR),
    ("file", tracer.Strike.INTERRUPT),
    *[("postgres16", strike) for strike in proxy.Strike],
    ("postgres18", proxy.Strike.ERROR),
    ("postgres18", proxy.Strike.CUT_AFTER),
]
"""What never reaches the server is the same whatever its version."""
ONLY_ON_POSTGRES = ("enqueue a hundred",)
"""What goes another way there than on SQLite, and would only be long here."""
CASES = [
    (kind, strike, name)
    for kind, strike in STRIKES
    for name in VERBS
    if kind.startswith("postgres") or name not in ONLY_ON_POSTGRES
]


@pytest.fixture(scope="module")
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def places(cleanup, request, tmp_path_factory):
    """The place of a kind, made when it is first asked for."""
    patches = cleanup.enter_context(pytest.MonkeyPatch.context())
    # Telling others of work is never put off, so that a verb always sends the same statements.
    patches.setattr("seawall.store.wake.QUIET_SECONDS", -1.0)
    watch = tracer.Tracer(patches.setattr)

    @cache
    def place(kind: str) -> Any:
        if kind == "memory":
            return Memory(watch)
        if kind == "file":
            return File(watch, tmp_path_factory.mktemp("file"))
        server = request.getfixturevalue("postgres_fleet").server(kind.removeprefix("postgres"))
        return Postgres(server.new_url(), cleanup)

    return place


# --- asking -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Undisturbed:
    """What a verb does when nothing goes wrong."""

    answer: Any
    standing: Any


def undisturbed(place: Any, verb: Verb) -> Undisturbed:
    """Ask while the place counts: `place.hits` then tells where it can be struck."""
    with place.prepared() as subject:
        place.watch.arm()
        answer = verb.ask(subject.store)
        place.watch.disarm()
        return Undisturbed(answer, standing(subject.witness))


@contextmanager
def struck(place: Any, n: int, strike: Any) -> Iterator[None]:
    """Whatever fails inside says at which statement."""
    place.watch.arm(n, strike)
    try:
        yield
    except BaseException as error:
        error.add_note(f"{strike} at statement {n}: {place.watch.seen}")
        raise
    finally:
        place.watch.disarm()


def needs_asking_again(subject: Subject, verb: Verb, expected: Undisturbed) -> bool:
    """Ask; whoever is answered in spite of the strike is answered as ever."""
    try:
        answer = verb.ask(subject.store)
    except StoreUnavailableError:
        return True
    assert answer == expected.answer
    return False


def ask_again(subject: Subject, verb: Verb, expected: Undisturbed) -> None:
    answer = verb.ask(subject.store)
    assert verb.fits(answer, expected.answer), f"{answer} after {expected.answer}"


def need_the_same(subject: Subject, verb: Verb, expected: Undisturbed) -> None:
    found, wants = standing(subject.witness), dict(expected.standing)
    if verb.may_double:
        for jobs in (found["jobs"], wants["jobs"]):
            assert all(count == 1 or "key=None" in job for job, count in jobs.items())
            assert max(jobs.values()) <= 2
        for what in ("jobs", "notes"):
            found[what], wants[what] = set(found[what]), set(wants[what])
        del found["books"], wants["books"]  # `standing` has seen that they balance
    if verb.may_observe_twice:
        seen, expects = found.pop("observed"), wants.pop("observed")
        assert seen in (expects, _twice(expects)), "all of it once, or all of it twice"
    assert found == wants


def _twice(observed: dict[str, list[Observed]]) -> dict[str, list[Observed]]:
    """What is known when everything that was seen just now is told once more."""
    return {
        name: [
            Observed(each.worker, each.second, *(2 * n for n in each[2:]))
            if each.second == int(NOW.timestamp())
            else each
            for each in lines
        ]
        for name, lines in observed.items()
    }


def need_them_back(subject: Subject, verb: Verb) -> None:
    """What was claimed comes back when its lease has lapsed, whether or not anybody knows of it."""
    subject.clock.advance(LEASE_SECONDS + 1)
    lapsed = [each.token for each in subject.store.lapsed() if each.token.job_id in verb.claims]
    assert len(lapsed) == len(verb.claims)
    answers = subject.store.reclaim([lost(token, 0.0) for token in lapsed])
    assert {answer.result for answer in answers} == {Result.DONE}
    claims = verb.claim_again(subject.store)
    assert {claim.token for claim in claims} == {(job, 2, 2) for job in verb.claims}


@pytest.mark.parametrize(("kind", "strike", "name"), CASES)
def test_a_fault_at_any_statement_leaves_the_books_whole_and_the_verb_safe_to_ask_again(
    places, kind, strike, name
):
    place, verb = places(kind), VERBS[name]
    expected = undisturbed(place, verb)
    hits = place.hits(strike)
    assert hits
    again = 0
    for n in hits:
        with place.prepared() as subject, struck(place, n, strike):
            fails = needs_asking_again(subject, verb, expected)
            place.watch.disarm()
            assert subject.witness.verify().violations == ()
            if fails:
                again += 1
                ask_again(subject, verb, expected)
            need_the_same(subject, verb, expected)
            if verb.claims:
                need_them_back(subject, verb)
    assert again, "no strike was felt"


# --- a store without tables ---------------------------------------------------------------------


def without_tables(place: Any) -> "closing[Backend]":
    place.empty()
    backend = opened_backend(place.url, ManualClock(NOW))
    settle_down(backend)
    return closing(backend)


def undisturbed_migration(place: Any) -> Undisturbed:
    with without_tables(place) as backend:
        place.watch.arm()
        answer = bring_up(backend)
        place.watch.disarm()
        return Undisturbed(answer, place.tables())


def need_all_tables_or_none(place: Any, expected: Undisturbed) -> None:
    assert place.tables() in ([], expected.standing)


def migrate_again(place: Any, backend: Backend, expected: Undisturbed) -> None:
    assert bring_up(backend) in (expected.answer, [])
    assert place.tables() == expected.standing
    assert Ledger(backend).verify().violations == ()


@pytest.mark.parametrize(("kind", "strike"), [each for each in STRIKES if each[0] != "memory"])
def test_a_fault_at_any_statement_of_a_migration_leaves_all_tables_or_none(places, kind, strike):
    place = places(kind)
    expected = undisturbed_migration(place)
    hits = place.hits(strike)
    for n in hits:
        with without_tables(place) as backend, struck(place, n, strike):
            with suppress(StoreUnavailableError):  # interrupted too late, it is done
                bring_up(backend)
            place.watch.disarm()
            need_all_tables_or_none(place, expected)
            migrate_again(place, backend, expected)
    assert len(hits) > 5


# --- a process that dies ------------------------------------------------------------------------


@contextmanager
def asking(place: Any, name: str, n: int) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that has opened the store, and asks when it is told to."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.asker", place.url, name, str(n)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def kill(place: Any, name: str, n: int, strike: proxy.Strike | None) -> None:
    """Let a process ask, and die at the N-th statement; on SQLite by its own hand."""
    with asking(place, name, n) as process:
        if strike is not None:
            place.watch.arm(n, strike, process.kill)
        process.communicate(b"ask\n", timeout=PATIENCE_SECONDS)
        if strike is not None:
            struck = place.watch.over.wait(PATIENCE_SECONDS)
            place.watch.disarm()
            assert struck, f"{strike} did not strike {n} of {place.watch.seen}"
        assert process.returncode == -signal.SIGKILL


def moments(place: Any, most: int) -> list[tuple[int, proxy.Strike | None]]:
    """When to kill: spread over the statements that were counted, and always at the last of all."""
    if isinstance(place, Postgres):
        strikes = (proxy.Strike.CUT_BEFORE, proxy.Strike.CUT_AFTER)
        found = sorted((n, strike) for strike in strikes for n in place.hits(strike))
    else:
        found = [(n, None) for n in range(1, place.watch.seen + 2)]  # the last: after all of them
    most = min(len(found), most)
    return [found[round(i * (len(found) - 1) / (most - 1))] for i in range(most)]


@pytest.mark.parametrize("name", KILLED_VERBS)
@pytest.mark.parametrize("kind", MOST_KILLS)
def test_a_process_that_is_killed_at_any_statement_leaves_the_verb_safe_to_ask_again(
    places, kind, name
):
    place, verb = places(kind), VERBS[name]
    expected = undisturbed(place, verb)
    for n, strike in moments(place, MOST_KILLS[kind]):
        place.restore()
        kill(place, name, n, strike)
        with place.opened() as subject:
            assert subject.witness.verify().violations == ()
            ask_again(subject, verb, expected)
            need_the_same(subject, verb, expected)
            if verb.claims:
                need_them_back(subject, verb)


@pytest.mark.parametrize("kind", MOST_KILLS)
def test_a_process_that_is_killed_while_it_migrates_leaves_all_tables_or_none(places, kind):
    place = places(kind)
    expected = undisturbed_migration(place)
    for n, strike in moments(place, MOST_KILLS[kind]):
        place.empty()
        kill(place, "migrate", n, strike)
        need_all_tables_or_none(place, expected)
        with closing(opened_backend(place.url, ManualClock(NOW))) as backend:
            migrate_again(place, backend, expected)
