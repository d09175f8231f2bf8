"""What an exception says, by the facts that it carries: status, error words, SQLSTATE, errno.

A `Reading` may yield to a cause that says more: a connect error yields to the certificate that
was refused underneath it; a mere wrapper yields to whatever it wraps. Which class is read in
which way stands in `clients`; how a chain of exceptions becomes one fault, in `classify`.
"""

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from seawall.decisions.facts import SAYS_NOTHING, Facts, attribute, told_by
from seawall.faults import FaultCode

_NOT_FROM_A_CAUSE = frozenset(
    {FaultCode.INTERNAL_ERROR, FaultCode.CANCELLED, FaultCode.UNKNOWN, FaultCode.EXPIRED}
)
"""What an exception further down the chain never says about the one on top: it was handled."""
TO_ANY_CAUSE = frozenset(FaultCode) - _NOT_FROM_A_CAUSE
TO_ANOTHER_NATURE = frozenset({FaultCode.UNAUTHORIZED, FaultCode.RESOURCE_EXHAUSTED})
"""What a failed connection yields to: a refused certificate, a lack of our own."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one exception says."""

    code: FaultCode
    ambiguous: bool = False
    yields_to: frozenset[FaultCode] = frozenset()
    """The codes that a cause may outrank it with."""


Reader = Callable[[object, Facts], Reading | None]

TIMEOUT = Reading(FaultCode.TIMEOUT, ambiguous=True)
NOT_SENT = Reading(FaultCode.UNAVAILABLE, yields_to=TO_ANOTHER_NATURE)
CUT_OFF = Reading(FaultCode.UNAVAILABLE, ambiguous=True, yields_to=TO_ANOTHER_NATURE)
SATURATED = Reading(FaultCode.RESOURCE_EXHAUSTED)
WRONG_REQUEST = Reading(FaultCode.INVALID_REQUEST)
BUG = Reading(FaultCode.INTERNAL_ERROR)
CANCELLED = Reading(FaultCode.CANCELLED)
UNTRUSTED = Reading(FaultCode.UNAUTHORIZED)
BUSY = Reading(FaultCode.IO_ERROR)
WRAPPED_TIMEOUT = Reading(FaultCode.TIMEOUT, ambiguous=True, yields_to=TO_ANY_CAUSE)
WRAPPED_TROUBLE = Reading(FaultCode.UNAVAILABLE, ambiguous=True, yields_to=TO_ANY_CAUSE)
BAD_DATA = Reading(FaultCode.INVALID_RESPONSE)

# ---------------------------------------------------------------- statuses and error words

_STATUS_CODES = {
    401: FaultCode.UNAUTHORIZED, 402: FaultCode.QUOTA_EXHAUSTED, 403: FaultCode.UNAUTHORIZED,
    404: FaultCode.NOT_FOUND, 407: FaultCode.UNAUTHORIZED, 408: FaultCode.TIMEOUT,
    409: FaultCode.NOT_READY, 410: FaultCode.NOT_FOUND, 423: FaultCode.NOT_READY,
    425: FaultCode.NOT_READY, 429: FaultCode.RATE_LIMITED, 451: FaultCode.REFUSED,
    511: FaultCode.UNAUTHORIZED, 529: FaultCode.UNAVAILABLE,
}  # fmt: skip
_AMBIGUOUS_STATUSES = frozenset({502, 504})

