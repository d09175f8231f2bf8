"""A document becomes a summary: read it, ask a model, check what it said.

What a stage leaves is written down before the next begins, so that no answer is paid for twice.
"""

from pathlib import Path

from llm import ask
from pydantic import BaseModel

from seawall import Seawall, Skip, parse_output, stage

app = Seawall(policy="ai-worker")  # 3 attempts, 1 s and 2 s apart; for stages that name none


class Summary(BaseModel):
    """What the model has to answer."""

    summary: str
    words: int


def read(path: str) -> str:
    text = Path(path).read_text("utf-8")
    if not text.strip():
        raise Skip("there is nothing in it")
    return text


@stage(upstream="llm", timeout_seconds=60, config={"prompt": 1})
def summarize(text: str) -> str:
    return ask(f'Answer with JSON, {{"summary": "…", "words": 0}}: {text}')


def check(said: str) -> Summary:
    return parse_output(said, Summary)  # code fences and stray prose are taken off first


summaries = app.pipeline("summaries", [read, summarize, check])
