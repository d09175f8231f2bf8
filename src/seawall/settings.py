"""Every setting, and where its value came from.

A setting is one field of `Settings`; its flag, environment variable and TOML key follow from its
name, and the strongest that is given wins: flag, environment, file, default. A value that cannot
be used is refused with the setting's name, its source, what was found and what was expected.
"""

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from seawall.errors import ConfigurationError, SettingError
from seawall.redact import one_line, without_secrets

PREFIX = "SEAWALL_"
DEFAULT_FILE = "seawall.toml"
POLICIES_KEY = "policies"
UPSTREAMS_KEY = "upstreams"
"""The two tables of the file that hold no settings."""

Value = str | float | int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a setting's value must be."""

    expected: str
    minimum: float = -math.inf
    maximum: float = math.inf
    starts: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


def _setting(default: Value, help_: str, bounds: Bounds) -> Any:
    return dataclasses.field(default=default, metadata={"help": help_, "bounds": bounds})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What seawall was told, already checked."""

    url: str = _setting(
        "sqlite:///seawall.db",
        "Where jobs are kept.",
        Bounds(
            "sqlite:///FILE or postgresql://…", starts=("sqlite://", "postgresql://", "postgres://")
        ),
    )
    listen_url: str = _setting(
        "",
        "PostgreSQL's own address, for LISTEN, where `url` leads to a pooler such as PgBouncer.",
        Bounds("postgresql://…", starts=("postgresql://", "postgres://")),
    )
    policy: str = _setting(
        "default", "The policy of tasks that name none.", Bounds("the name of a policy")
    )
    lease_seconds: float = _setting(
        60.0,
        "How long a worker may be silent before its jobs are given to another.",
        Bounds("a number of seconds from 0.5 to 86400", 0.5, 86_400.0),
    )
    timeout_seconds: float = _setting(
        900.0,
        "How long one attempt may take, for tasks that say nothing else.",
        Bounds("a number of seconds from 0.001 to 31536000", 0.001, 31_536_000.0),
    )
    inline_seconds: float = _setting(
        30.0,
        "How long a caller that calls now waits at most, retry included, before its job is handed"
        " over.",
        Bounds("a number of seconds from 0.05 to 3600", 0.05, 3_600.0),
    )
    concurrency: int = _setting(
        10,
        "How many jobs a worker runs at once.",
        Bounds("a whole number from 1 to 10000", 1, 10_000),
    )
    poll_seconds: float = _setting(
        1.0,
        "How often an idle worker looks for jobs that nobody told it of.",
        Bounds("a number of seconds from 0.01 to 60", 0.01, 60.0),
    )
    grace_seconds: float = _setting(
        30.0,
        "How long a worker that is told to stop lets its jobs finish before it hands them back.",
        Bounds("a number of seconds from 0 to 86400", 0.0, 86_400.0),
    )
    payload_bytes: int = _setting(
        256 * 1024,
        "How large the arguments of a job may be, as JSON.",
        Bounds("a whole number from 1 to 16777216", 1, 16 * 1024 * 1024),
    )
    artifacts_url: str = _setting(
        "",
        "Where large outputs of stages are kept; without it all stay in the store.",
        Bounds("file:///FOLDER or s3://BUCKET/PREFIX", starts=("file:///", "s3://")),
    )
    inline_bytes: int = _setting(
        64 * 1024,
        "How large an output may be, as JSON, to stay in the store where there are artifacts.",
        Bounds("a whole number from 0 to 16777216", 0, 16 * 1024 * 1024),
    )
    keep_finished_seconds: float = _setting(
        7 * 86_400.0,
        "How long jobs are kept that succeeded, were skipped or cancelled, or failed and were"
        " dismissed.",
        Bounds("a number of seconds from 0 to 3153600000", 0.0, 3_153_600_000.0),
    )
    keep_failed_seconds: float = _setting(
        0.0,
        "How long failed jobs are kept; 0 keeps them until a person has dealt with them.",
        Bounds("a number of seconds from 0 to 3153600000", 0.0, 3_153_600_000.0),
    )
    dead_letters_every: int = _setting(
        10,
        "After how many new dead letters the log says so; 0 is never.",
        Bounds("a whole number from 0 to 1000000", 0, 1_000_000),
    )
    success_goal: float = _setting(
        0.99,
        "The share of jobs that should end well: the dashboard tells how fast failures use up the"
        " rest.",
        Bounds("a number from 0.5 to 0.9999", 0.5, 0.9999),
    )
    trace_url: str = _setting(
        "",
        "Where a trace can be looked at: pages of jobs lead there, with its id for {trace_id}.",
        Bounds("https://… with {trace_id} in it", starts=("https://", "http://")),
    )
    host: str = _setting(
        "127.0.0.1",
        "Where `seawall serve` listens. A public address needs an access token.",
        Bounds("an address of this machine, or a name that leads to one"),
    )
    port: int = _setting(
        8080,
        "The port that `seawall serve` listens on.",
        Bounds("a whole number from 1 to 65535", 1, 65_535),
    )
    trusted_proxies: str = _setting(
        "",
        "The proxies whose X-Forwarded-For and X-Forwarded-Proto `seawall serve` believes.",
        Bounds("addresses or networks, such as 10.0.0.7, 10.1.0.0/16"),
    )
    request_bytes: int = _setting(
        1024 * 1024,
        "How large a request to `seawall serve` may be.",
        Bounds("a whole number from 1024 to 67108864", 1024, 64 * 1024 * 1024),
    )
    requests_per_second: float = _setting(
        500.0,
        "How many requests `seawall serve` answers for one access token, or one address without.",
        Bounds("a number from 0.1 to 1000000", 0.1, 1_000_000.0),
    )
    session_seconds: float = _setting(
        12 * 3_600.0,
        "How long somebody stays signed in to the pages of `seawall serve`.",
        Bounds("a number of seconds from 60 to 31536000", 60.0, 31_536_000.0),
    )
    log_format: str = _setting(
        "text",
        "How `seawall worker` and `seawall serve` log: lines for people, or a JSON object a line.",
        Bounds("text or json", one_of=("text", "json")),
    )
    log_level: str = _setting(
        "info",
        "What they leave out of the log: anything below. debug shows every job and request.",
        Bounds("debug, info, warning or error", one_of=("debug", "info", "warning", "error")),
    )
    webhook_allow: str = _setting(
        "",
        "The hosts and networks that webhooks may lead to although they are not public, and without"
        " HTTPS.",
        Bounds("host names, addresses or networks, such as hooks.internal, 10.1.0.0/16"),
    )
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    def described(self) -> list[tuple[str, str, str]]:
        """Each setting's name, value and source, fit to be shown: no password in a URL."""
        return [
            (name, _shown(name, str(getattr(self, name))), self.sources.get(name, "default"))
            for name in names()
        ]


