"""A worker of `tests.runs.pipelines` in a process of its own; LOG and HOW are as in `tests.life`.

It is started by `python -m tests.runs.worker LOG HOW`.
"""

import json
import logging
import os
import signal
import sys
import threading

from seawall import Worker
from tests.life.worker import Lines, end_with


def main() -> None:
    log, how = sys.argv[1:]
    from tests.runs.pipelines import app

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    logging.getLogger("seawall").addHandler(Lines(log))
    logging.getLogger("seawall").setLevel(logging.INFO)
    if not sys.stdin.readline():
        return
    worker = Worker(app, **json.loads(how))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    sys.exit(0 if worker.run() else 3)


if __name__ == "__main__":
    main()