# Words that outrank whatever status they came with, a 200 included.
_DECISIVE_WORDS = {
    "insufficient_quota": FaultCode.QUOTA_EXHAUSTED,
    "billing_hard_limit_reached": FaultCode.QUOTA_EXHAUSTED,
    "billing_not_active": FaultCode.QUOTA_EXHAUSTED,
    "billing_error": FaultCode.QUOTA_EXHAUSTED,
    "enforced_spend_limit_reached": FaultCode.QUOTA_EXHAUSTED,
    "organization_on_hold": FaultCode.UNAUTHORIZED,
    "invalid_api_key": FaultCode.UNAUTHORIZED,
    "authentication_error": FaultCode.UNAUTHORIZED,
    "permission_error": FaultCode.UNAUTHORIZED,
    "content_filter": FaultCode.REFUSED,
    "content_policy_violation": FaultCode.REFUSED,
    "overloaded_error": FaultCode.UNAVAILABLE,
    "rate_limit_error": FaultCode.RATE_LIMITED,
    "rate_limit_exceeded": FaultCode.RATE_LIMITED,
}
# Words that only speak where no status does: an error in mid-stream has none, or a 200.
_GENERAL_WORDS = {
    "server_error": FaultCode.UPSTREAM_ERROR,
    "api_error": FaultCode.UPSTREAM_ERROR,
    "internal_error": FaultCode.UPSTREAM_ERROR,
    "internal_server_error": FaultCode.UPSTREAM_ERROR,
    "timeout_error": FaultCode.TIMEOUT,
    "invalid_request_error": FaultCode.INVALID_REQUEST,
    "not_found_error": FaultCode.INVALID_REQUEST,
    "request_too_large": FaultCode.INVALID_REQUEST,
}
FIRST_ERROR_STATUS = 400
FIRST_SERVER_STATUS = 500


def code_of_status(status: int) -> FaultCode:
    """What an HTTP error status means, where the response says no more."""
    failed = status >= FIRST_SERVER_STATUS
    general = FaultCode.UPSTREAM_ERROR if failed else FaultCode.INVALID_REQUEST
    return _STATUS_CODES.get(status, general)


def by_status(_: object, facts: Facts) -> Reading | None:
    """What the response says: its error words first, then its status."""
    code = next((_DECISIVE_WORDS[w] for w in _DECISIVE_WORDS if w in facts.words), None)
    status = facts.status if (facts.status or 0) >= FIRST_ERROR_STATUS else None
    if code is None and _is_daily_quota(facts):
        code = FaultCode.QUOTA_EXHAUSTED
    if code is None and status is not None:
        code = code_of_status(status)
    if code is None:
        code = next((_GENERAL_WORDS[w] for w in _GENERAL_WORDS if w in facts.words), None)
    return None if code is None else Reading(code, ambiguous=status in _AMBIGUOUS_STATUSES)


def by_llm_status(exc: object, facts: Facts) -> Reading | None:
    """As `by_status`, but where an LLM says 404 it means a model or route that does not exist."""
    reading = by_status(exc, facts)
    if reading is not None and reading.code is FaultCode.NOT_FOUND:
        return WRONG_REQUEST
    return reading


def by_missing_key(exc: object, _: Facts) -> Reading | None:
    """An SDK's own complaint, before any call, that nobody gave it a key."""
    said = told_by(exc).lower()
    return Reading(FaultCode.CONFIG_MISSING) if "api_key" in said or "credentials" in said else None


def _is_daily_quota(facts: Facts) -> bool:
    """Google's 429 for a per-day quota, which names the quota only in its details."""
    details = attribute(facts.body, "error", "details")
    for detail in details[:20] if isinstance(details, list) else ():
        violations = attribute(detail, "violations")
        for violation in violations[:20] if isinstance(violations, list) else ():
            if "perday" in str(attribute(violation, "quotaId")).lower():
                return True
    return False


def by_status_or_bad_data(exc: object, facts: Facts) -> Reading:
    """An answer that could not be decoded: its status if that is an error, else bad data."""
    is_error = (facts.status or 0) >= FIRST_ERROR_STATUS
    return (by_status(exc, facts) if is_error else None) or BAD_DATA


# ---------------------------------------------------------------- AWS

