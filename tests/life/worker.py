"""A worker in a process of its own, which may be killed, stopped and told to end at any moment.

    python -m tests.life.worker LOG HOW

HOW is what `Worker` is given, as JSON. It waits for a line on its standard input before it begins,
so that one can stand by; it ends by itself when whoever started it is gone. What it says stands in
LOG, a line of JSON for each event. It exits with 0 where everything was written.
"""

import json
import logging
import os
import signal
import sys
import threading
import time

import seawall.worker.worker as worker_module
from seawall import Worker


class Lines(logging.Handler):
    """Each event is in the file when `emit` returns."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def emit(self, record: logging.LogRecord) -> None:
        said = getattr(record, "seawall", {"event": "other", "line": record.getMessage()})
        os.write(self._file, json.dumps(said, default=str).encode() + b"\n")


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    log, how = sys.argv[1:]
    os.environ["LIFE_WORKER"] = str(os.getpid())
    from tests.life.tasks import app

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    logging.getLogger("seawall").addHandler(Lines(log))
    logging.getLogger("seawall").setLevel(logging.INFO)
    if not sys.stdin.readline():
        return
    patience = os.environ.get("LIFE_FLUSH_SECONDS")
    if patience is not None:
        worker_module.FLUSH_SECONDS = float(patience)
    worker = Worker(app, **json.loads(how))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    sys.exit(0 if worker.run() else 3)


if __name__ == "__main__":
    main()
