"""`seawall serve`: the API over HTTP."""

import signal
from typing import Annotated, Any

import typer

from seawall.cli import apps, logs, show
from seawall.cli.apps import AppName, Url
from seawall.cli.logs import LogFormat, LogLevel
from seawall.cli.show import ConfigFile
from seawall.errors import ConfigurationError
from seawall.redact import one_line
from seawall.telemetry.otlp import exported

EXAMPLE = "Example: [bold]seawall serve --app jobs:app --port 8080[/bold]"


def serve(
    app: AppName = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Where to listen. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="The port to listen on. Default: 8080.")
    ] = None,
    dev_no_auth: Annotated[
        bool,
        typer.Option(
            "--dev-no-auth",
            help="For development: ask nobody for a token, and answer on loopback only.",
        ),
    ] = False,
    url: Url = None,
    config: ConfigFile = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="Lines for people, or a JSON object a line. Default: text."),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="debug shows every request. Default: info."),
    ] = None,
) -> None:
    """Serve the application's jobs over HTTP until told to stop.

    Who asks shows an access token (`seawall token create`). Ctrl-C or SIGTERM:
    it takes no more requests, finishes those under way and ends with exit code
    0. A second one hurries.
    """
    try:
        from seawall.web.server import Server  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(
            f"the server needs FastAPI and uvicorn: pip install 'seawall[server]'"
            f" ({one_line(str(error))})"
        ) from None
    with apps.configured_by(config):
        flags = {"url": url, "host": host, "port": port}
        found = apps.needed(app, **flags, log_format=log_format, log_level=log_level)
        with logs.shown(found.settings) as style:
            try:
                server = Server(found, open_to_anybody=dev_no_auth)
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: server.stop())
                with exported():
                    server.run(_welcome(style, dev_no_auth))
            finally:
                found.close()


def _welcome(style: LogFormat, open_to_anybody: bool) -> Any:
    def say(address: str) -> None:
        if style is not LogFormat.TEXT:
            return
        show.hint(f"listens on {address}; the API is described in {address}/api/openapi.json")
        if open_to_anybody:
            show.hint("development mode: nobody is asked for a token, everybody is an operator")
        show.hint("Ctrl-C finishes what is under way and stops")

    return say
