"""The part of an application that is about mending: its dead letters, and sending jobs again.

Thin: `letters` finds and dismisses, `redriving` sends. `Seawall` is one of these.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from seawall.letters import Dismissed, Letters, Which
from seawall.redriving import How, Redriven, redriven
from seawall.store.letters import DeadLetter, LetterGroups, LetterPage, Trend

if TYPE_CHECKING:
    from seawall.store import Store
    from seawall.tasks import Task


class Mending:
    """What people do about failed jobs."""

    tasks: "dict[str, Task[..., Any, Any]]"

    @property
    def store(self) -> "Store":
        """Where jobs are kept."""
        raise NotImplementedError

    def dead_letters(
        self, *, after: str | None = None, limit: int = 50, **which: Unpack[Which]
    ) -> LetterPage:
        """What failed and waits for somebody, from the newest: `app.dead_letters(task="mail")`.

        Give a page's `next` as `after` for the one that follows.
        """
        return Letters(self).page(after=after, limit=limit, **which)

    def dead_letter(self, job_id: int) -> DeadLetter:
        """What a failed job left; `NoSuchJobError` where it left nothing."""
        return Letters(self).get(job_id)

    def dead_letter_groups(self, *, limit: int = 20, **which: Unpack[Which]) -> LetterGroups:
        """Dead letters by what they have in common, the most numerous groups first."""
        return Letters(self).groups(limit=limit, **which)

    def dead_letter_trends(
        self,
        groups: Sequence[str],
        *,
        seconds: float = 86_400.0,
        parts: int = 24,
        **which: Unpack[Which],
    ) -> dict[str, Trend]:
        """When the dead letters of these groups came, by equal parts of the last so many seconds.

        Groups by their fingerprints, at most a hundred; of a large one its newest letters.
        """
        return Letters(self).trends(groups, seconds=seconds, parts=parts, **which)

    def redrive(self, *job_ids: int, **how: Unpack[How]) -> Redriven:
        """Send failed jobs again, with fresh allowances and all their history.

        Those named, or all that match: `app.redrive(group="9f3c…", canary=5, rate=10)`. With
        `dry_run=True` it only says what would happen. What can be said stands in `How`.
        """
        return redriven(self, job_ids, how)

    def dismiss(
        self, *job_ids: int, note: str, by: str | None = None, **which: Unpack[Which]
    ) -> Dismissed:
        """Take dead letters for dealt with, and say why; their jobs stay failed."""
        return Letters(self).dismiss(*job_ids, note=note, by=by, **which)

    def undismiss(self, *job_ids: int, **which: Unpack[Which]) -> Dismissed:
        """Open those again that were dismissed."""
        return Letters(self).undismiss(*job_ids, **which)
