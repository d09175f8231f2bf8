"""A process that asks one verb of the prepared state, and is killed while it asks.

    python -m tests.crash.asker URL VERB N

It says when it has opened the store, and asks when it is told to. On SQLite it kills itself at the
N-th statement, or when it has been answered if there are not as many; on PostgreSQL the proxy
that stands in between does.
"""

import os
import signal
import sys
from functools import partial

from seawall.clock import ManualClock
from seawall.store import open_store
from seawall.store.migrate import bring_up
from tests.crash.tracer import Strike, Tracer
from tests.crash.world import NOW, VERBS, opened_backend, settle_down


def _migration(url: str) -> "partial[object]":
    backend = opened_backend(url, ManualClock(NOW))
    settle_down(backend)
    return partial(bring_up, backend)


def _verb(url: str, verb: str) -> "partial[object]":
    store = open_store(url, clock=ManualClock(NOW))
    settle_down(store._backend)
    return partial(VERBS[verb].ask, store)


def main() -> None:
    url, verb, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    tracer = Tracer() if url.startswith("sqlite") else None
    ask = _migration(url) if verb == "migrate" else _verb(url, verb)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    if tracer is not None:
        tracer.arm(n, Strike.KILL)
    ask()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
