"""The factory: keep → label → embed → measure, each stage with the policy that it deserves.

    seawall worker --app examples.sample_factory.app:app

`LLM_URL` and `EMBEDDER_URL` are whoever speaks as OpenAI does there.
"""

import os
from functools import cache
from math import fsum, sqrt
from typing import Any

import httpx2
from pydantic import BaseModel

from seawall import (
    Breaker,
    FaultError,
    RetryBudget,
    Seawall,
    Skip,
    Upstream,
    current_job,
    parse_output,
    stage,
)

FEWEST_WORDS = 5
LONGEST_WORDS = 512
"""What the embedder takes at once."""
IN_PIECES = os.environ.get("EMBED_IN_PIECES") == "yes"
"""The fix of the story: long samples are embedded piece by piece."""
PRICE = 2e-6
"""Of one of the model's tokens."""

app = Seawall(policy="sample-stage")  # 3 attempts, 1 s doubling, ±25 %: for stages that name none
app.upstream(Upstream("llm", breaker=Breaker(ramp_seconds=5)))  # it bears its backlog at once
# Samples that are too long use up all their attempts here: that is more than a tenth of the calls.
app.upstream(Upstream("embedder", retry_budget=RetryBudget(share=0.25)))


class Sample(BaseModel):
    id: int
    text: str


class Labelled(Sample):
    topic: str


class Embedded(BaseModel):
    id: int
    topic: str
    words: int
    vector: list[float]


class Topic(BaseModel):
    """What the model has to answer."""

    topic: str


@stage(policy="sample-filter")  # deterministic: one attempt, since another would end the same
def keep(id: int, text: str) -> Sample:  # noqa: A002 - as samples call it
    if "\ufffd" in text:
        raise FaultError("INVALID_INPUT", "the text was damaged before it came here")
    if len(text.split()) < FEWEST_WORDS:
        raise Skip("too short to learn anything from")
    return Sample(id=id, text=text)


@stage(policy="sample-llm", upstream="llm", timeout_seconds=30, config={"prompt": 1})
async def label(sample: Sample) -> Labelled:
    said = await ask(
        os.environ["LLM_URL"] + "/v1/chat/completions",
        {
            "model": "labels-1",
            "messages": [
                {"role": "system", "content": 'Answer with JSON: {"topic": "…"}'},
                {"role": "user", "content": pieces(sample.text, words=100)[0]},
            ],
            "user": f"sample-{sample.id}",
        },
    )
    read, written = said["usage"]["prompt_tokens"], said["usage"]["completion_tokens"]
    current_job().usage(tokens_in=read, tokens_out=written, cost=(read + written) * PRICE)
    found = parse_output(said["choices"][0]["message"]["content"], Topic)
    return Labelled(id=sample.id, text=sample.text, topic=found.topic)


@stage(upstream="embedder", timeout_seconds=30, config={"in_pieces": IN_PIECES})
async def embed(sample: Labelled) -> Embedded:
    whole = [sample.text]
    said = await ask(
        os.environ["EMBEDDER_URL"] + "/v1/embeddings",
        {
            "model": "vectors-1",
            "input": pieces(sample.text, words=LONGEST_WORDS) if IN_PIECES else whole,
            "user": f"sample-{sample.id}",
        },
    )
    vectors = [each["embedding"] for each in said["data"]]
    return Embedded(
        id=sample.id,
        topic=sample.topic,
        words=len(sample.text.split()),
        vector=[fsum(column) / len(vectors) for column in zip(*vectors, strict=True)],
    )


def measure(sample: Embedded) -> dict[str, Any]:
    length = sqrt(fsum(each * each for each in sample.vector))
    return {**sample.model_dump(exclude={"vector"}), "length": round(length, 6)}


factory = app.pipeline("factory", [keep, label, embed, measure])


def pieces(text: str, *, words: int) -> list[str]:
    """All of a text, in pieces of at most so many words."""
    every = text.split()
    return [" ".join(every[at : at + words]) for at in range(0, len(every), words)]


async def ask(url: str, body: dict[str, Any]) -> Any:
    """No try, no except, no sleep: whatever goes wrong here is the policy's affair."""
    answer = await client().post(url, json=body)
    answer.raise_for_status()
    return answer.json()


@cache
def client() -> httpx2.AsyncClient:
    key = os.environ.get("PROVIDER_KEY", "none")
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=20)
