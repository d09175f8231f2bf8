"""Where the jobs of a Django project are kept, and how they get there from a transaction.

PostgreSQL: in the project's own database, and what is enqueued in a transaction is written by that
transaction. Everywhere else: in a store of seawall's own, and what is enqueued in a transaction
waits in a table of the project's database (`outbox`) until that commits. SQLite is of the second
kind, because one process must not have a file open through two SQLite libraries, and a worker has
both: Django's, for the tasks, and seawall's own. In Django's test environment jobs are kept in
memory, whatever the settings say, as mail is.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.connection import ConnectionDoesNotExist

from seawall.errors import ConfigurationError
from seawall.settings import PREFIX

IN_MEMORY = "sqlite://"
_URL = PREFIX + "URL"
_PLAIN_HOST = re.compile(r"[\w.-]+")
_OF_THE_URL = ("user", "password", "host", "port", "dbname")
_NOT_OURS = ("client_encoding", "dbname", "password", "user")


class Place(NamedTuple):
    """Where jobs are kept."""

    url: str
    database: str
    """Django's name of the database whose transactions jobs are part of."""
    direct: bool
    """Whether that database is the store: then a transaction writes its jobs itself."""


def in_tests() -> bool:
    """Whether this is Django's test environment, which has a box for mail instead of a server."""
    return hasattr(mail, "outbox")


def place_of(alias: str, options: Mapping[str, Any]) -> Place:
    """Where the jobs of this backend are kept; `ConfigurationError` where that cannot be told."""
    database = options.get("database", DEFAULT_DB_ALIAS)
    try:
        connection = connections[database]
    except ConnectionDoesNotExist:
        raise ConfigurationError(
            f"TASKS[{alias!r}]: database: found {database!r:.80}, expected a name in DATABASES"
        ) from None
    if in_tests():
        return Place(IN_MEMORY, database, direct=False)
    if options.get("url"):
        return Place(str(options["url"]), database, direct=False)
    if connection.vendor == "postgresql":
        return Place(_postgres(alias, connection), database, direct=True)
    if connection.vendor == "sqlite":
        return Place(_beside(alias, connection), database, direct=False)
    if os.environ.get(_URL):
        return Place(os.environ[_URL], database, direct=False)
    raise ConfigurationError(
        f"TASKS[{alias!r}]: jobs cannot be kept in a database of {connection.vendor}: name a place"
        f' for them in OPTIONS["url"], or in ${_URL}: sqlite:///FILE or postgresql://…'
    )


def _beside(alias: str, connection: Any) -> str:
    """A file beside Django's own, named after it: `db.sqlite3` has `db.seawall.sqlite3`."""
    name = str(connection.settings_dict["NAME"])
    if connection.is_in_memory_db():
        return IN_MEMORY
    if name.startswith("file:") or "?" in name:
        raise ConfigurationError(
            f'TASKS[{alias!r}]: the database is a URI: name a file for jobs in OPTIONS["url"]'
        )
    path = Path(name)
    return f"sqlite:///{path.with_name(f'{path.stem}.seawall{path.suffix}')}"


def _postgres(alias: str, connection: Any) -> str:
    """The address of Django's own database, as libpq takes it."""
    try:
        known = _words_of_libpq()
        given = connection.get_connection_params()
    except ImportError:
        raise ConfigurationError(
            f"TASKS[{alias!r}]: PostgreSQL needs psycopg 3: pip install 'seawall[postgres]'"
        ) from None
    except ImproperlyConfigured as error:
        raise ConfigurationError(f"TASKS[{alias!r}]: {error}") from None
    said = {name: str(value) for name, value in given.items() if name in known and value}
    return url_of(said)


@cache
def _words_of_libpq() -> frozenset[str]:
    from psycopg import pq  # noqa: PLC0415 - an extra

    return frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults())


def url_of(said: Mapping[str, str]) -> str:
    """What libpq is told in words, as an address; the password stands where it is known as one."""
    who = quote(said.get("user", ""), safe="")
    if said.get("password"):
        who += f":{quote(said['password'], safe='')}"
    host, port = said.get("host", ""), said.get("port", "")
    rest = {name: value for name, value in said.items() if name not in _NOT_OURS}
    where = ""
    if not host or _PLAIN_HOST.fullmatch(host):
        where = host + (f":{port}" if host and port else "")
        if host:
            rest = {name: value for name, value in rest.items() if name not in _OF_THE_URL}
    at = f"{who}@" if who else ""
    more = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    return f"postgresql://{at}{where}/{quote(said.get('dbname', ''), safe='')}{more}"
