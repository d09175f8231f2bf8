"""An application whose jobs end in every way, and whose webhooks are tried again soon."""

from seawall import Backoff, Breaker, Policy, Rule, Seawall, Upstream
from seawall.errors import FaultError, Skip

SOON = Backoff(curve="fixed", base_seconds=0.2, jitter="none")
WEBHOOK = Policy(
    name="webhook",
    max_attempts=50,
    rules=[
        Rule(on=(410, "INVALID_INPUT"), retry=False),
        Rule(on="WORKER_LOST", max_attempts=50, counts=False, backoff=SOON),
        Rule(on="all", backoff=SOON),
    ],
)
ONCE = Policy(name="once", max_attempts=1, rules=[Rule(on="all")])
TWICE = Policy(name="twice", max_attempts=2, rules=[Rule(on="all", backoff=SOON)])


def made(url: str | None = None, **settings: object) -> Seawall:
    """One of them."""
    settings.setdefault("webhook_allow", "127.0.0.1, ::1")
    settings.setdefault("poll_seconds", 0.05)
    settings.setdefault("lease_seconds", 2.0)
    app = Seawall(url, policies=[WEBHOOK, ONCE, TWICE], **settings)
    app.upstream(
        Upstream(
            "seawall.webhook",
            breaker=Breaker(
                open=Backoff(curve="fixed", base_seconds=0.3, jitter="none"), ramp_seconds=0.5
            ),
            retry_budget=None,
        )
    )

    @app.task
    def well(n: int = 0) -> int:
        return n

    @app.task(policy=ONCE)
    def badly(text: str = "") -> None:
        raise FaultError("INVALID_INPUT", f"it is no good {text}")

    @app.task(policy=TWICE)
    def again() -> None:
        raise FaultError("TIMEOUT", "no answer")

    @app.task
    def nothing() -> None:
        raise Skip("nothing to do")

    return app
