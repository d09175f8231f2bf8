"""The verbs of the store, and what each of them promises.

The store is the ledger that everything else trusts. It keeps jobs, leases and history, and carries
out what was decided elsewhere; it knows no policy and runs no code of a task. `Ledger` is its one
implementation, over SQLite or PostgreSQL; one suite of tests holds both to this page.

**Atomic.** A verb writes its batch in one transaction: after a crash at any point all of it is
there or none of it. Only two kinds of batch are divided, and then each part is a transaction: one
with more text than may travel at once, and one with a row that the database will not take (text
that is no Unicode), which is halved until that row stands alone and is answered `refused`, while
the rest is written. A row is never half written, nor is what hangs on it.

**Guarded.** A worker's writes name a `Token`: job, lease number, attempt number. The lease number
grows with every claim and is never reset; the attempt number grows with every attempt and is never
reset. A write whose token no longer stands changes nothing and is answered `lost`. A lease is lost
when it was reclaimed, not when it merely lapsed: until somebody else takes the job, its holder may
renew and settle.

**Safe to ask again.** When a verb raises `StoreUnavailableError`, it may or may not have been done.
Asked again, a worker's write that had been done is answered `already`; cancel, dismiss and hold
leave things as they are; redrive and the verbs of upkeep find nothing left to do. `enqueue` is safe
to ask again for jobs that have a key; a job without one may then be there twice. Jobs of a `claim`
whose answer was lost come back when their lease lapses, at the price of a loss.

**By the store's clock.** Due times, leases and deadlines are judged by one clock: PostgreSQL's
own, or this machine's for SQLite. Callers give spans, not times, except where a person named one.

**Bounded.** A batch has at most `MOST_ROWS` rows and travels in parts of at most
`HEAVIEST_BATCH` characters of text; every statement has a time limit; and no verb's cost grows with
what waits for later or is held.

**Lock order.** Lanes are written in a transaction of their own, before anything else. Then, always
in this order: an upstream or a schedule, jobs by id, keys by (task, key), what hangs on a job, what
was observed, a run, the tally, notes. What may meet others under way without an order of its own
(claim, reclaim's expiry, straighten, prune) skips what is locked. So nobody ever waits in a circle.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from seawall.model import Attempt, Job, NewJob, Token
from seawall.states import State
from seawall.store.access_values import Access, NewAccess
from seawall.store.letters import (
    DeadLetter,
    Dealt,
    LetterFilter,
    LetterGroups,
    LetterPage,
    Pile,
    Trend,
)
from seawall.store.port_fleet import FleetVerbs
from seawall.store.port_glances import GlanceVerbs
from seawall.store.port_pace import PaceVerbs
from seawall.store.port_runs import RunVerbs
from seawall.store.port_webhooks import WebhookVerbs
from seawall.store.values import (
    MOST_ROWS,
    Advance,
    Answer,
    Backlog,
    Change,
    Changes,
    Claim,
    Earlier,
    Ending,
    Enqueued,
    Evidence,
    Filter,
    Head,
    Hold,
    Ids,
    Lapse,
    Observation,
    Page,
    Progress,
    Reclaim,
    Redrive,
    Release,
    Scope,
    Straightened,
    Verification,
    Wanted,
)

if TYPE_CHECKING:
    from seawall.store.reading import Reading


class Store(RunVerbs, FleetVerbs, PaceVerbs, GlanceVerbs, WebhookVerbs, Protocol):
    """The ledger, as everything above it sees it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def many_at_once(self) -> bool:
        """Whether two threads that ask are served at the same time, and not one by one."""
        ...

    def close(self) -> None:
        """Let go of every connection. Closing twice is nothing."""
        ...

    # --- asking -------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Write each job, its data and its key together, and count it in.

        Answers in the order given. A key is unique for its task as long as its job exists,
        whatever its state. A job that begins at once is born running under lease 1, and its
        first attempt has the token (id, 1, 1). Inside `transaction`, of the same thread, it is
        written with whatever else that transaction holds.
        """
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """Lend the store's own connection, in a transaction, to the caller's statements.

        It is the driver's: apsw's on SQLite, psycopg's on PostgreSQL. What this thread enqueues
        meanwhile goes into the same transaction; whoever waits for work is told after its end.
        Nothing else may be asked of the store by this thread until then.
        """
        ...

    def enqueue_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """`enqueue` inside the transaction that the caller has open on its own connection.

        A connection of psycopg, SQLAlchemy (also a session), Django, or Python's own sqlite3.
        Nothing is committed here: the jobs are there exactly if the caller commits. A SQLite file
        that is open in this process through apsw is refused: use `transaction` then.
        """
        ...

    async def aenqueue_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """`enqueue_on` for an async connection of psycopg or SQLAlchemy."""
        ...

    def seen_on(self, connection: Any) -> "Reading":
        """What the transaction sees that the caller has open on its own connection: what it has
        written itself, too. Only on PostgreSQL, through psycopg, alone or beneath Django.
        """
        ...

    # --- a worker's life ----------------------------------------------------------------------

    def claim(self, wanted: Wanted) -> list[Claim]:
        """Lease due jobs, best first, at most as many as are wanted, each to one worker only.

        Lanes of higher priority come first, lanes of the same priority take turns, and within
        a lane the order is exact: due time, then id. A lane that another process has just made
        comes last, and a job that one has just released is seen, after a second at most. Jobs
        that are held, due later, past their deadline or already leased are not taken. Claiming
        charges nothing.
        """
        ...

    def take_back(self, token: Token, *, worker: str, lease_seconds: float) -> Claim | None:
        """Lease the job whose last attempt was the one named, even before it is due.

        None where it is not queued, or somebody has had it since. Neither holds nor limits are
        looked at: whoever asks has seen to them. What its earlier attempts came to is not told.
        """
        ...

    def renew(self, tokens: Sequence[Token], *, lease_seconds: float) -> list[Answer]:
        """Have each lease that was not lost end so long from now, even one that had lapsed.

        `done` or `lost`. It is the lease that is renewed, whichever of its attempts the token
        names.
        """
        ...

    def advance(self, advances: Sequence[Advance]) -> list[Answer]:
        """End each attempt as a finished stage; the job runs on under the same lease.

        Attempt, output and new stage are one write. The next attempt's token is `token.next()`.
        A job only goes forward: to a stage that is no later one it is `lost`.
        """
        ...

    def settle(
        self, settlements: Sequence[Ending], observations: Sequence[Observation] = ()
    ) -> list[Answer]:
        """End each attempt: job, attempt and output are one write; the counts of its run, too.

        A job whose cancel was asked for becomes cancelled where it would have been queued. The
        children of a settlement, its traceback and its raw output are part of the same write; one
        of whose children has a key that is taken by other arguments, or cannot be stored, is
        `refused` as a whole. A child that is there already is well. One that is `retried` may
        name the lane in which it waits. An `Advance` among them is carried out as by `advance`.
        Observations go with them, as by `observe`.
        """
        ...

    def exchange(
        self,
        settlements: Sequence[Ending],
        *wanted: Wanted,
        observations: Sequence[Observation] = (),
    ) -> tuple[list[Answer], list[Claim]]:
        """`settle` and then `claim` for each that is wanted, in one transaction: one commit.

        Where the settlements have to be divided, the claims follow in transactions of their own.
        """
        ...

    def release(self, releases: Sequence[Release]) -> list[Answer]:
        """Hand each job back to its old place, uncharged; one that had begun leaves an attempt.

        Asked again for a job that had not begun, it answers `lost`: no history tells.
        """
        ...

    def stopping(self, worker: str) -> list[Token]:
        """The worker's running jobs of which somebody asked that they stop. Reads only."""
        ...

    def report(self, progress: Sequence[Progress]) -> list[Answer]:
        """Keep how far each attempt has come, instead of what it said before. `done` or `lost`."""
        ...

    # --- who may use the server ---------------------------------------------------------------

    def add_access(self, new: NewAccess) -> Access:
        """Keep an access token: its hash, and what its bearer may do."""
        ...

    def access(self, *, digest: str | None = None, access_id: str | None = None) -> Access | None:
        """The access token of that hash, or of that public part, whether it stands or not."""
        ...

    def accesses(self, *, after: str = "", limit: int = MOST_ROWS) -> list[Access]:
        """Access tokens by their public parts; those after one of them."""
        ...

    def revoke_access(self, access_id: str) -> bool:
        """End an access token for good; false where there is none, or it had been revoked."""
        ...

    def note_access(self, access_id: str, *, every_seconds: float) -> None:
        """Note that an access token was used, unless that was noted so short a while ago."""
        ...

    def shared_secret(self, name: str, proposal: str) -> str:
        """The secret of that name, the same for everybody; the proposal where there was none."""
        ...

    # --- upkeep -------------------------------------------------------------------------------

    def lapsed(self, *, limit: int = MOST_ROWS) -> list[Lapse]:
        """The leases that have lapsed, the longest first. Reads only."""
        ...

    def reclaim(self, reclaims: Sequence[Reclaim]) -> list[Answer]:
        """Take back each job whose lease is the one named and is lapsed still.

        The attempt enters history as lost. `lost` here: its holder renewed or settled after all,
        or someone was first, perhaps this caller, whose answer was lost.
        """
        ...

    def expire(self, *, limit: int = MOST_ROWS) -> list[int]:
        """Fail queued jobs whose deadline has passed; answers their ids."""
        ...

    def straighten(self, *, limit: int = MOST_ROWS) -> Straightened:
        """Put right what a wrong clock set: due times, leases and holds set in the future.

        The same wait is counted from now. A due time that a person chose is left alone.
        """
        ...

    def prune(self, state: State, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        """Remove jobs that ended so long ago, with all that hangs on them; answers how many.

        They are counted into the tally by the state they ended in, in the same transaction.
        """
        ...

    def prune_dismissed(self, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        """`prune` for failed jobs whose dead letters were dismissed so long ago."""
        ...

    def new_letters(self, *, every: int) -> int:
        """How many jobs have failed since the fleet last told of some, and take them for told.

        Where they are fewer than `every`, none: they are counted again the next time.
        """
        ...

    def fold(self, *, limit: int = MOST_ROWS) -> int:
        """Fold the counts of what came in into one; answers how many were folded."""
        ...

    # --- people -------------------------------------------------------------------------------

    def redrive(self, redrives: Sequence[Redrive]) -> list[Change]:
        """Send failed jobs again: new cycle, fresh allowance, no last fault, history kept.

        Their dead letters are marked as redriven in the same write. New arguments take the place
        of the old ones; a key is then held with these. What cannot be stored is not sent, and
        `reason` says why.
        """
        ...

    def dismiss(self, job_ids: Sequence[int], *, note: str, by: str | None = None) -> list[Dealt]:
        """Take the dead letters of these jobs for dealt with; the jobs stay failed.

        Open ones, and dismissed ones, which get the new note: so it is safe to ask again.
        """
        ...

    def undismiss(self, job_ids: Sequence[int]) -> list[Dealt]:
        """Open again those of these dead letters that were dismissed; their notes stay."""
        ...

    def cancel(self, job_ids: Sequence[int]) -> list[Change]:
        """Cancel queued jobs at once and ask running ones to stop; finished ones stay.

        One that was asked to stop may still succeed or fail: it ends as its attempt ends, but is
        not queued again.
        """
        ...

    def hold(self, scope: Scope, name: str, *, reason: str, seconds: float | None = None) -> None:
        """Make the jobs of every present and future lane of that name unclaimable for so long.

        None is until a person resumes it. It burns no attempt, touches no job, and replaces an
        earlier hold of the same name.
        """
        ...

    def resume(self, scope: Scope, name: str) -> bool:
        """End a hold; false where nothing was held."""
        ...

    def holds(self) -> list[Hold]:
        """Every hold in force."""
        ...

    # --- reading ------------------------------------------------------------------------------

    def jobs(self, job_ids: Sequence[int]) -> dict[int, Job]:
        """Those of the jobs that exist."""
        ...

    def attempts(self, job_id: int, *, after: int = 0, limit: int = MOST_ROWS) -> list[Attempt]:
        """A job's history, oldest first."""
        ...

    def page(self, which: Filter, *, after: str | None = None, limit: int = 50) -> Page:
        """Jobs that match, in an order that holds still while others come and go.

        Queued ones by the time they are due, finished ones from the last that ended, all others,
        and those of a key or a run, from the newest; `after` is the `next` of the page before.
        `ValueError` where it is none. A job that moves on while it is read may be left out: a page
        can be shorter than its limit and still have a next one.

        Costs a look at some thousands of jobs at most, however many there are: where fewer match
        than were asked for, `whole` is false and `next` goes on from where the look ended, even
        from a page with nothing in it.
        """
        ...

    def find(self, which: Filter, *, after: str | None = None, limit: int = MOST_ROWS) -> Ids:
        """The numbers of the jobs that `page` would show, without a look at the jobs themselves."""
        ...

    def children(
        self, job_id: int, *, owner: str | None = None, after: int = 0, limit: int = 50
    ) -> list[Job]:
        """The jobs that a job's handler asked for, the first one first; those after a number.

        With an owner, those of this one. That a job is gone makes no orphans: its number stays.
        """
        ...

    def changes(self, since: datetime, *, limit: int = 500) -> Changes:
        """What has become of jobs since a time, the oldest first; at most so many of each kind.

        Where there were more of a kind, the newest, and `whole` is false. A job that has moved on
        since is told of by where it stands now: this is for looking on, history is `attempts`.
        Costs a look at so many rows, however many jobs there are.
        """
        ...

    def letters(
        self, which: LetterFilter, *, after: str | None = None, limit: int = 50
    ) -> LetterPage:
        """Dead letters that match, from the one that came last; `after` as for `page`.

        A letter that is opened while somebody walks the list comes before that one's place.
        """
        ...

    def letters_of(self, job_ids: Sequence[int]) -> dict[int, DeadLetter]:
        """The dead letters of those of the jobs that have one."""
        ...

    def count_letters(self, which: LetterFilter) -> list[Pile]:
        """How many dead letters match, by state, place and code, the largest pile first.

        Costs a look at each letter in those states, and none at any job.
        """
        ...

    def letter_groups(self, which: LetterFilter, *, limit: int = 20) -> LetterGroups:
        """Dead letters that match, put together by fingerprint, the most numerous first.

        At most a hundred groups, and how many there are in all. Costs as much as a count.
        """
        ...

    def letter_trends(
        self,
        which: LetterFilter,
        fingerprints: Sequence[str],
        *,
        seconds: float = 86_400.0,
        parts: int = 24,
    ) -> dict[str, Trend]:
        """For each of at most a hundred groups, when those of its letters that match came last.

        Counted by so many equal parts of the last so many seconds; at most two thousand of each
        group and forty thousand in all, from the newest, and then `whole` is false.
        """
        ...

    def heads(self) -> list[Head]:
        """Every lane in which something waits, with its first due time. Costs a look per lane."""
        ...

    def backlog(self) -> list[Backlog]:
        """Every lane in which something waits or runs, counted."""
        ...

    def arguments(self, job_id: int) -> str | None:
        """What a job was asked to work on."""
        ...

    def trace(self, job_id: int) -> str | None:
        """In which trace a job was asked for, as `telemetry.trace_context` writes it."""
        ...

    def evidence(self, job_id: int, seq: int) -> Evidence | None:
        """What an attempt left for operators."""
        ...

    def progress(self, job_id: int) -> Progress | None:
        """How far the job said it had come, last."""
        ...

    def earlier(self, claim: Claim) -> list[Earlier]:
        """What the claim says of earlier attempts, oldest first. Asks nothing of the database."""
        ...

    def output(self, job_id: int, stage: int) -> str | None:
        """What a stage of the job left."""
        ...

    def references(self, texts: Sequence[str]) -> set[str]:
        """Those of the texts, which stand for artifacts, that are the output of some stage."""
        ...

    def counts(self) -> dict[State, int]:
        """How many jobs stand in each state."""
        ...

    def now(self) -> datetime:
        """The store's own clock."""
        ...

    def need_current(self) -> None:
        """`StoreVersionError` unless the tables are those of this version of seawall."""
        ...

    def wait(self, timeout_seconds: float) -> bool:
        """Return when there may be new work, or after the timeout; true if something woke it.

        A wake-up may be missed (a process can die before it tells): polling is the floor.
        """
        ...

    def nudge(self) -> None:
        """Wake whoever waits in this process, and nobody else. Costs nothing."""
        ...

    def verify(self, *, timeout_seconds: float = 600.0) -> Verification:
        """Check every invariant that the schema cannot hold, in one instant, reading only."""
        ...
