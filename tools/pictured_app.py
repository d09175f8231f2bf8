"""The application whose pages are pictured: it reads reports, calls a model, sends mail.

`take_pictures.py` copies it into a folder of its own; a file `outage` there takes the model away.
"""

import asyncio
import random
import time
from datetime import timedelta
from pathlib import Path

from seawall import FaultError, Seawall, Upstream, current_job, stage

MODEL = "openai:gpt-5"
app = Seawall()
app.upstream(Upstream(MODEL, concurrency=8, per_minute={"tokens": 900_000}))
app.upstream(Upstream("objects", concurrency=20))
OUTAGE = Path(__file__).with_name("outage")
AWAY = "503 Service Unavailable from api.model.example"


@app.task(policy="ai-worker", upstream=MODEL, http=True)
def summarize(path: str, language: str = "en") -> dict[str, str]:
    if OUTAGE.exists():
        raise FaultError("UNAVAILABLE", AWAY)
    time.sleep(random.uniform(0.1, 0.4))
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
    if item.endswith("19"):
        raise FileNotFoundError(f"{item}.json")
    return item


@stage(policy="ai-worker", upstream=MODEL)
async def ask(item: str) -> str:
    await asyncio.sleep(random.uniform(0.3, 1.2))
    if OUTAGE.exists():
        raise FaultError("UNAVAILABLE", AWAY)
    current_job().usage(tokens_in=900, tokens_out=120, cost=0.0041)
    if random.random() < 0.06:
        raise FaultError("INVALID_RESPONSE", "the answer is no JSON: it ends within a word")
    return item


@stage
def keep(item: str) -> None:  # noqa: ARG001 - the end of the line
    return None


reports = app.pipeline("reports", [fetch, ask, keep])
app.schedule(send_mail.job("team@example.org", "Yesterday"), name="daily", cron="0 7 * * *")
app.schedule(archive.job("2026"), name="archive", every=timedelta(hours=1))
