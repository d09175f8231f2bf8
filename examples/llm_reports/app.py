"""Reports by a model: read a document, ask, validate, write the report, record it.

    seawall worker --app examples.llm_reports.app:app

Every stage is judged by the policy `llm-reports`; what a stage has left is kept, so a bucket or a
database that is away later never costs a second call of the model.
"""

import os
from pathlib import PurePosixPath

import openai
from pydantic import ValidationError

from examples.llm_reports import objects, table
from examples.llm_reports.schema import Document, Metadata, Report, Written
from seawall import FaultError, Seawall, current_job, parse_output, stage

KINDS = {".txt", ".md"}
CALL_SECONDS = float(os.environ.get("REPORTS_CALL_SECONDS", "60"))
MODEL = os.environ.get("REPORTS_MODEL", "gpt-5")

app = Seawall(policy="llm-reports")


@stage(upstream="objects")
def fetch(path: str) -> Document:
    """The document and its required metadata, which stand in `PATH.json` beside it."""
    if PurePosixPath(path).suffix not in KINDS:
        kinds = " and ".join(sorted(KINDS))
        raise FaultError("INVALID_INPUT", f"{path}: reports are made of {kinds} alone")
    content, beside = objects.read(path), objects.read(f"{path}.json")
    try:
        return Document(metadata=Metadata.model_validate_json(beside), text=content.decode())
    except ValidationError as error:
        where = ", ".join(".".join(map(str, each["loc"])) or "no JSON" for each in error.errors())
        raise FaultError("INVALID_INPUT", f"{path}.json is corrupt: {where}") from None
    except UnicodeDecodeError:
        raise FaultError("INVALID_INPUT", f"{path} is not text in UTF-8") from None


@stage(upstream="openai", timeout_seconds=CALL_SECONDS, config={"model": MODEL, "prompt": 1})
async def ask(document: Document) -> str:
    """What the model says, word for word: judging it is the next stage's affair."""
    async with openai.AsyncOpenAI(max_retries=0) as client:  # seawall retries; nobody else does
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "system", "content": "Report on the document. Answer in JSON."},
                {"role": "user", "content": f"{document.metadata.title}\n\n{document.text}"},
            ],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "report", "schema": Report.model_json_schema()},
            },
            extra_headers={"Idempotency-Key": current_job().idempotency_key},
        )
    if answer.usage is not None:
        used = answer.usage
        current_job().usage(tokens_in=used.prompt_tokens, tokens_out=used.completion_tokens)
    said = answer.choices[0].message
    if said.refusal:
        raise FaultError("REFUSED", "the model declined", raw_output=said.refusal)
    return said.content or ""


def check(said: str) -> Report:
    """The report, if that is what it is; otherwise the text is kept with the fault, for review."""
    return parse_output(said, Report)


@stage(upstream="objects")
def write(report: Report, item: str) -> Written:
    """Written whole or not at all, and to the same place at every attempt."""
    path = str(PurePosixPath("reports") / PurePosixPath(item).with_suffix(".json"))
    objects.write(path, report.model_dump_json(indent=2).encode())
    return Written(path=path, title=report.title, risk=report.risk)


@stage(upstream="database")
def record(written: Written, item: str) -> str:
    """One row for each document, however often this runs."""
    table.record(item, written, job=current_job().id)
    return written.path


reports = app.pipeline("reports", [fetch, ask, check, write, record], queue="reports")
