"""Where the jobs of a Django project are kept, and how they get there from a transaction.

PostgreSQL: in the project's own database, and what is enqueued in a transaction is written by that
transaction. Everywhere else: in a store of seawall's own, and what is enqueued in a transaction
waits in a table of the project's database (`waiting`) until that commits. SQLite is of the second
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
from urllib.parse import quote, unquote, urlencode, urlsplit

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.connection import ConnectionDoesNotExist

from seawall.errors import ConfigurationError
from seawall.settings import PREFIX
from seawall.store import file_of
from seawall.store.foreign import file_at

IN_MEMORY = "sqlite://"
ANOTHER_FILE = 'name another file in OPTIONS["url"], or leave it out'
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


def signs_of(options: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells one place from another, and what asks nobody for credentials: those may be others
    each time, and still lead to the same place.
    """
    database = connections.settings.get(options.get("database", DEFAULT_DB_ALIAS), {})
    return (in_tests(), *(str(database.get(name)) for name in ("ENGINE", "NAME", "HOST", "PORT")))


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


def need_a_file_of_its_own(alias: str, place: Place) -> None:
    """`ConfigurationError` where the store is in a file that Django has open itself."""
    for connection in connections.all():
        if connection.vendor == "sqlite" and is_one_file(file_of(place.url), _file(connection)):
            raise ConfigurationError(
                f"the jobs of TASKS[{alias!r}] and DATABASES[{connection.alias!r}] are in one file,"
                " and two SQLite libraries in one process damage it"
            )


def is_one_file(one: str | None, other: str | None) -> bool:
    """Whether both paths lead to one file, be it made or not."""
    if one is None or other is None:
        return False
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    found = file_at(one)
    return found is not None and found == file_at(other)


def _file(connection: Any) -> str | None:
    """The path of the file that a connection to SQLite leads to, if it leads to one."""
    name = str(connection.settings_dict["NAME"])
    if connection.is_in_memory_db():
        return None
    return unquote(urlsplit(name).path) if name.startswith("file:") else name


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
