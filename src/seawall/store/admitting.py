"""The verbs of access: who may use the server, and what servers of one store share."""

from seawall.model import need_name, need_span, need_text
from seawall.store import migrate, rows
from seawall.store.access_values import Access, AccessScope, NewAccess
from seawall.store.backend import Backend, Row
from seawall.store.values import MOST_ROWS, need_limit


class Admitting:
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend

    def add_access(self, new: NewAccess) -> Access:
        lasts = None if new.lasts_seconds is None else rows.microseconds(new.lasts_seconds)
        (row,) = self._backend.all(
            "add_access",
            id=new.id,
            digest=new.digest,
            owner=new.owner,
            scope=str(new.scope),
            lasts=lasts,
        )
        return self._access(row)

    def access(self, *, digest: str | None = None, access_id: str | None = None) -> Access | None:
        if (digest is None) == (access_id is None):
            raise ValueError("access: expected a digest, or an id")
        found = self._backend.all("find_access", digest=digest, id=access_id)
        return self._access(found[0]) if found else None

    def accesses(self, *, after: str = "", limit: int = MOST_ROWS) -> list[Access]:
        need_limit(limit)
        return [
            self._access(row) for row in self._backend.all("page_access", after=after, limit=limit)
        ]

    def revoke_access(self, access_id: str) -> bool:
        need_name("id", access_id)
        return bool(self._backend.all("revoke_access", id=access_id))

    def note_access(self, access_id: str, *, every_seconds: float) -> None:
        need_name("id", access_id)
        need_span("every_seconds", every_seconds)
        self._backend.all("note_access", id=access_id, every=rows.microseconds(every_seconds))

    def shared_secret(self, name: str, proposal: str) -> str:
        need_name("name", name)
        need_text("proposal", proposal)
        found = self._backend.all("read_secret", name=name)
        if not found:
            self._backend.all("share_secret", name=name, content=proposal)
            found = self._backend.all("read_secret", name=name)
        return str(found[0][0])

    def need_current(self) -> None:
        migrate.need_up_to_date(self._backend)

    def _access(self, row: Row) -> Access:
        id_, owner, scope, *times, stands = row
        read = (None if time is None else self._backend.read(time) for time in times)
        created_at, expires_at, last_used_at, revoked_at = read
        if created_at is None:
            raise AssertionError("a token was made at some time")
        return Access(
            id_, owner, AccessScope(scope), created_at, expires_at, last_used_at, revoked_at,
            bool(stands),
        )  # fmt: skip
