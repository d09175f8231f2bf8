"""Every setting from every source, and every way to get one wrong."""

import math
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.errors import ConfigurationError, SettingError
from seawall.settings import (
    Settings,
    flag,
    help_for,
    load,
    names,
    read_file,
    variable,
)

GOOD = {
    "url": ("sqlite:///flag.db", "sqlite:///environment.db", "postgresql://h/file"),
    "listen_url": ("postgresql://a/flag", "postgresql://a/environment", "postgresql://a/file"),
    "policy": ("by-flag", "by-environment", "by-file"),
    "lease_seconds": (1.0, 2.0, 3.0),
    "timeout_seconds": (1.0, 2.0, 3.0),
    "concurrency": (1, 2, 3),
    "poll_seconds": (0.01, 2.0, 60.0),
    "grace_seconds": (0.0, 2.0, 3.0),
    "payload_bytes": (1, 2, 3),
    "artifacts_url": ("file:///flag", "s3://environment", "s3://file/prefix"),
    "inline_bytes": (0, 1, 16 * 1024 * 1024),
    "inline_seconds": (0.05, 2.0, 3_600.0),
    "keep_finished_seconds": (0.0, 2.0, 3.0),
    "keep_failed_seconds": (1.0, 2.0, 3.0),
    "dead_letters_every": (0, 2, 3),
    "success_goal": (0.5, 0.9, 0.95),
    "trace_url": ("https://flag/{trace_id}", "https://environment/{trace_id}", "http://file/"),
    "host": ("flag", "environment", "::1"),
    "port": (1, 2, 65_535),
    "trusted_proxies": ("10.0.0.1", "10.0.0.2", "10.1.0.0/16, 10.0.0.3"),
    "request_bytes": (1_024, 2_048, 64 * 1024 * 1024),
    "requests_per_second": (0.1, 2.0, 3.0),
    "session_seconds": (60.0, 120.0, 31_536_000.0),
    "log_format": ("json", "text", "json"),
    "log_level": ("debug", "warning", "error"),
    "webhook_allow": ("10.0.0.1", "hooks.internal", "10.1.0.0/16, 10.0.0.3"),
}
"""For each setting, three values that differ from each other and from the default."""
TWO_ALONE = {"log_format"}
"""Of these there are but two values."""

WRONG = [
    (name, value)
    for name, values in {
        "url": ["", "  ", "mysql://host/db", "seawall.db", "SQLITE:///x", 5, True, ["sqlite://x"]],
        "listen_url": ["", "sqlite:///x.db", "mysql://x", 5],
        "policy": ["", " ", 3, 1.5, False, {"name": "default"}],
        "lease_seconds": [
            "", "soon", "1m", 0.4, 0, -1, 86_401, "86401", "nan", "inf", math.nan, math.inf,
            True, [60], {}, 10**400,
        ],
        "timeout_seconds": [0, -1, "", "1m", 31_536_001, "nan", math.inf, False, [1]],
        "concurrency": [0, -1, 1.5, "1.5", 10_001, "many", "", True, "nan", "inf", [2]],
        "dead_letters_every": [-1, 1.5, 1_000_001, "often", "", True, [2]],
        "poll_seconds": [0, 0.009, 60.1, "often", "nan", True],
        "grace_seconds": [-0.1, 86_401, "long", "nan", "inf", True],
        "artifacts_url": ["", " ", "file://here", "/srv/artifacts", "http://host/bucket", 5, True],
        "inline_seconds": [0, 0.04, -1, 3_601, "soon", "nan", "inf", True],
        "inline_bytes": [-1, 16 * 1024 * 1024 + 1, "64k", 1.5, True, "nan"],
        "payload_bytes": [0, -5, 16 * 1024 * 1024 + 1, "256k", 1.5, True],
        "keep_finished_seconds": [-1, 3_153_600_001, "for ever", "nan", True],
        "keep_failed_seconds": [-1, 3_153_600_001, "for ever", "inf", True],
        "success_goal": [0.4, 1, "", "most", "nan", True],
        "trace_url": ["", " ", "traces.example/{trace_id}", "ftp://x", 5, True],
        "host": ["", " ", 5, True, ["127.0.0.1"]],
        "port": [0, 65_536, "http", 80.5, True, ""],
        "trusted_proxies": ["", " ", 5, True, ["10.0.0.1"]],
        "request_bytes": [0, 1_023, 64 * 1024 * 1024 + 1, "1m", True],
        "requests_per_second": [0, -1, 1_000_001, "many", "nan", True],
        "session_seconds": [0, 59, 31_536_001, "a day", "inf", True],
        "log_format": ["", " ", "JSON", "yaml", 5, True, ["json"]],
        "log_level": ["", "INFO", "loud", 20, True, ["info"]],
        "webhook_allow": ["", " ", 5, True, ["10.0.0.1"]],
    }.items()
    for value in values
]  # fmt: skip
SECRET = "hunter2-Zq"
ANY_WORD = {"policy", "host", "trusted_proxies", "webhook_allow"}
"""Every word may be the name of a policy, or of a machine; of proxies the server knows more."""


