"""`seawall settings`: every setting, its value, and where that came from."""

from rich.markup import escape

from seawall import configuration
from seawall.cli import show
from seawall.cli.show import AsJson, ConfigFile


def settings(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List every setting with its value and its source; no password is shown."""
    rows = configuration.load(config).settings.described()
    if as_json:
        names = ("name", "value", "from")
        show.print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    shown = [tuple(map(escape, row)) for row in rows]
    show.console().print(show.table(("SETTING", "VALUE", "FROM"), shown))
