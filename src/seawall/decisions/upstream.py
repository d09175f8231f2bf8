"""What an application says about something that its tasks call.

    Upstream("openai", concurrency=20, per_minute={"requests": 500, "tokens": 200_000})

A name with a colon is a key: `openai:gpt-5` is an upstream of its own, with its own breaker and
limits, and what was said about `openai` holds for each such key. One of which nothing was said is
watched with the defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seawall.decisions.breaker import Breaker
from seawall.decisions.budget import RetryBudget
from seawall.decisions.limits import Limits
from seawall.model import need_name

MOST_QUORUM = 1_000


@dataclass(frozen=True, slots=True)
class Upstream:
    """An upstream: when it is held, how much of it may be used, and how retries may add to that."""

    name: str
    breaker: Breaker = field(default_factory=Breaker, kw_only=True)
    concurrency: int | None = field(default=None, kw_only=True)
    """Calls under way at once, by all workers together."""
    per_minute: Mapping[str, float] = field(default_factory=dict, kw_only=True, hash=False)
    """The most in any 60 seconds, by unit: `requests`, and what calls reserve, such as `tokens`."""
    each_owner: Limits | None = field(default=None, kw_only=True)
    """The same for what belongs to one owner."""
    retry_budget: RetryBudget | None = field(default=RetryBudget(), kw_only=True)
    """How much of the load may be retries; None: as much as policies want."""
    quorum: int = field(default=2, kw_only=True)
    """How many workers must have seen failures before all are stopped, where as many are alive."""
    probe: Callable[[], Any] | None = field(default=None, kw_only=True)
    """Called instead of a job to find out whether it is well again; what it raises says no."""

    def __post_init__(self) -> None:
        need_name("name", self.name)
        for field_name, kind, optional in (
            ("breaker", Breaker, False),
            ("retry_budget", RetryBudget, True),
            ("each_owner", Limits, True),
            ("quorum", int, False),
        ):
            found = getattr(self, field_name)
            good = isinstance(found, kind) and not isinstance(found, bool)
            if not good and not (optional and found is None):
                raise ValueError(
                    f"{field_name}: found {found!r:.80}, expected {kind.__name__}"
                    f"{' or None' if optional else ''}"
                )
        if not 1 <= self.quorum <= MOST_QUORUM:
            raise ValueError(f"quorum: found {self.quorum!r:.80}, expected 1 to {MOST_QUORUM}")
        probe: object = self.probe
        if probe is not None and not callable(probe):
            raise ValueError(f"probe: found {probe!r:.80}, expected a function")
        object.__setattr__(self, "per_minute", self.limits.per_minute)  # checked, and our own

    @property
    def limits(self) -> Limits:
        """What all workers together may use of it."""
        return Limits(concurrency=self.concurrency, per_minute=self.per_minute)

    @property
    def limited(self) -> bool:
        """Whether anything of it is counted: then owners take turns."""
        return self.limits.bounded or (self.each_owner is not None and self.each_owner.bounded)

    def keyed(self, name: str) -> "Upstream":
        """The same under another name."""
        return self if name == self.name else replace(self, name=name)


def family(name: str) -> str:
    """What a key belongs to: `openai` for `openai:gpt-5`."""
    return name.partition(":")[0]
