"""What more there is to say of something that happened to a job, as a person reads it.

The API tells programs the same, with names and numbers.
"""

from collections.abc import Iterator, Mapping, Sequence

from seawall.web.pages.stages import named_stage
from seawall.web.pages.wording import span


def in_words(meta: Mapping[str, object], stages: Sequence[str]) -> str:
    """What is worth saying, in the order in which one would."""
    return ", ".join(_parts(meta, stages))


def _parts(meta: Mapping[str, object], stages: Sequence[str]) -> Iterator[str]:
    if "queue" in meta:
        yield f"in the queue {meta['queue']}"
    if meta.get("priority"):
        yield f"priority {meta['priority']}"
    at = meta.get("stage")
    if isinstance(at, int) and len(stages) > 1:
        yield f"stage {named_stage(stages, at)}"
    if isinstance(took := meta.get("duration_ms"), int):
        yield f"took {span(took / 1000)}"
    if "fault_code" in meta:
        yield f"{meta['fault_code']}: {meta.get('message', '')}".removesuffix(": ")
    if isinstance(delay := meta.get("delay_ms"), int):
        yield f"again after {span(delay / 1000)}"
    if meta.get("counted") is False:
        yield "did not count"
    if "cycle" in meta:
        yield f"cycle {meta['cycle']}"
