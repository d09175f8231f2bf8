"""`seawall init`: each project runs, and its own tests pass."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from seawall.cli.init import Template
from tests.support.doors import until
from tests.support.processes import free_ports

PLAIN = {".gitignore", "README.md", "jobs.py", "seawall.toml", "test_jobs.py"}


def made(seawall, template):
    told = json.loads(seawall("init", "project", "--template", template, "--json"))
    folder = seawall.folder / "project"
    assert set(told["files"]) == {file.name for file in folder.iterdir()}
    assert (told["folder"], told["template"]) == ("project", template)
    return folder, told


def ran(folder, command, **environ):
    """A command of a README, as a person would type it there."""
    first, *rest = shlex.split(command)
    program = [sys.executable] if first == "python" else [sys.executable, "-m", "seawall"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SEAWALL_")}
    done = subprocess.run(
        [*program, *rest], cwd=folder, env={**outside, "NO_COLOR": "1", **environ},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


class Provider:
    """The project's own, in a process of its own."""

    def __init__(self, folder):
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [sys.executable, "provider.py", str(self.port)], cwd=folder, stdout=subprocess.PIPE
        )

    def __enter__(self):
        assert self._process.stdout.readline().decode().strip() == f"Serving at {self.url}"
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


@pytest.mark.parametrize("template", list(Template))
def test_the_projects_own_tests_pass(seawall, template):
    folder, told = made(seawall, template)
    assert "python -m pytest" in told["next"]
    said = ran(folder, "python -m pytest -p no:cacheprovider -W error")
    assert " passed" in said
    assert "failed" not in said


def test_the_plain_project_runs_by_the_commands_that_it_teaches(seawall):
    folder, told = made(seawall, "plain")
    assert told["next"][0] == "cd project"
    *_, enqueue, worker, job = told["next"]
    assert ran(folder, enqueue) == "1\n"
    ran(folder, worker)
    found = json.loads(ran(folder, f"{job} --json"))
    words = len((folder / "README.md").read_text("utf-8").split())
    assert (found["state"], found["result"]) == ("succeeded", words)


def test_the_pipeline_runs_by_the_commands_that_it_teaches(seawall):
    folder, told = made(seawall, "llm-pipeline")
    *_, start, worker, report = told["next"]
    with Provider(folder) as provider:
        assert ran(folder, start, LLM_URL=provider.url) == "1\n"
        ran(folder, worker, LLM_URL=provider.url)
    found = json.loads(ran(folder, f"{report} --json"))["run"]
    assert (found["succeeded"], found["failed"]) == (2, 1)
    (letter,) = json.loads(ran(folder, "seawall dead --json"))
    assert letter["fault"]["code"] == "NOT_FOUND"


def test_the_gateway_answers_later_and_then_at_once(seawall):
    import httpx

    folder, _ = made(seawall, "gateway")
    (port,) = free_ports(1)
    with Provider(folder) as provider:
        service = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "api:api",
                "--port",
                str(port),
                "--log-level",
                "error",
            ],
            cwd=folder,
            env={**os.environ, "LLM_URL": provider.url},
        )
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"x-user": "ann"}, timeout=30
            ) as client:
                until(lambda: answers(client), "the service answers")
                first = client.post("/summaries", json={"text": "what there is to say"})
                assert first.status_code == 202
                place = first.headers["Location"]
                until(lambda: client.get(place).json()["state"] == "succeeded", "it is done")
                again = client.post("/summaries", json={"text": "more of it"})
                assert again.status_code in (200, 202)  # its upstream may be let go in a ramp
        finally:
            service.terminate()
            service.wait()


def answers(client):
    import httpx

    try:
        return client.get("/jobs/999").status_code == 404
    except httpx.TransportError:
        return False


def test_what_is_there_is_never_overwritten_and_nothing_is_written(seawall):
    (seawall.folder / "jobs.py").write_text("mine")
    said = seawall("init", expect=2)
    assert said == (
        "seawall: jobs.py: already there, and never overwritten; nothing was written. Name another"
        " folder: seawall init FOLDER\n"
    )
    assert [file.name for file in seawall.folder.iterdir()] == ["jobs.py"]
    assert (seawall.folder / "jobs.py").read_text() == "mine"


def test_a_second_time_is_refused_and_changes_nothing(seawall):
    folder, _ = made(seawall, "plain")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert "already there" in seawall("init", "project", expect=2)
    assert before == {file.name: file.read_bytes() for file in folder.iterdir()}


def test_other_files_are_left_alone_and_it_says_what_is_next(seawall):
    (seawall.folder / "mine.txt").write_text("mine")
    said = seawall("init")
    assert {file.name for file in seawall.folder.iterdir()} == {*PLAIN, "mine.txt"}
    assert said.startswith("5 files are here: ")
    assert "\n  python -m pytest\n" in said
    assert "cd " not in said


def test_a_place_that_is_no_folder_is_refused(seawall):
    (seawall.folder / "file").touch()
    assert "file: is no folder; nothing was written" in seawall("init", "file", expect=2)
    assert "nothing was written" in seawall("init", "file/below", expect=2)


def test_a_write_that_fails_leaves_nothing_behind(seawall, monkeypatch):
    real = Path.open

    def full(self, mode="r", *rest, **named):
        if mode == "xb" and self.name == "jobs.py":
            raise OSError(28, "No space left on device")
        return real(self, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", full)
    said = seawall("init", "some/where", expect=2)
    assert said == "seawall: some/where: no space left on device; nothing was written\n"
    assert list(seawall.folder.iterdir()) == []


def test_a_template_that_there_is_not_is_refused(seawall):
    assert "llm-pipeline" in seawall("init", "--template", "no-such", expect=2)


def test_every_file_of_a_template_ships_with_the_package():
    from seawall.cli import init

    kept = {
        file.relative_to(init._FILES).parts[0] for file in init._FILES.rglob("*") if file.is_file()
    }
    used = {part for parts in init._PARTS.values() for part in parts}
    assert {name for name in kept if name != "__pycache__"} == used
