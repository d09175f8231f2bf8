"""The application that the browser's tests serve and work for: files in its folder steer it."""

import asyncio
import os
from pathlib import Path

from seawall import Backoff, Breaker, FaultError, Policy, Rule, Seawall, Upstream, stage

HERE = Path(os.environ["HARBOUR"])
QUICK = Backoff(curve="fixed", base_seconds=0.2, jitter="none")
quick = Policy(name="quick", max_attempts=50, rules=(Rule(on="UNAVAILABLE", backoff=QUICK),))
app = Seawall(policies=[quick])
app.upstream(
    Upstream(
        "tide",
        breaker=Breaker(
            consecutive_failures=2,
            open=Backoff(curve="fixed", base_seconds=2, jitter="none"),
        ),
    )
)


def there(name: str) -> bool:
    return (HERE / name).exists()


@app.task(http=True)
def print_page(path: str, note: str = "") -> dict[str, str]:
    if not there(path):
        raise FileNotFoundError(path)
    return {"printed": path}


@print_page.retry_when
def page_is_there(path: str, note: str = "") -> bool | str:
    return there(path) or path != "lost.pdf" or "the file is gone"


@app.task
def stamp(path: str) -> None:
    if not there(path):
        raise FaultError("INVALID_INPUT", "there is no ink")


@app.task(policy="quick", upstream="tide")
async def sail(to: str) -> str:
    await asyncio.sleep(0.01)
    if there("storm"):
        raise FaultError("UNAVAILABLE", "the tide is out")
    return to


@stage
def fetch(item: str) -> str:
    if item.endswith("3"):
        raise FileNotFoundError(item)
    return item


@stage(upstream="tide")
def ask(text: str) -> str:
    return text.upper()


reports = app.pipeline("reports", [fetch, ask])
