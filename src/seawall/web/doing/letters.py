"""Dead letters: which of them are there for whom; deciding about them."""

from collections.abc import Callable
from typing import Any

from seawall.letters import Dismissed
from seawall.web.access import Visitor
from seawall.web.doing.jobs import are_names
from seawall.web.house import House
from seawall.web.problems import ProblemError


async def decided(
    house: House,
    visitor: Visitor,
    aim: tuple[list[int], dict[str, Any]],
    act: Callable[..., Dismissed],
) -> Dismissed:
    """Do it about the letters that are meant, as far as they are this visitor's."""
    jobs, said = aim

    def decide() -> Dismissed:
        need_mine(house, visitor, jobs)
        # An owner who names letters by number has been looked at; by filter he means his own.
        which = {} if jobs else mine(visitor, said)
        if which is None:
            return Dismissed(done=0)
        return act(*jobs, **which)

    return await house.slow.ask(decide)


def can_be(said: dict[str, Any]) -> bool:
    """Whether there can be something of these names."""
    return are_names(*(said.get(name) for name in ("group", "task", "queue", "owner")))


def mine(visitor: Visitor, said: dict[str, Any]) -> dict[str, Any] | None:
    """The filter, for what this visitor sees; None where that is nothing."""
    if not can_be(said):
        return None
    if visitor.only is None:
        return said
    if said.get("owner", visitor.only) != visitor.only:
        return None
    return {**said, "owner": visitor.only}


def need_mine(house: House, visitor: Visitor, job_ids: list[int]) -> None:
    """404 where one of these letters is not there for this visitor."""
    if visitor.sees_all or not job_ids:
        return
    found = house.store.letters_of(job_ids)
    for job_id in job_ids:
        if job_id not in found or not visitor.sees(found[job_id].owner):
            raise ProblemError(404, f"there is no dead letter of a job {job_id}")