def names() -> tuple[str, ...]:
    """Every setting's name."""
    return tuple(f.name for f in dataclasses.fields(Settings) if f.name != "sources")


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def flag(name: str) -> str:
    """The command-line flag of a setting."""
    return "--" + name.replace("_", "-")


def help_for(name: str) -> tuple[str, str]:
    """What the setting is for, and what its value must be."""
    metadata = Settings.__dataclass_fields__[name].metadata
    return metadata["help"], metadata["bounds"].expected


def load(
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Mapping[str, object] | None = None,
    file_name: str = DEFAULT_FILE,
) -> Settings:
    """The settings that these sources give, the strongest first: flags, environment, file."""
    flags, environ, file = flags or {}, environ or {}, file or {}
    _refuse_unknown(file, file_name)
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    for name in names():
        for source, found in (
            (f"flag {flag(name)}", flags.get(name)),
            (f"environment variable {variable(name)}", environ.get(variable(name))),
            (f"{file_name}: {name}", file.get(name)),
        ):
            if found is not None:
                values[name] = _checked(name, found, source)
                sources[name] = source
                break
    return Settings(**values, sources=sources)  # type: ignore[arg-type]


def read_file(path: Path | None, *, default: Path = Path(DEFAULT_FILE)) -> dict[str, object]:
    """The configuration file's content: the one named, else the default one where it is there."""
    if path is None and not default.is_file():
        return {}
    chosen = path or default
    try:
        return tomllib.loads(chosen.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{chosen}: no such file") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"{chosen}: cannot be read: {reason.lower()}") from None
    except (ValueError, RecursionError) as error:
        # Not only TOMLDecodeError: bad bytes, endless digits and endless brackets are others.
        raise ConfigurationError(f"{chosen}: is not TOML: {error}") from None


def _refuse_unknown(file: Mapping[str, object], file_name: str) -> None:
    known = (*names(), POLICIES_KEY, UPSTREAMS_KEY)
    for key in file:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise SettingError(f"{file_name}: {one_line(key)}: no such setting; {hint}")


def _checked(name: str, found: object, source: str) -> Value:
    bounds: Bounds = Settings.__dataclass_fields__[name].metadata["bounds"]
    default = Settings.__dataclass_fields__[name].default
    value = found if isinstance(default, str) else _number(found)
    if isinstance(default, int) and isinstance(value, float) and value.is_integer():
        value = int(value)
    good = isinstance(value, type(default)) and not isinstance(value, bool)
    if good and isinstance(value, int | float):
        good = bounds.minimum <= value <= bounds.maximum
    if good and isinstance(value, str):
        good = bool(value.strip()) and (not bounds.starts or value.startswith(bounds.starts))
        good = good and (not bounds.one_of or value in bounds.one_of)
    if not good:
        shown = _shown(name, repr(found))[:100]
        is_table = name == "policy" and isinstance(found, Mapping)
        hint = f"; policies go into [{POLICIES_KEY}.NAME]" if is_table else ""
        raise SettingError(f"{name} ({source}): found {shown}, expected {bounds.expected}{hint}")
    return value  # type: ignore[return-value]


def _shown(name: str, text: str) -> str:
    """A setting's value without secrets, whatever a password in a URL is made of."""
    is_url = bool(Settings.__dataclass_fields__[name].metadata["bounds"].starts)
    head, at, tail = text.rpartition("@")
    if not is_url or not at or text.startswith("sqlite:"):
        return without_secrets(text)
    scheme, mark, _ = head.partition("://")
    start = scheme + mark if mark and scheme.strip("'\"").isalnum() else "…"
    # After a question mark nobody can tell where the password ends.
    return without_secrets(start + ("…" if "?" in head else tail))


def _number(found: object) -> float | None:
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        return float(found)
    except (ValueError, OverflowError):
        return None
