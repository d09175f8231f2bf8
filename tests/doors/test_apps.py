"""`--app`: what is wrong with it is said in one line."""

import os

import pytest

WORKER = ("worker", "--app")


@pytest.fixture
def refused(seawall):
    def run(app, **environ):
        line = seawall(*WORKER, app, expect=2, **environ)
        assert line.startswith("seawall: ")
        assert line.count("\n") == 1
        assert "Traceback" not in line
        return line.removeprefix("seawall: ").rstrip("\n")

    return run


def test_a_module_that_is_not_there(refused, seawall):
    found = refused("nowhere_to_be_found:app")
    assert found == (
        f"--app: there is no module nowhere_to_be_found, neither in {seawall.folder} nor installed"
    )


def test_a_part_of_a_package_that_is_not_there(refused, seawall):
    (seawall.folder / "parcel_here").mkdir()
    (seawall.folder / "parcel_here" / "__init__.py").write_text("")
    assert "there is no module parcel_here.jobs, neither" in refused("parcel_here.jobs:app")


def test_an_import_inside_the_module_that_fails_is_told_apart(refused, module):
    name = module("import os\n\nimport not_installed_here\n")
    assert refused(f"{name}:app") == (
        f"--app: importing {name} broke at {name}.py:3:"
        " ModuleNotFoundError: No module named 'not_installed_here'"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def broken(:\n", ".py:1: SyntaxError: invalid syntax"),
        ("x = 1\nraise RuntimeError('two\\nlines')\n", ".py:2: RuntimeError: two lines"),
        ("import sys\nsys.exit(3)\n", ".py:2: SystemExit: 3"),
        ("raise RuntimeError\n", ".py:1: RuntimeError"),
        (
            "from seawall import Seawall\napp = Seawall(policy='no-such')\n@app.task\ndef f(): ...\n",
            ".py:3: ConfigurationError: task f: policy (flag --policy): no policy named 'no-such'",
        ),
        (
            "raise RuntimeError('cannot reach postgresql://ann:hunter2@db.example/jobs')\n",
            ".py:1: RuntimeError: cannot reach postgresql://db.example/jobs",
        ),
    ],
)
def test_a_module_that_breaks_says_where(refused, module, source, said):
    name = module(source)
    line = refused(f"{name}:app")
    assert f"{name}{said}" in line
    assert "hunter2" not in line


def test_no_such_application_lists_those_there_are(refused, module):
    name = module("from seawall import Seawall\none = Seawall()\ntwo = Seawall()\nother = 3\n")
    there = f"there is: {name}:one, {name}:two"
    assert refused(f"{name}:app") == f"--app: the module {name} has no 'app'; {there}"
    assert refused(f"{name}:other") == f"--app: {name}:other is a int, no Seawall; {there}"
    assert refused(name).endswith(there)
    nothing = module("x = 1\n")
    assert refused(f"{nothing}:x.y").endswith(f"there is no Seawall in {nothing}")


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("jobs.py:app", "--app: name the module, not its file: jobs:app"),
        ("pack/jobs.py", "--app: name the module, not its file: pack.jobs:app"),
        ("", "--app: found '', expected MODULE:APP"),
        (":app", "--app: found ':app', expected MODULE:APP"),
        ("not a module", "--app: found 'not a module', expected MODULE:APP"),
    ],
)
def test_a_name_that_is_none(refused, app, said):
    assert refused(app).startswith(said)


def test_an_application_must_be_named(seawall):
    line = "seawall: name the application: --app MODULE:APP, or $SEAWALL_APP\n"
    assert seawall("worker", expect=2) == line
    assert seawall("enqueue", "add", expect=2) == line


def test_the_only_application_of_a_module_needs_no_name(seawall, app):
    name = app.partition(":")[0]
    assert seawall("enqueue", "add", "a=1", "--app", name) == "1\n"
    assert seawall("enqueue", "add", "a=1", SEAWALL_APP=app) == "2\n"


def test_an_application_without_tasks_is_refused(refused, module):
    name = module("from seawall import Seawall\napp = Seawall()\n")
    assert refused(f"{name}:app") == ("the application has no tasks: declare one with @app.task")


def test_config_is_the_applications_too_and_leaves_no_trace(seawall, module):
    (seawall.folder / "mine.toml").write_text(
        'url = "sqlite:///by-file.db"\n[policies.mine]\nmax_attempts = 2\n'
    )
    name = module(
        "from seawall import Seawall\napp = Seawall()\n"
        "@app.task(policy='mine')\ndef f() -> None: ...\n"
    )
    assert seawall("enqueue", "f", "--app", f"{name}:app", "--config", "mine.toml") == "1\n"
    assert (seawall.folder / "by-file.db").exists()
    assert "SEAWALL_CONFIG" not in os.environ


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queues", "a,,b"), "--queues: queue: found '', expected 1 to 200 characters"),
        (("--concurrency", "0"), "concurrency (flag --concurrency): found 0"),
        (("--lease-seconds", "0.1"), "lease_seconds (flag --lease-seconds): found 0.1"),
        (("--processes", "0"), "Invalid value for '--processes'"),
        (("--log-level", "loud"), "Invalid value for '--log-level'"),
        (("--url", "mysql://ann:hunter2@db/x"), "url (flag --url): found "),
        (("--url", "sqlite:///no/such/folder/x.db"), "no/such/folder/x.db: the folder"),
    ],
)
def test_a_flag_that_cannot_be_used(seawall, app, words, said):
    line = seawall(*WORKER, app, *words, expect=2)
    assert said in line
    assert "hunter2" not in line