_AWS_CODES = {
    FaultCode.RATE_LIMITED: {
        "slowdown", "throttling", "throttlingexception", "throttledexception",
        "requestthrottled", "requestthrottledexception", "toomanyrequestsexception",
        "requestlimitexceeded", "provisionedthroughputexceededexception",
        "bandwidthlimitexceeded", "limitexceededexception", "priorrequestnotcomplete",
    },
    FaultCode.QUOTA_EXHAUSTED: {"servicequotaexceededexception"},
    FaultCode.TIMEOUT: {"requesttimeout", "requesttimeoutexception"},
    FaultCode.UPSTREAM_ERROR: {"internalerror", "internalservererror", "internalfailure"},
    FaultCode.UNAVAILABLE: {"serviceunavailable", "serviceunavailableexception"},
    FaultCode.NOT_FOUND: {"nosuchkey", "nosuchbucket", "nosuchupload", "404", "notfound"},
    FaultCode.UNAUTHORIZED: {
        "expiredtoken", "expiredtokenexception", "invalidaccesskeyid", "accessdenied",
        "accessdeniedexception", "signaturedoesnotmatch", "unrecognizedclientexception",
        "invalidtoken", "403",
    },
}  # fmt: skip
_AWS_WORDS = {word: code for code, words in _AWS_CODES.items() for word in words}


def by_aws_code(exc: object, facts: Facts) -> Reading | None:
    """botocore: the error code outranks the status, which may even be 200."""
    word = str(attribute(exc, "response", "Error", "Code") or "").lower()
    code = _AWS_WORDS.get(word)
    if code is None and word.startswith("throttl"):
        code = FaultCode.RATE_LIMITED
    return by_status(exc, facts) if code is None else Reading(code)


# ---------------------------------------------------------------- databases

# The server itself ended the statement and says so: unlike after other timeouts, nothing was done.
ENDED_IN_TIME = Reading(FaultCode.TIMEOUT)
# A failed transaction only repeats that an earlier error failed it, be that even a bug of ours.
ECHO = Reading(FaultCode.UNKNOWN, yields_to=TO_ANY_CAUSE | {FaultCode.INTERNAL_ERROR})
_SQLSTATES = {
    "40001": BUSY, "40P01": BUSY, "55P03": BUSY,
    "40003": Reading(FaultCode.UNAVAILABLE, ambiguous=True),
    "08007": Reading(FaultCode.UNAVAILABLE, ambiguous=True),
    "53300": Reading(FaultCode.UNAVAILABLE), "57P01": Reading(FaultCode.UNAVAILABLE),
    "57P02": Reading(FaultCode.UNAVAILABLE), "57P03": Reading(FaultCode.UNAVAILABLE),
    "25006": Reading(FaultCode.UNAVAILABLE),
    "25P02": ECHO,
    "53100": SATURATED, "53200": SATURATED, "53400": SATURATED,
    "57014": ENDED_IN_TIME, "25P03": ENDED_IN_TIME,
    "3D000": Reading(FaultCode.CONFIG_MISSING), "42501": UNTRUSTED,
}  # fmt: skip
_SQLSTATE_CLASSES = {
    "08": Reading(FaultCode.UNAVAILABLE), "28": UNTRUSTED, "53": SATURATED,
    "22": Reading(FaultCode.INVALID_INPUT), "23": Reading(FaultCode.INVALID_INPUT),
    "42": BUG, "0A": BUG, "26": BUG, "34": BUG, "58": Reading(FaultCode.UPSTREAM_ERROR),
    "XX": Reading(FaultCode.UPSTREAM_ERROR),
}  # fmt: skip
# libpq reports what goes wrong while connecting in words alone.
_CONNECTING = (
    (re.compile(r"authentication failed|no password supplied|no pg_hba"
                r"|role .{1,200} does not exist"), UNTRUSTED),
    (re.compile(r"database .{1,200} does not exist"), Reading(FaultCode.CONFIG_MISSING)),
    (re.compile(r"certificate verify failed"), UNTRUSTED),
    (re.compile(r"server closed the connection|terminating connection|connection is lost"
                r"|consuming input failed|SSL SYSCALL|connection is closed"),
     Reading(FaultCode.UNAVAILABLE, ambiguous=True)),
)  # fmt: skip


def by_sqlstate(exc: object, _: Facts | None = None) -> Reading | None:
    """PostgreSQL's five letters, which psycopg and asyncpg both carry."""
    state = attribute(exc, "sqlstate")
    if not isinstance(state, str) or len(state) != 5:
        return None
    return _SQLSTATES.get(state) or _SQLSTATE_CLASSES.get(state[:2])


