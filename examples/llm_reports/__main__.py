"""The story of `llm_reports`, in about a minute: `python -m examples.llm_reports [--s3]`."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from examples import peers
from examples.llm_reports import objects, table
from examples.llm_reports.app import app, reports
from seawall import Run

GOOD = [f"inbox/{number:02}.txt" for number in range(1, 17)]
BAD = ["inbox/lost.txt", "inbox/photo.png", "inbox/torn.md"]
FASTER = """\
# As the preset, a hundred times faster: so that nobody waits ten minutes for a story.
lease_seconds = 2
poll_seconds = 0.2

[policies.llm-reports]
max_attempts = 4

[[policies.llm-reports.rules]]
on = ["RATE_LIMITED", "TIMEOUT", "UNAVAILABLE", "UPSTREAM_ERROR", "IO_ERROR"]
backoff = { curve = "schedule", schedule_seconds = [0.3, 1.2, 4.8], jitter = "proportional" }

[[policies.llm-reports.rules]]
on = "WORKER_LOST"
max_attempts = 4
counts = false
backoff = { curve = "schedule", schedule_seconds = [0.3, 1.2, 4.8], jitter = "proportional" }
"""
WORKER = ("worker", "--app", "examples.llm_reports.app:app", "--concurrency", "4")


def main() -> None:
    """Tell it."""
    parser = argparse.ArgumentParser(prog="python -m examples.llm_reports", description=__doc__)
    parser.add_argument("--s3", action="store_true", help="objects in a real S3, not in a folder")
    parser.add_argument("--folder", type=Path, help="keep everything there, to look around")
    said = parser.parse_args()
    with place(said.folder) as folder, ExitStack() as block:
        model = block.enter_context(peers.model(folder))
        environ = {
            **model.environ,
            "SEAWALL_CONFIG": str(folder / "seawall.toml"),
            "SEAWALL_URL": f"sqlite:///{folder / 'jobs.db'}",
            "REPORTS_DATABASE": f"sqlite:///{folder / 'reports.db'}",
            "REPORTS_OBJECTS": (folder / "objects").as_uri(),
        }
        if said.s3:
            environ |= block.enter_context(peers.bucket(folder))
            environ["REPORTS_OBJECTS"] = f"s3://{peers.BUCKET}/story"
        (folder / "seawall.toml").write_text(FASTER)
        os.environ.update(environ)
        app.configure(url=environ["SEAWALL_URL"])
        tell(folder, model)
        app.close()


def tell(folder: Path, model: peers.Model) -> None:
    """The story, in its order."""
    title("1. Documents")
    put_documents()
    print(f"{len(GOOD)} good ones are in {objects.where()}, and three that cannot be worked on.")
    title("2. A model in trouble")
    model.behave(
        {"type": "fail", "status": 503, "times": 2},
        {"type": "fail", "status": 429, "retry_after": 2},
        {"type": "reply", "text": "I'd be glad to! What is it about?"},
        {"type": "reply", "text": '{"title": "Tides", "risk": "considerable"}'},
        {"type": "delay", "seconds": 0.4, "times": None},
    )
    print("It fails twice (503), throttles once (429), and two of its answers are no reports.")
    title("3. Work; half-way the worker is killed")
    run = reports.run([*GOOD, *BAD], name="story", failure_budget=None)
    with at_work(folder) as worker:
        peers.until(lambda: run.view().succeeded >= len(GOOD) // 4, "the first reports")
        worker.kill()
        print(f"$ kill -9 {worker.pid}")
    with at_work(folder):
        view = run.wait(peers.PATIENCE_SECONDS, live=False)
        print(f"{view.succeeded} reports, {view.failed} documents failed.")
        title("4. What failed waits for people, each with one line")
        tell_failures()
        title("5. Mend: ask the model again, from that stage on, where its answer was no report")
        again = app.redrive(fault="INVALID_RESPONSE", from_stage="ask", task="reports")
        print(f"{again.sent} jobs are sent again.")
        peers.until(lambda: run.view().succeeded == len(GOOD), "the last reports")
    title("6. What came of it")
    tell_end(run, model)


def put_documents() -> None:
    """The good ones whole, the bad ones each in its own way."""
    for path in GOOD:
        objects.write(path, f"What there is to say in {path}.".encode())
        objects.write(f"{path}.json", b'{"title": "A note", "author": "Ann", "pages": 1}')
    objects.write("inbox/photo.png", b"\x89PNG")
    objects.write("inbox/torn.md", b"Half of")
    objects.write("inbox/torn.md.json", b'{"title": "A no')


def at_work(folder: Path) -> peers.Running:
    """A worker, in a process of its own."""
    print("$ seawall", *WORKER, flush=True)
    return peers.running([sys.executable, "-m", "seawall", *WORKER], folder / "worker.log")


def tell_failures() -> None:
    """The dead letters, and what the model really said."""
    for letter in app.dead_letters(task="reports"):
        job = app.job(letter.job_id)
        print(f"  job {letter.job_id} at {reports.stages[letter.stage].name}: {letter.fault}")
        left = job.evidence()
        if left is not None and left.raw_output:
            print(f"      it said: {left.raw_output}")


def tell_end(run: Run, model: peers.Model) -> None:
    """What is there, and the figures to watch."""
    rows = table.rows()
    whole = sum(bool(objects.read(row.report)) for row in rows)
    print(f"{len(rows)} rows and {whole} objects, for {len(GOOD)} documents that could be read.")
    lost = sum(stage.lost for stage in run.report().stages)
    calls = len(model.requests())
    print(f"The model was called {calls} times; {lost} attempts ended with the killed worker.")
    rates = app.rates("reports")
    print(f"  retry rate            {rates.retry_rate:6.1%} of {rates.attempts} attempts")
    print(f"  final failure rate    {rates.final_failure_rate:6.1%} of {rates.ended} ends")
    print(f"  mean time to success  {rates.mean_seconds_to_success:5.1f} s")
    print(f"  schema failures       {rates.schema_failure_rate:6.1%}", end="")
    print(f", {rates.raw_captures} raw outputs kept")
    books = app.verify()
    print("The books balance." if books.ok else f"The books do not balance: {books}")
    if len(rows) != len(GOOD) or not books.ok:
        sys.exit(1)


def title(words: str) -> None:
    """What comes next."""
    print(f"\n{words}", flush=True)


@contextmanager
def place(folder: Path | None) -> Iterator[Path]:
    """Where everything is written."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="seawall-reports-") as made:
            yield Path(made)
        return
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder}: is not empty; name a folder that may be filled")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder.resolve()
    print(f"\nLook around: cd {folder}; SEAWALL_URL=sqlite:///jobs.db seawall jobs")


if __name__ == "__main__":
    main()
