"""An environment for each queue under `.bench`, kept while its requirements stay the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
PEERS = BENCH / "peers"
UV = Path(sys.executable).parent / "uv"
INSTALL_SECONDS = 600


def interpreter(name: str) -> Path:
    """The Python that runs this adapter; its environment is made when there is none yet.

    An adapter without requirements uses the project's own.
    """
    wanted = PEERS / f"{name}.txt"
    if not wanted.exists():
        return Path(sys.executable)
    folder = ROOT / ".bench" / name
    python, kept = folder / "bin" / "python", folder / "requirements.txt"
    if not kept.exists() or kept.read_text() != wanted.read_text():
        _made(folder, python, wanted)
        shutil.copyfile(wanted, kept)
    return python


def surroundings(**more: str) -> dict[str, str]:
    """The environment variables of an adapter.

    Adapters are called as the packages they use, so their own folder must not be on the path: they
    import `peers.meter`.
    """
    return {**os.environ, "PYTHONPATH": str(BENCH), "PYTHONSAFEPATH": "1", **more}


def _made(folder: Path, python: Path, wanted: Path) -> None:
    print(f"making {folder.relative_to(ROOT)}", file=sys.stderr)
    _run("venv", "--clear", "--quiet", "--python", sys.executable, folder)
    install = ("pip", "install", "--quiet", "--python", python, "-r", wanted)
    if _run("--system-certs", *install, check=False):
        _run(*install)


def _run(*words: str | Path, check: bool = True) -> int:
    done = subprocess.run(  # noqa: S603 - the project's own uv
        [UV, *words], check=check, capture_output=not check, timeout=INSTALL_SECONDS
    )
    return done.returncode


if __name__ == "__main__":  # make those that are named, and say where they are
    for each in sys.argv[1:]:
        print(each, interpreter(each))
