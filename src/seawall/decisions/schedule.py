"""When a schedule fires: a cron line in a time zone, or an interval.

A fire is a moment that the schedule names, whether or not anybody was there to make it. Which
moments those are depends on the schedule alone, so every worker names the same ones, and a job
that carries its fire in its key is enqueued once, whoever was first.

An interval counts from the Unix epoch: it does not drift, and starting again does not move it. A
cron line is read on the clock on the wall. Where that clock is moved, the rules are Debian cron's:

    minute and hour     the hour that is skipped in spring     the hour that comes twice in autumn
    fixed: "30 2"       once, at the moment it ends            the first time only
    "*": "*/5 *"        nothing, there is no such time         both times

`cronsim` reads the lines and finds the times on the wall. It is not asked when those are (2.8):
asked during the second hour of autumn, it answers a fire of the first; where the clock moves by
half an hour, it passes over some; and a line with seconds has other rules than one without.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from seawall.decisions.backoff import LONGEST_SECONDS, is_number
from seawall.decisions.explain import in_words
from seawall.errors import ConfigurationError

Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip"]
MISSED: tuple[str, ...] = get_args(Missed)
OVERLAPS: tuple[str, ...] = get_args(Overlap)

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MOST_CAUGHT_UP = 100
"""No look at a schedule answers more fires than this, however long nobody looked."""
GRACE_SECONDS = 60.0
"""A fire is not missed yet while it is this late; workers' clocks may differ by as much."""
SHORTEST_SECONDS = 1.0
LONGEST_CRON = 200

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GRACE = timedelta(seconds=GRACE_SECONDS)
_SECOND = timedelta(seconds=1)
_SETTLED = datetime(2040, 1, 1)  # noqa: DTZ001 - a time on the wall
"""From here on zones follow rules, not records: a line that fires now fires for ever."""
_MOST_YEARS = 50
"""29 February falls on a given weekday every 40 years at the rarest."""
_SHAPE = "5 fields (minute hour day month weekday), or 6 with seconds first"


