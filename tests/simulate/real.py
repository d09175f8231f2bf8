"""A real worker of the cross-check: `python -m tests.simulate.real DATABASE SCENARIO SEED`.

Its handler calls the simulator's own upstream, by the real clock, from the first call of all on.
"""

import random
import sys
import time
from contextlib import suppress
from pathlib import Path

from seawall import FaultError, Seawall
from seawall.simulate import load_scenario
from seawall.simulate.behaviour import SimulatedUpstream
from seawall.simulate.scenario import UPSTREAM
from seawall.worker.worker import Worker


def application(database, scenario):
    app = Seawall(f"sqlite:///{database}", concurrency=scenario.workers.concurrency)
    (choice,) = scenario.choices
    upstream = ""
    if choice.upstream is not None:
        app.upstream(choice.upstream)
        upstream = UPSTREAM
    began, state = Path(f"{database}.began"), {}

    @app.task(policy=choice.policy, upstream=upstream, timeout_seconds=30)
    def call(n: int) -> None:
        now = time.time()
        with suppress(FileExistsError), began.open("x", encoding="utf-8") as file:
            file.write(f"{now!r:<25}")
        since = now - float(began.read_text("utf-8") or now)
        took, fault = state["upstream"].call(max(0.0, since))
        time.sleep(took)
        if fault is not None:
            raise FaultError(fault.code, fault.message)

    return app, call, state


if __name__ == "__main__":
    database, file, seed = sys.argv[1:]
    scenario = load_scenario(file)
    app, _, state = application(database, scenario)
    state["upstream"] = SimulatedUpstream(scenario, random.Random(seed))
    Worker(app, drain=True).run()
