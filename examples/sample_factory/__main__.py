"""The story: `python -m examples.sample_factory`, from the repository's root."""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from examples.sample_factory import crew, database, machines, samples
from examples.sample_factory.app import app
from examples.sample_factory.story import Story

FEWEST_SAMPLES = 200
WORKERS = 2


def main() -> int:
    given = _words()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whatever was started is ended
    with ExitStack() as open_things:
        folder = open_things.enter_context(_folder(given.folder))
        try:
            host, urls, prefixes, network = _places(given, folder, open_things)
        except machines.NoMachinesError as error:
            sys.stderr.write(f"sample_factory: {error}\n")
            return 2
        os.environ["SEAWALL_URL"] = urls[0]  # for the commands of the story
        app.configure(url=urls[0])
        crew.say("migrate")
        provider_url = open_things.enter_context(crew.provider(host))
        workers = open_things.enter_context(crew.Crew(urls, provider_url, folder, prefixes))
        file = samples.written(folder / "samples.jsonl", given.samples)
        story = Story(folder, file, given.samples, provider_url, workers, network)
        story.tell()
        if given.folder is not None:
            story.say_how_to_go_on(urls[0])
    return 0


def _words() -> argparse.Namespace:
    words = argparse.ArgumentParser(prog="sample_factory", description=__doc__)
    words.add_argument("--samples", type=int, default=10_000, metavar="N", help="default: 10000")
    words.add_argument("--folder", type=Path, help="keep the files there, to look around")
    words.add_argument("--url", help="another store than SQLite: postgresql://…")
    words.add_argument(
        "--machines",
        action="store_true",
        help="workers in three network namespaces, and PostgreSQL between them; needs root",
    )
    given = words.parse_args()
    if given.samples < FEWEST_SAMPLES:
        words.error(f"--samples: found {given.samples}, expected {FEWEST_SAMPLES} or more")
    return given


def _places(
    given: argparse.Namespace, folder: Path, open_things: ExitStack
) -> tuple[str, list[str], list[list[str]], machines.Machines | None]:
    """Where the provider listens, which store each worker uses, and what starts it."""
    if given.machines:
        network = open_things.enter_context(machines.machines())
        url = given.url or open_things.enter_context(database.postgresql(network.address))
        return network.address, [url] * machines.MACHINES, network.prefixes, network
    url = given.url or f"sqlite:///{folder.resolve() / 'samples.db'}"
    return "127.0.0.1", [url] * WORKERS, [[]] * WORKERS, None


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory(prefix="sample-factory-") as made:
            yield Path(made)
        return
    given.mkdir(parents=True, exist_ok=True)
    if any(given.iterdir()):
        raise SystemExit(f"sample_factory: {given} is not empty; name a folder that it may fill")
    yield given


if __name__ == "__main__":
    sys.exit(main())