def test_every_setting_has_good_and_wrong_values_here():
    assert set(GOOD) == set(names()) == {name for name, _ in WRONG}


@pytest.mark.parametrize("name", names())
def test_a_flag_is_stronger_than_the_environment_the_file_and_the_default(name):
    by_flag, by_environment, by_file = GOOD[name]
    flags, environ, file = {name: by_flag}, {variable(name): str(by_environment)}, {name: by_file}

    def found(**sources):
        loaded = load(**sources)
        ((_, _, source),) = [row for row in loaded.described() if row[0] == name]
        return getattr(loaded, name), source

    by_default = getattr(Settings(), name)
    named = (f"flag {flag(name)}", f"environment variable {variable(name)}")
    assert found(flags=flags, environ=environ, file=file) == (by_flag, named[0])
    assert found(environ=environ, file=file) == (by_environment, named[1])
    assert found(file=file, file_name="my.toml") == (by_file, f"my.toml: {name}")
    assert found() == (by_default, "default")
    assert found(flags={name: None}, environ={}, file={}) == (by_default, "default")
    assert len({by_flag, by_environment, by_file, by_default}) == (2 if name in TWO_ALONE else 4)


@pytest.mark.parametrize("name", names())
def test_a_weaker_source_is_not_even_looked_at(name):
    assert load(flags={name: GOOD[name][0]}, environ={variable(name): ""}, file={name: []})


@pytest.mark.parametrize("name", names())
def test_names_follow_from_the_name(name):
    assert variable(name) == "SEAWALL_" + name.upper()
    assert flag(name) == "--" + name.replace("_", "-")
    meaning, expected = help_for(name)
    assert meaning
    assert expected


@pytest.mark.parametrize("source", ["flag", "my.toml"])
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_with_setting_source_found_and_expected(name, value, source):
    if source == "flag":
        refused(name, value, f"flag {flag(name)}", flags={name: value})
    else:
        refused(name, value, f"my.toml: {name}", file={name: value}, file_name="my.toml")


@pytest.mark.parametrize(("name", "value"), [
    (name, str(value)[:50])
    for name, value in WRONG
    if name not in ANY_WORD or not str(value).strip()
])  # fmt: skip
def test_a_wrong_word_in_the_environment_is_refused_as_well(name, value):
    told = f"environment variable {variable(name)}"
    refused(name, value, told, environ={variable(name): value})


def refused(name, value, told, **given):
    with pytest.raises(SettingError) as refusal:
        load(**given)
    message = str(refusal.value)
    assert message.startswith(f"{name} ({told}): found {repr(value)[:20]}")
    assert f", expected {help_for(name)[1]}" in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize("value", [0.5, 86_400, "0.5", "86400", " 60 ", 1])
def test_a_number_of_seconds_may_be_a_number_or_its_words_up_to_the_bounds(value):
    assert load(environ={"SEAWALL_LEASE_SECONDS": value}).lease_seconds == float(value)


