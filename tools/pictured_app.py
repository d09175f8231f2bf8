"""The application whose pages are pictured: it reads reports, calls a model, sends mail.

`take_pictures.py` copies it into a folder of its own; a file `outage` there takes the model away.
"""

import asyncio
import random
import time
from pathlib import Path

from seawall import FaultError, Seawall, Upstream, current_job, stage

app = Seawall()
app.upstream(Upstream("openai:gpt-5", concurrency=8, per_minute={"tokens": 90_000}))
OUTAGE = Path(__file__).with_name("outage")


def _answer(least: float, most: float) -> None:
    if OUTAGE.exists():
        raise FaultError("UNAVAILABLE", "503 Service Unavailable from api.model.example")
    time.sleep(random.uniform(least, most))


@app.task(policy="ai-worker", upstream="openai:gpt-5", http=True)
def summarize(path: str, language: str = "en") -> dict[str, str]:
    _answer(0.02, 0.25)
    if path.endswith("7.pdf"):
        raise FileNotFoundError(path)
    if random.random() < 0.08:
        raise FaultError("TIMEOUT", "no answer within 60 s")
    return {"path": path, "summary": f"{path} in three sentences", "language": language}


@app.task(upstream="objects")
def archive(key: str) -> None:  # noqa: ARG001 - it only takes its time
    time.sleep(random.uniform(0.005, 0.05))


@app.task(queue="mail")
def send_mail(to: str, subject: str) -> str:  # noqa: ARG001 - nobody reads it
    if to.startswith("bounce"):
        raise FaultError("INVALID_INPUT", f"mailbox {to} does not exist")
    return "sent"


@stage(upstream="objects")
def fetch(item: str) -> str:
    if item.endswith("9"):
        raise FileNotFoundError(f"{item}.json")
    return item


@stage(policy="ai-worker", upstream="openai:gpt-5")
async def ask(item: str) -> str:
    await asyncio.sleep(random.uniform(0.02, 0.1))
    if OUTAGE.exists():
        raise FaultError("UNAVAILABLE", "503 Service Unavailable from api.model.example")
    if random.random() < 0.1:
        raise FaultError("RATE_LIMITED", "429 Too Many Requests")
    current_job().usage(tokens_in=900, tokens_out=120, cost=0.0041)
    return item


@stage
def keep(item: str) -> None:  # noqa: ARG001 - the end of the line
    return None


reports = app.pipeline("reports", [fetch, ask, keep])
