"""Every error that seawall raises.

    SeawallError                 anything of ours; `except SeawallError` catches all below
    ├── ConfigurationError       a setting or policy that cannot be used: the line says what to mend
    │   ├── SettingError         a setting's value, with its source and what was expected
    │   └── PolicyError          a policy's content, with its place and what is allowed
    │       └── UnknownPolicyError    no policy of that name; the message lists those there are
    ├── StoreError               the store cannot be used as it is; the line says why
    │   ├── StoreUnavailableError    not now: unreachable, locked, too slow; asking again is safe
    │   └── StoreVersionError        made by another version of seawall, or changed by hand
    ├── TransitionError          a move that the state table does not have
    └── FaultError               raised by handlers: "this is what went wrong", already canonical

A store's backend has two errors of its own (`store.backend`), which the ledger turns into answers.
An error's message is one line that says what was wrong and what to do.
"""

from seawall.faults import FaultCode, code_named


class SeawallError(Exception):
    """Anything that seawall raises on purpose."""


class ConfigurationError(SeawallError):
    """Configuration that cannot be used; nothing was changed."""


class SettingError(ConfigurationError):
    """A setting has a value that it cannot have."""


class PolicyError(ConfigurationError, ValueError):
    """A policy says something that it cannot say."""


class UnknownPolicyError(PolicyError, LookupError):
    """No policy has that name."""


class StoreError(SeawallError):
    """The store cannot be used as it is."""


class StoreUnavailableError(StoreError):
    """The store did not answer: it is unreachable, locked by another, out of room, or too slow.

    What was asked may or may not have been done. Asking again is safe: every write of a worker
    names its token, and a job with a key is enqueued once.
    """


class StoreVersionError(StoreError):
    """The store's tables were made by another version of seawall, or were changed by hand."""


class TransitionError(SeawallError):
    """A job was asked to make a move that its state does not have."""


class FaultError(SeawallError):
    """What a handler raises when it already knows the canonical code of what went wrong.

    Raised while a client's exception is handled, it takes that one's Retry-After and request id
    where it has none of its own. `detail` is the application's own word for it
    (`INVALID_MAPPING`), which a public code map may read. `raw_output` is what the upstream
    really said, kept for people to review; it never appears in a message.
    """

    def __init__(
        self,
        code: FaultCode | str,
        message: str = "",
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        request_id: str | None = None,
        detail: str | None = None,
        ambiguous: bool = False,
        raw_output: str | None = None,
    ) -> None:
        self.code = code_named(code)
        super().__init__(message or self.code.meaning)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.request_id = request_id
        self.detail = detail
        self.ambiguous = ambiguous
        self.raw_output = raw_output

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by code and message; an exception is otherwise made anew by message alone."""
        return type(self), (str(self.code), str(self)), self.__dict__
