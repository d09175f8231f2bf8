"""What all routes share: the application, its store, threads to ask it in, and who was here."""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request

from seawall.app import Seawall
from seawall.metrics import Metrics
from seawall.store import Store
from seawall.web.glances import Glances
from seawall.web.intake import Intake
from seawall.web.outputs import Outputs
from seawall.web.paces import Paces
from seawall.web.rates import Rates
from seawall.web.sessions import SECRET_NAME, Sessions
from seawall.web.shared import Shared
from seawall.web.tail import Tail
from seawall.web.threads import CANARY_THREADS, SLOW_THREADS, THREADS, Threads

if TYPE_CHECKING:
    from seawall.web.access import Believed

BURST_SECONDS = 2.0
"""How many seconds' worth of requests may come at once."""
FAILURES = 10
"""How many wrong tokens an address may show at once, and then one in so many seconds."""
FAILURE_SECONDS = 6.0


@dataclass(slots=True)
class House:
    """What all routes share."""

    app: Seawall
    store: Store
    own_store: Store
    """Another way into the same store: whoever looks does not wait for whoever writes."""
    threads: Threads
    shared: Shared
    glances: Glances
    slow: Threads
    """For what takes seconds: the report of a long run, something done about thousands of jobs."""
    canaries: Threads
    """For whoever waits for canaries to come to their ends: a minute or more, and nothing to do."""
    outputs: Outputs
    rates: Rates
    failures: Rates
    sessions: Sessions
    believed: "Believed"
    intake: Intake
    tail: Tail
    paces: Paces
    metrics: Metrics
    open_to_anybody: bool

    def close(self) -> None:
        """Write what was taken in, and let go of everything; the application stays."""
        self.intake.close()
        self.tail.close()
        self.threads.close()
        self.slow.close()
        self.canaries.close()
        if self.own_store is not self.store:
            self.own_store.close()


def opened(app: Seawall, *, open_to_anybody: bool) -> House:
    """A house for the application; its store is opened, and brought up to date."""
    from seawall.web.access import Believed  # noqa: PLC0415 - they know each other

    store = app.store
    own = app.store_of_its_own()
    settings = app.settings
    rate = settings.requests_per_second
    threads = Threads("web", THREADS)
    glances = Glances(threads)
    slow = Threads("slow", SLOW_THREADS, most_waiting=20)
    secret = store.shared_secret(SECRET_NAME, secrets.token_hex(32))
    return House(
        app=app,
        store=store,
        own_store=own,
        threads=threads,
        shared=Shared(threads),
        glances=glances,
        slow=slow,
        canaries=Threads("canary", CANARY_THREADS, most_waiting=0),
        outputs=Outputs(app, slow),
        rates=Rates(rate, max(10.0, rate * BURST_SECONDS)),
        failures=Rates(1 / FAILURE_SECONDS, FAILURES),
        sessions=Sessions(secret, settings.session_seconds),
        believed=Believed(store, threads),
        intake=Intake(own),
        tail=Tail(store, heard=glances.news),
        paces=Paces(),
        metrics=Metrics(own, app.upstreams),
        open_to_anybody=open_to_anybody,
    )


def house_of(request: Request) -> House:
    """The house that a request has come to."""
    house: House = request.app.state.house
    return house
