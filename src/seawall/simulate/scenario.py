"""What is simulated: how many jobs come, who works on them, what they call, and how that behaves.

    Scenario(
        load=Load(per_second=20, for_seconds=3_600),
        phases=(Phase("healthy", seconds=600), Phase("down", seconds=1_200), Phase("healthy")),
        choices=(Choice(policy=presets.get("default")), …),
    )

Plain values that check themselves. From TOML they come by `scenario_data`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from seawall.decisions.backoff import is_number
from seawall.decisions.policy import Policy
from seawall.decisions.presets import DEFAULT
from seawall.decisions.upstream import Upstream
from seawall.faults import code_named

Distribution = Literal["fixed", "exponential", "lognormal", "uniform"]
Behaviour = Literal["healthy", "down", "slow", "errors", "rate-limit", "flapping", "recovering"]
Arrivals = Literal["random", "even"]
DISTRIBUTIONS: tuple[str, ...] = get_args(Distribution)
BEHAVIOURS: tuple[str, ...] = get_args(Behaviour)
ARRIVALS: tuple[str, ...] = get_args(Arrivals)

UPSTREAM = "upstream"
"""What every simulated job calls."""
MOST_JOBS = 20_000_000
MOST_SEEDS = 10_000
MOST_CHOICES = 20
MOST_PHASES = 1_000
LONGEST_SECONDS = 31 * 86_400.0

_SECONDS = (0.001, LONGEST_SECONDS)


def _need(holds: bool, name: str, found: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: found {found!r:.80}, expected {expected}")


def _within(found: object, least: float, most: float, *, whole: bool = False) -> bool:
    right = is_number(found) and (not whole or isinstance(found, int))
    return right and least <= found <= most  # type: ignore[operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Which jobs come, and when."""

    jobs: int = 0
    """Jobs that are there from the start."""
    per_second: float = 0.0
    """Jobs that come, a second, on average."""
    for_seconds: float = 0.0
    """For how long they come."""
    arrivals: Arrivals = "random"
    """At random times, or evenly."""

    def __post_init__(self) -> None:
        _need(_within(self.jobs, 0, MOST_JOBS, whole=True), "jobs", self.jobs, f"0 to {MOST_JOBS}")
        _need(_within(self.per_second, 0, 1e6), "per_second", self.per_second, "0 to 1000000")
        _need(
            _within(self.for_seconds, 0, LONGEST_SECONDS),
            "for_seconds", self.for_seconds, f"0 to {LONGEST_SECONDS:.0f}",
        )  # fmt: skip
        _need(self.arrivals in ARRIVALS, "arrivals", self.arrivals, f"one of {', '.join(ARRIVALS)}")
        comes = self.per_second * self.for_seconds
        _need(
            1 <= self.jobs + comes <= MOST_JOBS,
            "jobs", self.jobs,
            f"jobs, or per_second with for_seconds: 1 to {MOST_JOBS} in all",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Who works."""

    count: int = 2
    concurrency: int = 10
    """How many jobs each runs at once."""
    turn_seconds: float = 0.02
    """How long a turn at the store takes: from an end to the next claim."""
    poll_seconds: float = 1.0
    """How often an idle worker looks by itself."""

    def __post_init__(self) -> None:
        for name, most in (("count", 1_000), ("concurrency", 10_000)):
            found = getattr(self, name)
            _need(_within(found, 1, most, whole=True), name, found, f"1 to {most}, whole")
        for name in ("turn_seconds", "poll_seconds"):
            found = getattr(self, name)
            _need(_within(found, 0.0001, 60), name, found, "0.0001 to 60")

    @property
    def slots(self) -> int:
        """All of them together."""
        return self.count * self.concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How long a call takes that the upstream answers."""

    distribution: Distribution = "lognormal"
    mean_seconds: float = 1.0
    deviation_seconds: float | None = None
    """Its standard deviation, of a lognormal or uniform one; half of the mean unless given."""
    timeout_seconds: float = 60.0
    """A call that takes longer ends as TIMEOUT."""

    def __post_init__(self) -> None:
        _need(
            self.distribution in DISTRIBUTIONS,
            "distribution", self.distribution, f"one of {', '.join(DISTRIBUTIONS)}",
        )  # fmt: skip
        for name in ("mean_seconds", "timeout_seconds"):
            found = getattr(self, name)
            _need(_within(found, *_SECONDS), name, found, "0.001 or more")
        found = self.deviation_seconds
        takes_one = self.distribution in ("lognormal", "uniform")
        _need(
            found is None or (takes_one and _within(found, 0, LONGEST_SECONDS)),
            "deviation_seconds", found, "0 or more, of a lognormal or uniform distribution",
        )  # fmt: skip
        if self.distribution == "uniform":
            most = self.mean_seconds / 3**0.5
            _need(
                self.deviation <= most * 1.000001,
                "deviation_seconds", found, f"{most:.3g} at most: no call takes less than nothing",
            )  # fmt: skip

    @property
    def deviation(self) -> float:
        """As given, or half of the mean."""
        given = self.deviation_seconds
        return self.mean_seconds / 2 if given is None else given


_OF: dict[str, tuple[str, ...]] = {
    "healthy": (),
    "down": ("fault", "status", "retry_after_seconds", "answer_seconds", "hangs"),
    "slow": ("factor",),
    "errors": ("rate", "fault", "status", "retry_after_seconds"),
    "rate-limit": ("limit", "window_seconds", "status", "retry_after", "retry_after_seconds"),
    "flapping": (
        "up_seconds", "down_seconds", "fault", "status", "retry_after_seconds", "answer_seconds",
        "hangs",
    ),
    "recovering": ("fault", "status", "retry_after_seconds"),
}  # fmt: skip
"""Which fields say something about which behaviour."""
_MUST: dict[str, tuple[str, ...]] = {
    "errors": ("rate",),
    "rate-limit": ("limit",),
    "flapping": ("up_seconds", "down_seconds"),
}


@dataclass(frozen=True, slots=True)
class Phase:
    """How the upstream behaves for a while."""

    is_: Behaviour
    seconds: float | None = None
    """None: from then on."""
    rate: float | None = None
    """Of `errors`: the share of calls that fail."""
    factor: float | None = None
    """Of `slow`: so many times the usual time; 10 unless given."""
    limit: int | None = None
    """Of `rate-limit`: so many calls are answered in a window."""
    window_seconds: float | None = None
    """Of `rate-limit`: how long a window lasts; one second unless given."""
    up_seconds: float | None = None
    down_seconds: float | None = None
    """Of `flapping`: so long it is well, then so long down, and so on."""
    fault: str | None = None
    """The fault of a failed call by its code; UNAVAILABLE of one that is down."""
    status: int | None = None
    """Or the HTTP status with which it is answered: 503, and 429 of a rate limit."""
    retry_after: bool | None = None
    """Of `rate-limit`: whether it says when the window ends, in whole seconds."""
    retry_after_seconds: float | None = None
    """It asks for so long, always."""
    answer_seconds: float | None = None
    """How long a refusal takes; 0.05 unless given."""
    hangs: bool | None = None
    """It takes the call and never answers: the call ends by its time limit."""

    def __post_init__(self) -> None:
        _need(self.is_ in BEHAVIOURS, "is", self.is_, f"one of {', '.join(BEHAVIOURS)}")
        for name, least, most in (
            ("seconds", *_SECONDS),
            ("rate", 0, 1),
            ("factor", 1, 1e6),
            ("window_seconds", *_SECONDS),
            ("up_seconds", *_SECONDS),
            ("down_seconds", *_SECONDS),
            ("retry_after_seconds", *_SECONDS),
            ("answer_seconds", *_SECONDS),
        ):
            found = getattr(self, name)
            right = found is None or _within(found, least, most)
            _need(right, name, found, f"{least:g} to {most:g}")
        for name, least, most in (("limit", 1, 1e9), ("status", 400, 599)):
            found = getattr(self, name)
            right = found is None or _within(found, least, most, whole=True)
            _need(right, name, found, f"{least} to {most:.0f}, whole")
        for name in ("retry_after", "hangs"):
            found = getattr(self, name)
            _need(found is None or isinstance(found, bool), name, found, "true or false")
        for problem in _contradictions(self):
            raise ValueError(problem)


def _contradictions(phase: Phase) -> Iterator[str]:
    allowed = _OF[phase.is_]
    for name in sorted({name for names in _OF.values() for name in names}):
        if getattr(phase, name) is not None and name not in allowed:
            fits = ", ".join(allowed) or "none of its own"
            yield f"{name}: found one, expected none: {phase.is_!r} has {fits}"
    for name in _MUST.get(phase.is_, ()):
        if getattr(phase, name) is None:
            yield f"{name}: is missing: {phase.is_!r} needs it"
    if phase.fault is not None:
        try:
            code_named(phase.fault)
        except ValueError as error:
            yield f"fault: {error}"
    if phase.fault is not None and phase.status is not None:
        yield f"fault: found {phase.fault!r:.80}, expected none beside status"
    if phase.hangs and (phase.fault or phase.status or phase.answer_seconds is not None):
        yield "hangs: found true, expected none beside fault, status or answer_seconds"


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to treat the same trouble."""

    policy: Policy = DEFAULT
    upstream: Upstream | None = field(default_factory=lambda: Upstream(UPSTREAM))
    """Breaker, limits and budget; None where the task names no upstream: nothing is held."""
    name: str = ""

    def __post_init__(self) -> None:
        _need(isinstance(self.policy, Policy), "policy", self.policy, "a Policy")
        right = self.upstream is None or isinstance(self.upstream, Upstream)
        _need(right, "upstream", self.upstream, "an Upstream or None")
        if self.upstream is not None:
            object.__setattr__(self, "upstream", self.upstream.keyed(UPSTREAM))
        if not self.name:
            bare = "" if self.upstream is not None else ", nothing held"
            object.__setattr__(self, "name", f"{self.policy.name}{bare}")
        _need(len(self.name) <= 100, "name", self.name, "100 characters at most")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a simulation needs but its seed."""

    load: Load
    name: str = "scenario"
    description: str = ""
    workers: Fleet = field(default_factory=Fleet)
    service: Service = field(default_factory=Service)
    phases: tuple[Phase, ...] = (Phase("healthy"),)
    """The last one lasts for ever."""
    choices: tuple[Choice, ...] = (Choice(),)
    seconds: float = 86_400.0
    """No run is simulated for longer."""
    seeds: int = 5
    price_per_call: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "phases", tuple(self.phases))
        put(self, "choices", tuple(self.choices))
        _need(
            _within(self.seconds, 1, LONGEST_SECONDS),
            "seconds", self.seconds, f"1 to {LONGEST_SECONDS:.0f}",
        )  # fmt: skip
        _need(
            _within(self.seeds, 1, MOST_SEEDS, whole=True),
            "seeds", self.seeds, f"1 to {MOST_SEEDS}, whole",
        )  # fmt: skip
        price = self.price_per_call
        _need(price is None or _within(price, 0, 1e9), "price_per_call", price, "0 or more")
        count = len(self.phases)
        _need(1 <= count <= MOST_PHASES, "phases", count, f"1 to {MOST_PHASES} of them")
        for at, phase in enumerate(self.phases[:-1]):
            _need(
                phase.seconds is not None,
                f"phases[{at}].seconds", None, "a number: only the last one may last for ever",
            )  # fmt: skip
        names = [choice.name for choice in self.choices]
        _need(1 <= len(names) <= MOST_CHOICES, "choices", len(names), f"1 to {MOST_CHOICES}")
        twice = next((name for name in names if names.count(name) > 1), None)
        _need(twice is None, "choices", twice, "a name of its own for each")

    @property
    def well_from(self) -> float:
        """From when on the upstream is well for good; 0 where it always or never is."""
        at, well = 0.0, 0.0
        for phase in self.phases:
            last = phase is self.phases[-1]
            at += 0.0 if last else phase.seconds or 0.0
            if phase.is_ != "healthy":
                well = at
        return 0.0 if self.phases[-1].is_ != "healthy" else well
