"""A worker in a process of its own, which may be killed at any moment.

    python -m tests.webhooks.worker

It ends by itself when whoever started it is gone.
"""

import os
import threading

from seawall import Worker
from tests.life.worker import end_with
from tests.webhooks.jobs import made


def main() -> None:
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    Worker(made(), concurrency=4).run()


if __name__ == "__main__":
    main()
