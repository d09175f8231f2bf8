"""`seawall token`: access tokens for the server, made, listed and revoked."""

from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from seawall import access
from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Url
from seawall.cli.show import AsJson, ConfigFile, help_when_alone
from seawall.store import Access, AccessScope, Store

EXAMPLE = "Example: [bold]seawall token create --owner ann --expires 30d[/bold]"

app = typer.Typer()


@app.callback(invoke_without_command=True)
def token(context: typer.Context) -> None:
    """Make, list and revoke access tokens for `seawall serve`."""
    help_when_alone(context)


@app.command(epilog=EXAMPLE)
def create(
    owner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose it is: whose jobs it sees, and asks for."),
    ] = None,
    scope: Annotated[
        AccessScope | None,
        typer.Option(
            help="owner: sees and changes the owner's. operator: sees and changes all. read-only: "
            "changes nothing; sees the owner's, or all where no owner is named. "
            "Default: owner.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN", help="30d, 12h, or a moment. Default: it stands until it is revoked."
        ),
    ] = None,
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make an access token and show it, once: nobody can show it again."""
    with apps.opened(application, url, config, write=True) as found:
        store = found.store
        lasts = None if expires is None else when.lasting("--expires", expires, store.now())
        word, kept = access.made(
            store, scope=scope or AccessScope.OWNER, owner=owner, lasts_seconds=lasts
        )
    if as_json:
        show.print_json({**_as_data(kept), "token": word})
        return
    typer.echo(word)
    whose = "" if kept.owner is None else f" of {kept.owner}"
    end = "until it is revoked" if kept.expires_at is None else f"until {_time(kept.expires_at)}"
    show.hint(
        f"this {kept.scope} token{whose} stands {end}; it is not shown again. To end it: "
        f"seawall token revoke {kept.id}"
    )


@app.command(name="list", epilog="Example: [bold]seawall token list --json[/bold]")
def list_(
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the access tokens: whose they are, what they may, when they were used last."""
    with apps.opened(application, url, config) as found:
        listed = sorted(_all(found.store), key=lambda each: (each.created_at, each.id))
        now = found.store.now()
    if as_json:
        show.print_json([_as_data(each) for each in listed])
        return
    if not listed:
        typer.echo("There is no access token. Make one: seawall token create --owner NAME")
        return
    rows = [
        (
            each.id,
            str(each.scope),
            escape(each.owner or ""),
            show.ago(each.created_at, now),
            "" if each.expires_at is None else show.ago(each.expires_at, now),
            "never" if each.last_used_at is None else show.ago(each.last_used_at, now),
            _state(each),
        )
        for each in listed
    ]
    show.listing(("ID", "SCOPE", "OWNER", "CREATED", "EXPIRES", "LAST USED", "STATE"), rows)


@app.command(epilog="Example: [bold]seawall token revoke 3f9a1c20b7de[/bold]")
def revoke(
    access_id: Annotated[
        str, typer.Argument(metavar="ID", help="The token's public part, as `list` shows it.")
    ],
    application: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """End an access token and its sessions, for good. Exit code 1 if there is none that stands."""
    # Whoever pastes the whole token means its public part; the rest need not be kept anywhere.
    public = access_id.split("_")[1] if access.is_token(access_id) else access_id
    with apps.opened(application, url, config, write=True) as found:
        done = bool(public.strip()) and found.store.revoke_access(public)
    if as_json:
        show.print_json({"id": public, "revoked": done})
    elif done:
        typer.echo(f"The token {public} is revoked.")
    if not done:
        raise typer.Exit(show.refusal(f"there is no token {public!r:.80} that could be revoked"))


def _all(store: Store) -> list[Access]:
    listed: list[Access] = []
    while part := store.accesses(after=listed[-1].id if listed else ""):
        listed += part
    return listed


def _state(each: Access) -> str:
    if each.revoked_at is not None:
        return "revoked"
    return "stands" if each.stands else "expired"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _as_data(each: Access) -> dict[str, object]:
    told: dict[str, object] = show.as_data(each)
    del told["stands"]
    return {**told, "state": _state(each)}
