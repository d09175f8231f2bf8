"""An application that is careless with secrets in every way that we know of.

What it lets slip comes from the environment: its own source, which tracebacks show, is clean. Beside
it lies `jobs.py`, the application that docs/observing.md writes for Sentry.
"""

import json
import os

import httpx
import openai
from jobs import app  # type: ignore[import-not-found]

from seawall import Backoff, FaultError, Policy, Rule, Upstream, current_job, stage

PLANTED = json.loads(os.environ["PLANTED"])
GATEWAY = os.environ["GATEWAY"]
twice = Policy(
    name="twice",
    max_attempts=2,
    rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.05, jitter="none"))],
)
for name in ("llm", "gateway"):
    app.upstream(Upstream(name, retry_budget=None))  # each fault is to be heard


@app.task(policy=twice, upstream="llm", http=True)
def by_client(api_key: str, prompt: str = "") -> None:
    """A key that an SDK sends, and that the upstream says back."""
    client = openai.OpenAI(base_url=f"{GATEWAY}/v1", api_key=api_key, max_retries=0)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])


@app.task(policy=twice, upstream="gateway")
def by_address(address: str) -> None:
    """A key in a URL, more of them in headers, and one in the body that comes back."""
    headers = {"authorization": f"Bearer {PLANTED['header']}", "cookie": f"sid={PLANTED['cookie']}"}
    httpx.get(address, headers=headers, timeout=20).raise_for_status()


@app.task(policy=twice, upstream=lambda address: address)
def by_names(address: str) -> None:
    """Whose upstream is called by its whole address."""
    raise FaultError("TIMEOUT", "no answer", request_id=f"token={PLANTED['request_id']}")


@app.task(policy=twice, upstream="gateway")
async def by_words(name: str) -> None:
    """What people put into messages, and what causes carry."""
    try:
        raise OSError(f"cannot open postgresql://ann:{PLANTED['dsn']}@db.example/jobs")
    except OSError as error:
        raise RuntimeError(f"sign-in with password={PLANTED['error']} failed for {name}") from error


@app.task(policy=twice, isolated=True)
def by_a_process(password: str) -> None:
    raise RuntimeError(f"broke with token={password}")


@app.task(policy=twice)
def by_answer(password: str) -> dict[str, str]:
    """It captures, tells how far it is, and fails at what it was told."""
    current_job().progress(1, 2, f"asking with token={PLANTED['progress']}")
    raise FaultError(
        "INVALID_RESPONSE", f"no JSON: api_key={password}",
        detail="BAD_JSON", raw_output=f"Sure! secret={PLANTED['raw']}",
    )  # fmt: skip


@app.task
def well(password: str) -> dict[str, str]:
    return {"password": password, "note": f"token={PLANTED['result']}"}


@stage(policy="sample-filter")
def read(item: dict[str, str]) -> dict[str, str]:
    return item


@stage(policy="sample-filter", upstream="gateway")
def write(item: dict[str, str]) -> None:
    raise FaultError("UNAUTHORIZED", f"refused: authorization: Bearer {item['token']}", status=401)


leaking = app.pipeline("leaking", [read, write], http=True)
