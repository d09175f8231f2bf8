"""A Python that Django 6 runs on, with what a Django project needs: this one, or one made here.

Made once, from the very lock that everything else is installed from, beside the project's own
environment; the tests of several processes wait for the one that makes it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LOCK = ROOT / "requirements-dev.lock"
OLDEST = (3, 12)
NAMES = ("python3.14", "python3.13", "python3.12", "python3")
NEEDED = {
    "annotated-doc", "annotated-types", "apsw", "asgiref", "click", "cronsim", "django",
    "markdown-it-py", "mdurl", "opentelemetry-api", "opentelemetry-sdk",
    "opentelemetry-semantic-conventions", "psycopg", "psycopg-binary", "psycopg-pool",
    "pydantic", "pydantic-core", "pygments", "rich", "shellingham", "sqlparse", "typer",
    "typing-extensions", "typing-inspection",
}  # fmt: skip
"""What seawall and a Django project that traces need; uv is asked whether that is all."""


@cache
def newer_python() -> str:
    """The path of a Python with Django 6; the test is skipped, loudly, where there is none."""
    if sys.version_info >= OLDEST:
        return sys.executable
    base = next(filter(None, map(_works, _candidates())), None)
    if base is None:
        pytest.skip("NOT TESTED: Django 6 needs Python 3.12 or later, and there is none here")
    wanted = _wanted()
    word = hashlib.sha256(f"{base}\n{wanted}".encode()).hexdigest()[:12]
    folder = Path(sys.prefix) / f"django-{word}"
    with (Path(sys.prefix) / "django.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _made(folder, base, wanted)
    return str(folder / "bin" / "python")


def surroundings(*hidden: str) -> dict[str, str]:
    """The environment for programs of that Python, without what begins so.

    What it compiles is kept between runs, beside it: a project is started many times.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    python = Path(newer_python())
    return {
        **kept,
        "PATH": f"{python.parent}{os.pathsep}{kept['PATH']}",
        "PYTHONPYCACHEPREFIX": str(Path(sys.prefix) / "pycache"),
    }


def _candidates():
    """Whatever the path leads to, and what pyenv keeps behind its shims."""
    for name in NAMES:
        if found := shutil.which(name):
            yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(map(str, root.glob("versions/3.1[2-9]*/bin/python3")), reverse=True)


def _works(path):
    """The interpreter itself, if it is new enough and has what it takes."""
    code = "import sys, sqlite3, ssl, venv; print(sys.executable, *sys.version_info[:2])"
    try:
        done = subprocess.run(
            [path, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return None
    if done.returncode:
        return None
    executable, major, minor = done.stdout.rsplit(maxsplit=2)
    return executable if (int(major), int(minor)) >= OLDEST else None


def _wanted():
    """The part of the lock that is needed, hashes and all."""
    entries = re.split(r"^(?=[\w.-]+==)", LOCK.read_text("utf-8"), flags=re.MULTILINE)
    return "".join(entry for entry in entries if entry.partition("==")[0] in NEEDED)


def _made(folder, base, wanted):
    shutil.rmtree(folder, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    python = folder / "bin" / "python"
    _run(uv, "venv", "--quiet", "--python", base, folder)
    (folder / "lock").write_text(wanted, "utf-8")
    install = (
        "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--python", python,
        "-r", folder / "lock",
    )  # fmt: skip
    try:
        _run(uv, "--system-certs", *install)
    except AssertionError:
        _run(uv, *install)
    _run(uv, "pip", "check", "--quiet", "--python", python)
    # As `pip install --editable` would: the project is not built anew for it.
    (site,) = folder.glob("lib/python3.*/site-packages")
    (site / "seawall.pth").write_text(f"{ROOT / 'src'}\n", "utf-8")
    (folder / "ready").touch()


def _run(*command):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