@pytest.mark.parametrize("value", [5, 5.0, "5", " 5 ", "5.0"])
def test_a_whole_number_stays_one_however_it_is_written(value):
    found = load(flags={"concurrency": value}).concurrency
    assert (found, type(found)) == (5, int)


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("url", [
    f"postgresql://ann:{SECRET}@db/jobs",
    f"postgresql://ann:{SECRET}@db:5432/jobs?sslmode=require",
    f"postgresql://db/jobs?user=ann&password={SECRET}",
    f"postgresql://db/jobs?user=ann&password=a@{SECRET}",
    f"postgresql://db/jobs?user=ann&password=a'b@{SECRET}",
    f"postgresql://ann:a/{SECRET}@db/jobs",
    f"postgresql://ann:a@{SECRET}@db/jobs",
    f"postgresql://ann:a?{SECRET}@db/jobs",
    f"postgresql://ann:a#{SECRET}@db/jobs",
    f"postgresql://ann:a'{SECRET}@db/jobs",
    f'postgresql://ann:a"{SECRET}@db/jobs',
    f"postgresql://ann:a {SECRET}@db/jobs",
    f"postgresql://{SECRET}@db/jobs",
])  # fmt: skip
def test_no_secret_of_a_url_is_ever_shown(url):
    rows = load(flags={"url": url}).described()
    ((_, shown, _),) = [row for row in rows if row[0] == "url"]
    assert SECRET not in str(rows)
    assert shown in {"postgresql://db/jobs", "postgresql://db:5432/jobs", "postgresql://…"}
    for wrong in (url.replace("postgresql", "mysql"), url.partition("//")[2], [url], {"at": url}):
        with pytest.raises(SettingError) as refused:
            load(flags={"url": wrong})
        assert SECRET not in str(refused.value)


PASSWORDS = st.text(string.ascii_letters + string.digits + string.punctuation + " ", min_size=1)


@settings(deadline=None, max_examples=200)
@given(PASSWORDS.map(lambda rest: SECRET + rest) | PASSWORDS.map(lambda rest: rest + SECRET))
def test_whatever_a_password_is_made_of_it_is_not_shown(password):
    url = f"postgresql://ann:{password}@db.example/jobs"
    assert SECRET not in str(load(flags={"url": url}).described())
    for wrong in (url[len("postgresql") :], url.upper().replace(SECRET.upper(), SECRET)):
        with pytest.raises(SettingError) as refused:
            load(flags={"url": wrong})
        assert SECRET not in str(refused.value)


def test_what_has_no_password_is_shown_as_it_is():
    given = {"policy": "team@v2", "url": "sqlite:///jobs@home.db"}
    shown = {name: value for name, value, _ in load(flags=given).described()}
    assert (shown["policy"], shown["url"]) == ("team@v2", "sqlite:///jobs@home.db")


# ── The file ─────────────────────────────────────────────────────────────────────────────────────


def refused_file(path):
    with pytest.raises(ConfigurationError) as refused:
        read_file(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_a_file_is_read(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('policy = "ällmänn"\n[policies.x]\n', "utf-8")
    assert read_file(path) == {"policy": "ällmänn", "policies": {"x": {}}}


def test_a_missing_file_that_was_named_is_refused(tmp_path):
    assert "no such file" in refused_file(tmp_path / "none.toml")


def test_the_default_file_may_be_missing(tmp_path):
    default = tmp_path / "seawall.toml"
    assert read_file(None, default=default) == {}
    default.write_text("lease_seconds = 5\n")
    assert read_file(None, default=default) == {"lease_seconds": 5}


def test_a_folder_is_no_file(tmp_path):
    assert "cannot be read: " in refused_file(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"policy = ",
        b"policy: x",
        b"[a\nb]",
        b"a = 1\na = 2",
        b"\xff\xfe\x00",
        b"when = 2026-99-99",
        b"a = " + b"9" * 5_000,
        b"a = " + b"[" * 5_000,
    ],
    ids=[
        "no value",
        "yaml",
        "half a table",
        "twice",
        "bytes",
        "no date",
        "too many digits",
        "deep",
    ],
)
def test_a_file_that_is_not_toml_is_refused_in_one_line(content, tmp_path):
    path = tmp_path / "my.toml"
    path.write_bytes(content)
    assert "is not TOML: " in refused_file(path)


@pytest.mark.parametrize(("key", "near"), [
    ("lease_second", "lease_seconds"), ("lease-seconds", "lease_seconds"), ("uri", "url"),
    ("leaseseconds", "lease_seconds"), ("polices", "policies"), ("polcy", "policy"),
])  # fmt: skip
def test_an_unknown_key_is_refused_with_the_near_one(key, near):
    with pytest.raises(SettingError, match=rf"^my\.toml: {key}: .* did you mean {near}\?$"):
        load(file={key: 1}, file_name="my.toml")


def test_an_unknown_key_near_to_none_is_refused_with_all_there_are():
    with pytest.raises(SettingError) as refused:
        load(file={"zzz": 1})
    assert all(name in str(refused.value) for name in (*names(), "policies"))


def test_the_table_of_policies_is_no_setting():
    assert load(file={"policies": {"x": {}}}) == Settings()


def test_where_a_value_came_from_does_not_make_it_another():
    assert load(flags={"policy": "default"}) == Settings()