def by_libpq(exc: object, _: Facts) -> Reading:
    """An OperationalError: by SQLSTATE, else by what libpq said, else a refused connection."""
    said = told_by(exc)
    found = (reading for pattern, reading in _CONNECTING if pattern.search(said))
    return by_sqlstate(exc) or next(found, NOT_SENT)


_SQLITE_CODES = {
    1: BUG, 3: UNTRUSTED, 5: BUSY, 6: BUSY, 7: SATURATED, 8: UNTRUSTED, 9: CANCELLED,
    10: SATURATED, 11: Reading(FaultCode.INVALID_INPUT), 12: BUG, 13: SATURATED,
    14: Reading(FaultCode.CONFIG_MISSING), 15: BUSY, 17: BUSY, 18: Reading(FaultCode.INVALID_INPUT),
    19: Reading(FaultCode.INVALID_INPUT), 20: Reading(FaultCode.INVALID_INPUT), 21: BUG,
    22: SATURATED, 23: UNTRUSTED, 25: BUG, 26: Reading(FaultCode.INVALID_INPUT),
}  # fmt: skip


def by_sqlite_code(exc: object, _: Facts) -> Reading:
    """SQLite's primary result code; sqlite3 and apsw keep it under different names."""
    for name in ("sqlite_errorcode", "extendedresult", "result"):
        code = attribute(exc, name)
        if isinstance(code, int) and code & 0xFF in _SQLITE_CODES:
            return _SQLITE_CODES[code & 0xFF]
    return BUG


# ---------------------------------------------------------------- the operating system, objects

_OWN_RESOURCES = frozenset(
    {errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EDQUOT, errno.ENOBUFS}
)
_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
)
_PASSING = frozenset(
    {errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.EIO, errno.ESTALE, errno.EDEADLK, errno.ENOLCK}
)
"""What may well be over the next time: busy, interrupted, a disk or share that hiccups."""
_GONE = Reading(FaultCode.UNAVAILABLE)


def by_errno(exc: object, _: Facts) -> Reading | None:
    """An OSError by its number; one without a number, or with any other, says nothing."""
    number = attribute(exc, "errno")
    if not isinstance(number, int):
        return None
    kinds = ((_OWN_RESOURCES, SATURATED), (_UNREACHABLE, _GONE), (_PASSING, BUSY))
    return next((reading for numbers, reading in kinds if number in numbers), None)


_OBJECT_STORE_STATUS = re.compile(r"\bstatus(?: code)?:? ([45]\d\d)\b", re.IGNORECASE)
# The names that its HTTP client has for what went wrong. Every message also lists the settings,
# `retry_timeout` among them, so the mere word "timeout" says nothing.
_OBJECT_STORE_WORDS = (
    (re.compile(r"\binvalid ?(?:peer )?certificate", re.IGNORECASE), UNTRUSTED),
    (re.compile(r"\bkind: Timeout\b|\btimed ?out\b", re.IGNORECASE), TIMEOUT),
    (re.compile(r"\bkind: Connect\b|\b(?:dns|tcp connect) error\b", re.IGNORECASE), NOT_SENT),
    (re.compile(r"\bkind: (?:Request|Interrupted)\b|\bsending request\b", re.IGNORECASE), CUT_OFF),
)  # fmt: skip


def by_object_store_words(exc: object, _: Facts) -> Reading:
    """The GenericError of obstore tells its story in words alone."""
    said = told_by(exc)
    status = _OBJECT_STORE_STATUS.search(said)
    if status is not None:
        number = int(status[1])
        spoken = replace(SAYS_NOTHING, status=number)
        return by_status(exc, spoken) or BUSY
    return next((reading for words, reading in _OBJECT_STORE_WORDS if words.search(said)), BUSY)


def by_attributes(exc: object, facts: Facts) -> Reading | None:
    """For a client that is in no table: a SQLSTATE or an HTTP status speaks for itself."""
    return by_sqlstate(exc) or by_status(exc, facts)
