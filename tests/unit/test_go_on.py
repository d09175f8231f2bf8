"""`Worker._go_on`: whoever ends a handler while the store is being asked lets the next one begin."""

import threading

from seawall import Seawall, Worker
from seawall.worker.events import Woken


def test_an_end_that_comes_while_another_thread_steps_the_core_is_heard_by_that_one(tmp_path):
    """Otherwise its slot would stand empty until something else happens."""
    app = Seawall(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def task() -> None: ...

    worker = Worker(app, concurrency=2)
    worker._store = app.store
    worker._stepped([Woken(look=True)])
    assert worker.core.turning
    act = worker.core.act

    def ends():
        worker._hear(Woken())
        worker._go_on()

    def act_while_another_ends(now):
        worker.core.act = act
        thread = threading.Thread(target=ends)  # after the inbox was read
        thread.start()
        thread.join()
        return act(now)

    worker.core.act = act_while_another_ends
    worker._go_on()

    assert not worker._inbox
    app.close()
