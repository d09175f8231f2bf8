"""The application: one task, the gateway that it calls, and when a failed job may be sent again.

seawall worker --app examples.converter.app:app
"""

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from xml.parsers import expat

import httpx2

from examples.converter.knobs import Knobs
from seawall import Fault, FaultError, Seawall, classify, current_job

BESIDES_SECONDS = 30.0
"""How long an attempt may take besides the gateway's own time."""
PROBE_SECONDS = 5.0

knobs = Knobs.read()
app = Seawall(
    knobs.database_url,
    policies=[knobs.policy()],
    lease_seconds=knobs.lease_seconds,
    concurrency=knobs.concurrency,
)


def is_well() -> None:
    """Asked for while the gateway is held; what it raises says no."""
    httpx2.get(f"{knobs.gateway_url}/health", timeout=PROBE_SECONDS).raise_for_status()


app.upstream(knobs.gateway(is_well))


def source_of(document: str) -> Path:
    return knobs.uploads / f"{document}.pdf"


def result_of(document: str) -> Path:
    return knobs.results / f"{document}.xml"


@app.task(
    policy="converter", upstream="gateway", timeout_seconds=knobs.gateway_seconds + BESIDES_SECONDS
)
async def convert(document: str, name: str) -> str:
    """Make XML of the document that was uploaded under that name."""
    pdf = await asyncio.to_thread(source_of(document).read_bytes)
    xml = await converted(pdf)
    try:
        expat.ParserCreate().Parse(xml, True)
    except expat.ExpatError as error:
        raise FaultError(
            "INVALID_RESPONSE", f"no XML: {error}", detail="PARSE_ERROR", raw_output=xml
        ) from None
    await asyncio.to_thread(written, result_of(document), xml)
    return f"{Path(name).stem}.xml"


@convert.retry_when
def source_is_there(document: str, name: str) -> bool | str:
    return source_of(document).exists() or f"{name} is not there any more: upload it again"


async def converted(pdf: bytes) -> bytes:
    """What the gateway makes of it, within its time."""
    headers = {"idempotency-key": current_job().idempotency_key}
    async with asyncio.timeout(knobs.gateway_seconds), httpx2.AsyncClient(timeout=None) as client:
        url = f"{knobs.gateway_url}/convert"
        answer = await client.post(url, content=pdf, headers=headers)
        return answer.raise_for_status().content


@app.classifier.register(httpx2.HTTPStatusError)
def with_its_own_word(error: BaseException) -> Fault:
    """The gateway's own word for what is wrong (`INVALID_MAPPING`) goes with the fault."""
    word = None
    if isinstance(error, httpx2.HTTPStatusError):
        try:
            word = error.response.json().get("error")
        except (ValueError, AttributeError):
            word = None
    return replace(classify(error), detail=word if isinstance(word, str) else None)


def written(place: Path, content: bytes) -> None:
    """There as a whole or not at all, whoever else writes it and whatever is killed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".part-", delete=False) as part:
        try:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
            Path(part.name).replace(place)
        except BaseException:
            Path(part.name).unlink()
            raise
