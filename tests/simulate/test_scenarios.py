"""Scenarios from files, and what the command makes of them."""

import json
import re

import pytest
from typer.testing import CliRunner

from seawall.cli import app
from seawall.errors import ConfigurationError
from seawall.simulate import Choice, Load, Phase, Scenario, compare, load_scenario, verdict
from seawall.simulate.pictures import flat, whole
from seawall.simulate.scenario_data import phase_of, seconds_of, shipped

SMALL = """
[load]
jobs = 30
[service]
mean_seconds = 0.2
[[phases]]
is = "down"
seconds = 20
[[phases]]
is = "healthy"
[policies.quick]
max_attempts = 2
rules = [{ on = "all", backoff = { curve = "fixed", base_seconds = 1 } }]
[[choices]]
policy = "quick"
upstream = false
[[choices]]
policy = "default"
"""


def written(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_scenario_can_be_read(name):
    scenario = load_scenario(name)
    assert scenario.description.endswith(".")
    assert len(scenario.choices) > 1


def test_there_is_one_for_each_trouble_and_each_system():
    troubles = {"outage", "rate-limit", "slow", "flapping", "herd"}
    systems = {"reports", "ai-worker", "media-sync", "converter", "samples"}
    assert set(shipped()) == troubles | systems


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "own.toml: load: is missing, expected a table: jobs, or per_second"),
        ("[load]\njobs = -1", "own.toml: load.jobs: found -1, expected 0 to"),
        ("[load]\njbos = 1", "own.toml: load.jbos: no such key; did you mean jobs?"),
        ("lod = 1", "own.toml: scenario.lod: no such key; did you mean load?"),
        (
            "[load]\njobs = 1\n[[phases]]\nis = 'dwon'",
            "own.toml: phases[0].is: found 'dwon', expected one of healthy, down",
        ),
        (
            "[load]\njobs = 1\n[[phases]]\nis = 'healthy'\nrate = 0.5",
            "own.toml: phases[0].rate: found one, expected none: 'healthy' has none of its own",
        ),
        (
            "[load]\njobs = 1\n[[phases]]\nis = 'errors'",
            "own.toml: phases[0].rate: is missing: 'errors' needs it",
        ),
        (
            "[load]\njobs = 1\n[[phases]]\nis = 'down'\n[[phases]]\nis = 'healthy'",
            "own.toml: scenario.phases[0].seconds: found None, expected a number",
        ),
        (
            "[load]\njobs = 1\n[[choices]]\npolicy = 'defualt'",
            "own.toml: choices[0].policy: no policy named 'defualt'; did you mean default?",
        ),
        (
            "[load]\njobs = 1\n[[choices]]\nupstream = { quorum = 'x' }",
            "own.toml: choices[0].upstream.quorum: found 'x', expected a whole number",
        ),
    ],
)
def test_a_mistake_is_one_line_with_place_found_and_allowed(tmp_path, text, says):
    with pytest.raises(ConfigurationError) as refused:
        load_scenario(written(tmp_path, text))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_none_says_which_there_are():
    with pytest.raises(ConfigurationError, match="no scenario 'outtage'; did you mean outage"):
        load_scenario("outtage")


def test_phases_and_times_as_flags_say_them():
    assert phase_of("down 20m") == Phase("down", 1_200)
    limited = Phase("rate-limit", limit=5, retry_after=True)
    assert phase_of("rate-limit limit=5 retry_after=true") == limited
    assert phase_of("down 5s fault=NOT_READY") == Phase("down", 5, fault="NOT_READY")
    assert [seconds_of(t, "x") for t in ("90", "90s", "1.5h")] == [90, 90, 5_400]
    with pytest.raises(ConfigurationError, match="expected a length of time such as 90, 20m"):
        seconds_of("soon", "--for")


def simulated(*words):
    done = CliRunner().invoke(app, ["simulate", *map(str, words)], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def test_the_command_compares_in_words_figures_and_pictures(tmp_path):
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    path = written(tmp_path, SMALL)
    out = simulated(path, "--seeds", 3, "--html", page, "--svg", picture)
    assert "quick, nothing held dead-letters 30 jobs." in out
    assert "default loses no job." in out
    text = page.read_text("utf-8")
    assert text.count("<svg") == 4
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert picture.read_text("utf-8").startswith("<svg")


def test_pictures_are_drawn_as_png_for_what_knows_no_svg(tmp_path):
    picture, drawn = tmp_path / "a.svg", tmp_path / "a.png"
    path = written(tmp_path, SMALL)
    simulated(path, "--seeds", 1, "--svg", picture, "--png", drawn)
    assert not re.search(r"var\(|@media|--c", flat(picture.read_text("utf-8")))
    data = drawn.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 2 * 720
    assert len(data) > 10_000


def test_png_without_its_extra_is_refused_before_anything_is_simulated(tmp_path, monkeypatch):
    monkeypatch.setattr("seawall.cli.simulate.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'seawall\[png\]'"):
        simulated(written(tmp_path, SMALL), "--png", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_the_same_command_prints_the_same(tmp_path):
    path = written(tmp_path, SMALL)
    found = [simulated(path, "--seeds", 2, "--seed", 5, "--json") for _ in range(2)]
    assert found[0] == found[1]
    told = json.loads(found[0])
    assert told["seeds"] == [5, 6]
    assert told["choices"][0]["dead_letters"] == {"mean": 30, "ci95": [30, 30]}


def test_everything_can_be_said_by_flags():
    out = simulated(
        "--jobs", 40, "--workers", 2, "--concurrency", 5, "--service", "0.2s",
        "--phase", "down 10s", "--phase", "healthy", "--policy", "default", "--policy", "converter",
        "--breaker", "on", "--breaker", "off", "--seeds", 1, "--json",
    )  # fmt: skip
    names = [each["name"] for each in json.loads(out)["choices"]]
    assert names == ["default", "default, nothing held", "converter", "converter, nothing held"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a scenario"),
        (["outage", "--clients", "3"], "are of: simulate contention"),
        (["outage", "--breaker", "maybe"], "--breaker: found 'maybe', expected on or off"),
        (["outage", "--workers", "0"], "workers.count: found 0, expected 1 to 1000, whole"),
        (["outage", "--phase", "down soon"], "expected a length of time"),
    ],
)
def test_a_wrong_flag_is_one_line(words, says):
    with pytest.raises(ConfigurationError, match=says) as refused:
        simulated(*words)
    assert "\n" not in str(refused.value)


def test_a_verdict_speaks_only_of_differences_beyond_chance():
    scenario = Scenario(
        load=Load(per_second=3, for_seconds=60),
        choices=(Choice(name="one"), Choice(name="two")),
    )
    assert "two and one do not differ beyond chance." in verdict(compare(scenario, seeds=3))


def test_names_of_others_do_no_harm_in_a_picture():
    scenario = Scenario(load=Load(jobs=1), choices=(Choice(name="<script>alert(1)</script>"),))
    assert "<script" not in whole(compare(scenario, seeds=1))
