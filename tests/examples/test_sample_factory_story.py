"""The sample factory as its README tells it: one command, real workers, and three machines."""

import os
import re

import pytest

from examples.sample_factory import machines
from tests.examples.sample_factory_world import ROOT, told

SAMPLES = "10000" if os.environ.get("SEAWALL_WHOLE_FACTORY") else "200"
"""Ten thousand for a proof; the suite has less time."""


def in_order(story: str, *lines: str) -> None:
    """The story has these lines, one after the other."""
    at = 0
    for line in lines:
        found = re.compile(line).search(story, at)
        assert found, f"{line!r} is missing after {story[max(0, at - 300) : at]!r}:\n{story}"
        at = found.end()


MONDAY = (
    r"aborted with \d+ of [\d,]+ failed: failed \d+ of \d+ items that came as far.*UNAUTHORIZED",
    r"\$ seawall redrive --run 1 --fault UNAUTHORIZED",
    r"partial_success after",
    r"label +\d+\.\d% of attempts well; retries: [\d,]+ × 0, [\d,]+ × 1",
    r"\$ seawall dead --run 1 --group",
    r"\$ seawall redrive --run 1 --stage embed --canary 5",
    r"canaries went first and succeeded",
    r"completed: \d+\.\d%",
    r"Calls for labels meanwhile: 0\.",
    r"another configuration now: embed",
)
REST = (
    r"aborted with [\d,]+ samples not begun: failed .* above its budget of 10 %",
    r"succeeded: completed\n.*succeeded: partial_success\n.*succeeded: failed",
    r"0 are unaccounted for",
    r"No job is lost",
)


def test_the_one_command_tells_the_story(tmp_path):
    folder = tmp_path / "factory"
    story = told("--samples", SAMPLES, "--folder", str(folder))
    in_order(story, *MONDAY, *REST, r"paid for twice|Look around: export SEAWALL_URL=sqlite")
    assert re.search(r"paid for twice: 0\n", story)
    assert "seawall serve --app examples.sample_factory.app:app" in story
    assert (folder / "samples.db").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(AssertionError, match="is not empty"):
        told("--folder", str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def cannot(why):
    """Where the machine lacks what it takes, say so; where CI has seen to it, that is a failure."""
    if "SEAWALL_MUST_PARTITION" in os.environ:
        pytest.fail(why)
    pytest.skip(f"NOT TESTED: {why}")


@pytest.mark.usefixtures("postgres_fleet")
def test_workers_on_three_machines_with_one_postgresql_come_to_the_same():
    if not {"CI", "SEAWALL_MUST_PARTITION"} & os.environ.keys():
        pytest.skip("NOT TESTED: it takes a while; with CI set it runs")
    try:
        with machines.machines():
            pass
    except machines.NoMachinesError as error:
        cannot(str(error))
    story = told("--machines", "--samples", SAMPLES)
    in_order(story, *MONDAY[:2], r"The third machine is cut off", *MONDAY[2:], *REST)


def test_the_page_and_the_readme_name_the_command():
    for page in ("examples/sample_factory/README.md", "docs/examples/sample_factory.md"):
        assert "make example NAME=sample_factory" in (ROOT / page).read_text("utf-8")
