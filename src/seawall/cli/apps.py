"""Finding what a command works on: the application of `--app`, and the store.

The module is looked for from the current directory on. What is wrong with it is said in one line:
whether it is not there, broke while it was imported, or has no such application.
"""

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

import seawall
from seawall import configuration
from seawall.app import Seawall
from seawall.decisions.upstream import Upstream
from seawall.errors import ConfigurationError
from seawall.redact import without_secrets
from seawall.settings import PREFIX, Settings
from seawall.store import Store
from seawall.store.inspect import open_as_is
from seawall.tasks import Task
from seawall.upstreams import Upstreams

LONGEST_LINE = 300
_CONFIG = PREFIX + "CONFIG"
_OURS = str(Path(seawall.__file__).parent)
_EXPECTED = "expected MODULE:APP, such as jobs:app for `app = Seawall()` in jobs.py"

AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:APP",
        envvar=PREFIX + "APP",
        help="The application, found from the current directory on: jobs:app, or jobs where"
        " that module has only one.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Where jobs are kept. Default: $SEAWALL_URL, else sqlite:///seawall.db.",
    ),
]


@dataclass(frozen=True, slots=True)
class Found:
    """What a command works on."""

    store: Store
    settings: Settings
    app: Seawall | None
    said: Mapping[str, Upstream]
    """What is said of upstreams: by the application, or without one by the file."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The tasks that are known here: none without an application."""
        return {} if self.app is None else self.app.tasks

    @property
    def upstreams(self) -> Upstreams:
        """The upstreams in this store; without an application not all may be known of them."""
        return Upstreams(self, self.said, knows=self.app is not None)


@contextmanager
def opened(
    app: str | None, url: str | None, config: str | None, *, write: bool = False
) -> Iterator[Found]:
    """The store that these name, as it stands: nothing is made, nothing brought up to date."""
    with configured_by(config):
        known = None if app is None else loaded(app, url=url)
        if known is None:
            read = configuration.load(config, flags={"url": url})
            settings, said = read.settings, read.upstreams
        else:
            settings, said = known.settings, known.upstreams.said
        listen_url = settings.listen_url or None
        with open_as_is(settings.url, write=write, listen_url=listen_url) as store:
            yield Found(store, settings, known, said)


def settings_of(app: Seawall | None, url: str | None, config: str | None) -> Settings:
    """The application's settings; without one, those of the command line, environment and file."""
    if app is not None:
        return app.settings
    return configuration.load(config, flags={"url": url}).settings


def shown_url(settings: Settings) -> str:
    """Where jobs are kept, without the password."""
    return next(value for name, value, _ in settings.described() if name == "url")


@contextmanager
def configured_by(config: str | None) -> Iterator[None]:
    """`--config`, for applications that are made meanwhile, here and in processes of ours."""
    before = os.environ.get(_CONFIG)
    if config is not None:
        os.environ[_CONFIG] = config
    try:
        yield
    finally:
        if config is not None:
            os.environ.pop(_CONFIG)
            if before is not None:
                os.environ[_CONFIG] = before


def needed(app: str | None, **flags: object) -> Seawall:
    """The application; `ConfigurationError` where none is named."""
    if app is None:
        raise ConfigurationError(f"name the application: --app MODULE:APP, or ${PREFIX}APP")
    return loaded(app, **flags)


def loaded(named: str, **flags: object) -> Seawall:
    """The application of that name, told these settings as well."""
    module_name, _, path = named.partition(":")
    if module_name.endswith(".py"):
        right = module_name.removesuffix(".py").replace("/", ".")
        raise ConfigurationError(f"--app: name the module, not its file: {right}:{path or 'app'}")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigurationError(f"--app: found {named!r:.80}, {_EXPECTED}")
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)
    app = _picked(_imported(module_name), path)
    app.configure(**flags)
    return app


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise ConfigurationError(
                f"--app: there is no module {missing}, neither in {Path.cwd()} nor installed"
            ) from None
        raise ConfigurationError(_broke(name, error)) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
        raise ConfigurationError(_broke(name, error)) from None


def _broke(name: str, error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    line = " ".join(f"{type(error).__name__}: {without_secrets(text)}".split())
    where = _where(error)
    return f"--app: importing {name} broke{where}: {line[:LONGEST_LINE].rstrip(': ')}"


def _where(error: BaseException) -> str:
    """The file and line where it happened; of ours only where there is no other."""
    frames = [
        (frame.filename, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", _OURS))
    ]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    if not frames:
        return ""
    file, line = frames[-1]
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f" at {shown}:{line}"


def _picked(module: ModuleType, path: str) -> Seawall:
    name = module.__name__
    there = {key: each for key, each in vars(module).items() if isinstance(each, Seawall)}
    if not path:
        if len(there) == 1:
            return next(iter(there.values()))
        raise ConfigurationError(f"--app: found {name!r}, {_EXPECTED}; {_said(name, there)}")
    found: object = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(
                f"--app: the module {name} has no {path!r:.80}; {_said(name, there)}"
            ) from None
    if not isinstance(found, Seawall):
        kind = type(found).__name__
        raise ConfigurationError(
            f"--app: {name}:{path} is a {kind}, no Seawall; {_said(name, there)}"
        )
    return found


def _said(module: str, there: Mapping[str, Seawall]) -> str:
    if not there:
        return f"there is no Seawall in {module}"
    return f"there is: {', '.join(f'{module}:{each}' for each in there)}"