class Due(NamedTuple):
    """What one look at a schedule finds."""

    fires: tuple[datetime, ...]
    """The fires to be made now, the oldest first."""
    next_at: datetime
    """Where the schedule stands afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Fires at the times of a cron line, or every so many seconds."""

    cron: str | None = None
    """Five fields, six with seconds first, or a nickname such as @daily."""
    every_seconds: float | None = None
    timezone: str = "UTC"
    """On whose clock the cron line is read: an IANA name."""
    missed: Missed = "once"
    """What becomes of fires that nobody was there to make; see `due`."""
    overlap: Overlap = "skip"
    """Skip: a fire is left out while the job of an earlier one is unfinished."""
    _zone: tzinfo = field(init=False, repr=False, compare=False)
    _every: timedelta = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        for problem in _problems(self):
            raise ConfigurationError(problem)
        every = timedelta(seconds=self.every_seconds or 0.0)
        put(self, "_every", every)
        put(self, "_zone", _zone(self.timezone))
        if self.cron is None:
            put(self, "every_seconds", every.total_seconds())
        else:
            put(self, "cron", _canonical(self.cron))
            self._first_after(_SETTLED)

    @property
    def spec(self) -> str:
        """When it fires, as text. Another text is another plan; `missed` and `overlap` are not."""
        if self.cron is None:
            return f"every {self.every_seconds!r}".removesuffix(".0") + " s"
        return f"cron {self.cron} {self.timezone}"

    def explain(self) -> str:
        """When it fires, in words."""
        if self.cron is None:
            return f"every {in_words(self._every.total_seconds())}"
        words = CronSim(self.cron, _SETTLED).explain()
        return f"{words[:1].lower()}{words[1:]} in {self.timezone}"

    def next_after(self, moment: datetime) -> datetime:
        """The first fire that is later than the moment, in UTC."""
        moment = _in_utc("moment", moment)
        if self.cron is None:
            return _EPOCH + ((moment - _EPOCH) // self._every + 1) * self._every
        local = moment.astimezone(self._zone)
        wall = _wall(local)
        repeated = _repeated(wall, self._zone)
        if repeated is None:
            return self._first_after(wall)[1][0]
        begin, end = repeated
        if self._fixed:
            return self._first_after(end - _SECOND if local.fold else wall)[1][0]
        found, fires = self._first_after(wall)
        if local.fold == 0 and found >= end:  # nothing left of the first pass: now the second
            found, fires = self._first_after(begin - _SECOND)
            return fires[-1] if found < end else fires[0]
        return fires[-1] if local.fold and found < end else fires[0]

    def due(self, planned: datetime, now: datetime) -> Due:
        """The fires to be made now by a schedule that stands at `planned`; where it stands then.

        Due are the fires from `planned` up to `now`, both included. Of those

            skip   makes each that is at most GRACE_SECONDS late; older ones are missed and left out
            once   makes the latest, however late: it stands for all of them
            all    makes each, but of more than MOST_CAUGHT_UP only the latest so many

        `next_at` is later than `now`, so nothing is due twice. A schedule that stands further in
        the future than its next fire was put there by a wrong clock and is put right: nothing
        fires, and it stands at its next fire. A clock that is up to GRACE_SECONDS ahead of ours is
        not wrong: what it has made is not made again.
        """
        planned, now = _in_utc("planned", planned), _in_utc("now", now)
        coming = self.next_after(now)
        if planned > now:
            right = planned <= coming or planned <= self.next_after(now + _GRACE)
            return Due((), planned if right else coming)
        since = max(planned, now - _GRACE) if self.missed == "skip" else planned
        most = 1 if self.missed == "once" else MOST_CAUGHT_UP
        return Due(self._latest(since, now, most), coming)

    def _latest(self, since: datetime, until: datetime, most: int) -> tuple[datetime, ...]:
        """The latest fires of that time, the oldest first; looks back from its end, not forth."""
        if self.cron is None:
            first, last = -((_EPOCH - since) // self._every), (until - _EPOCH) // self._every
            return tuple(
                _EPOCH + n * self._every for n in range(max(first, last - most + 1), last + 1)
            )
        local = until.astimezone(self._zone)
        repeated = _repeated(_wall(local), self._zone) if local.fold else None
        found: set[datetime] = set()
        start = _wall(local) + _SECOND if repeated is None else repeated[1]
        for wall in CronSim(self.cron, start, reverse=True):
            fires = self._fires(wall)
            found.update(fire for fire in fires if since <= fire <= until)
            # An earlier time on the wall is an earlier moment, except within a repeated hour.
            if len(fires) == 1 and (len(found) >= most or fires[0] < since):
                break
        return tuple(sorted(found)[-most:])

    @property
    def _fixed(self) -> bool:
        """Whether it names times of day, rather than running all the time."""
        minute, hour = str(self.cron).split()[-5:-3]
        return not minute.startswith("*") and not hour.startswith("*")

    def _first_after(self, wall: datetime) -> tuple[datetime, tuple[datetime, ...]]:
        """The first time on the wall after this one that is a fire, and when that is."""
        for found in CronSim(str(self.cron), wall):
            if fires := self._fires(found):
                return found, fires
            if found.year > wall.year + _MOST_YEARS:
                break
        raise ConfigurationError(_never(self.cron))

    def _fires(self, wall: datetime) -> tuple[datetime, ...]:
        """The fires of a time on the wall that the cron line names: none, one or two."""
        moments = _moments(wall, self._zone)
        if self._fixed:
            return moments[:1] or (_change(wall, self._zone),)
        return moments


def _in_utc(name: str, moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{name} needs a time zone: datetime(…, tzinfo=UTC)")
    return moment.astimezone(UTC)


# --- the clock on the wall ------------------------------------------------------------------------


def _wall(local: datetime) -> datetime:
    """What the clock shows, to the second."""
    return local.replace(tzinfo=None, microsecond=0, fold=0)


def _readings(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The two moments that a time on the wall can mean; equal, as a rule."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return (first, second) if first <= second else (second, first)


def _moments(wall: datetime, zone: tzinfo) -> tuple[datetime, ...]:
    """When the clock shows this: once; never, if it is skipped; or twice."""
    early, late = _readings(wall, zone)
    if early == late:
        return (early,)
    return (early, late) if _wall(early.astimezone(zone)) == wall else ()


def _change(wall: datetime, zone: tzinfo) -> datetime:
    """The moment at which the clock was moved, if that skipped or repeated this time on it."""
    early, late = _readings(wall, zone)
    before = early.astimezone(zone).utcoffset()
    while (seconds := (late - early) // _SECOND) > 1:
        middle = early + seconds // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late


def _repeated(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime] | None:
    """From when until when the clock shows each time twice, if this is such a time."""
    if len(_moments(wall, zone)) < 2:
        return None
    change = _change(wall, zone)
    begin, last = (_wall(moment.astimezone(zone)) for moment in (change, change - _SECOND))
    return begin, last + _SECOND


# --- what can be said -----------------------------------------------------------------------------


def _canonical(cron: str) -> str:
    """The line as it is stored: nicknames spelled out, capitals, single spaces."""
    return NICKNAMES.get(cron.strip().lower()) or " ".join(cron.upper().split())


def _zone(name: str) -> tzinfo:
    """The zone; UTC is known to systems that have no zones."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _problems(schedule: Schedule) -> Iterator[str]:
    """What cannot be used; each says where it is, what was found and what was expected."""
    for name, allowed in (("missed", MISSED), ("overlap", OVERLAPS)):
        found = getattr(schedule, name)
        if found not in allowed:
            yield f"{name}: found {found!r:.80}, expected one of {', '.join(allowed)}"
    cron, every, zone = schedule.cron, schedule.every_seconds, schedule.timezone
    if cron is None and every is None:
        yield "cron: found None, expected a cron line, or every_seconds in its place"
    if cron is not None and every is not None:
        yield f"every_seconds: found {every!r:.80}, expected none beside cron"
    if cron is not None:
        yield from _wrong_cron(cron)
    if every is not None and not (
        is_number(every) and SHORTEST_SECONDS <= every <= LONGEST_SECONDS
    ):
        bounds = f"{SHORTEST_SECONDS:.0f} to {LONGEST_SECONDS:.0f}, a year"
        yield f"every_seconds: found {every!r:.80}, expected a number from {bounds}"
    if every is not None and zone != "UTC":
        yield f"timezone: found {zone!r:.80}, expected none beside every_seconds"
    yield from _wrong_zone(zone)


def _wrong_zone(found: object) -> Iterator[str]:
    problem = f"timezone: found {found!r:.80}, expected an IANA name such as Europe/Berlin"
    if not isinstance(found, str):
        yield problem
        return
    try:
        _zone(found)
    except (LookupError, OSError, ValueError):
        yield f"{problem} (a system without zones needs the package tzdata)"


def _wrong_cron(found: object) -> Iterator[str]:
    if not isinstance(found, str) or len(found) > LONGEST_CRON:
        yield f"cron: found {found!r:.80}, expected text of at most {LONGEST_CRON} characters"
        return
    line = _canonical(found)
    if line.startswith("@"):
        yield f"cron: found {found!r:.80}, expected {_SHAPE}, or one of {', '.join(NICKNAMES)}"
        return
    try:
        CronSim(line, _SETTLED)
    except CronSimError as error:
        if _is_well_formed_in_some_month(line):
            yield _never(found)
        else:
            reason = str(error)
            yield f"cron: found {found!r:.80}, expected {_SHAPE}: {reason[:1].lower()}{reason[1:]}"


def _is_well_formed_in_some_month(line: str) -> bool:
    """Whether the fields of a refused line are right each for itself: it names 30 February."""
    fields = line.split()
    if len(fields) < 5:
        return False
    month = fields[-2]
    try:
        CronSim(" ".join([*fields[:-2], "*", fields[-1]]), _SETTLED)
        CronSim(f"* * * {month} *", _SETTLED)
    except CronSimError:
        return False
    return True


def _never(cron: object) -> str:
    return f"cron: found {cron!r:.80}, expected a line that fires: there is never such a time"
