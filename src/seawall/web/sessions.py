"""Who is signed in to the pages: a signed cookie that says so, and what guards its writes.

The cookie names an access token and an end; it is worth as much as that token and no longer, so
whoever revokes the token ends its sessions. It is signed with a secret that all servers of the
store share. A browser sends cookies along unasked: so a write that rests on one must also name its
CSRF word, which only the site's own pages can read.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

COOKIE = "seawall_session"
CSRF_HEADER = "x-csrf-token"
SECRET_NAME = "session"  # noqa: S105 - what it is called


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is signed in."""

    access_id: str
    csrf: str


class Sessions:
    """Makes cookies and knows them again."""

    def __init__(self, secret: str, lasts_seconds: float) -> None:
        self._key = secret.encode()
        self.lasts_seconds = lasts_seconds

    def cookie(self, access_id: str, now: float) -> str:
        """A cookie for the bearer of that token."""
        body = f"{access_id}.{int(now + self.lasts_seconds)}.{secrets.token_hex(8)}"
        return f"{body}.{self._signed('session', body)}"

    def known(self, cookie: str, now: float) -> Session | None:
        """Whose cookie it is; None where it is none of ours, or over."""
        body, _, mark = cookie.rpartition(".")
        if not hmac.compare_digest(mark.encode(), self._signed("session", body).encode()):
            return None
        access_id, ends, _ = body.split(".")
        return Session(access_id, self._signed("csrf", body)) if now < int(ends) else None

    def _signed(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}|{text}".encode(), hashlib.sha256).hexdigest()
