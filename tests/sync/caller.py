"""A process that calls now: `python -m tests.sync.caller FACE TASK SECONDS ARGUMENTS`.

Says what it was answered, as one line of JSON.
"""

import asyncio
import json
import signal
import sys

from seawall import Done, Failed
from tests.sync.jobs import app


def main(face: str, task: str, seconds: str, arguments: str) -> None:
    """Call, and say what came of it."""
    if face == "loop":  # as web servers do: Ctrl-C cancels whatever is awaited
        signal.signal(signal.SIGINT, signal.default_int_handler)
    asking = app.tasks[task].using(key="k", inline_seconds=float(seconds))
    given = json.loads(arguments)
    app.tasks["odd"].enqueue("none").cancel()  # the store is open, and everything is imported
    if face == "sync":
        answer = asking.call_or_enqueue(*given)
    else:
        answer = asyncio.run(asking.acall_or_enqueue(*given))
    said: dict[str, object] = {"answer": type(answer).__name__, "job": answer.job.id}
    if isinstance(answer, Done):
        said["value"] = answer.value
    if isinstance(answer, Failed):
        said["code"] = answer.fault.code
    print(json.dumps(said), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
