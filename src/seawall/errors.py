"""Every error that seawall raises.

    SeawallError                 anything of ours; `except SeawallError` catches all below
    ├── ConfigurationError       a setting or policy that cannot be used: the line says what to mend
    │   ├── SettingError         a setting's value, with its source and what was expected
    │   └── PolicyError          a policy's content, with its place and what is allowed
    │       └── UnknownPolicyError    no policy of that name; the message lists those there are
    ├── ArgumentsError           arguments that a task does not take: which, and why
    ├── KeyConflictError         the key is taken by a job with other arguments
    ├── NoSuchJobError           no job has that id, or it was pruned
    ├── NotFinishedError         a job did not end in the time that its caller gave it
    ├── JobEndedError            a job ended without a result
    │   ├── JobFailedError       as failed; `fault` says why
    │   ├── JobSkippedError      as skipped; the message says why
    │   └── JobCancelledError    as cancelled
    ├── StoreError               the store cannot be used as it is; the line says why
    │   ├── StoreUnavailableError    not now: unreachable, locked, too slow; asking again is safe
    │   ├── NotMovedError            its jobs cannot be moved to another store now
    │   └── StoreVersionError        made by another version of seawall, or changed by hand
    ├── TransitionError          a move that the state table does not have
    └── FaultError               raised by handlers: "this is what went wrong", already canonical
        └── ArtifactError        the artifact store: trouble with it, or with one artifact
            ├── ArtifactMissingError    it holds nothing of that address
            └── ArtifactDamagedError    what it holds there is not what was put

    Skip, Snooze                 raised by handlers: no errors, but other ends of an attempt

A store's backend has two errors of its own (`store.backend`), which the ledger turns into answers.
An error's message is one line that says what was wrong and what to do.
"""

from datetime import timedelta
from typing import ClassVar

from seawall.faults import LONGEST_WAIT_SECONDS, Fault, FaultCode, code_named


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


class ArgumentsError(SeawallError, TypeError):
    """A task was given arguments that it does not take; nothing was enqueued."""


class KeyConflictError(SeawallError, ValueError):
    """The task has a job with this key already, and with other arguments."""


class NoSuchJobError(SeawallError, LookupError):
    """No job has that id: it never had one, or the job was pruned."""


class NoSuchWebhookError(SeawallError, LookupError):
    """No webhook has that id."""


class NotRetriedError(SeawallError):
    """A job was not sent again; the message says why, `code` in a word."""

    def __init__(self, message: str, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.code)


class NotFinishedError(SeawallError, TimeoutError):
    """The job has not ended yet, and goes on without its caller."""


class JobEndedError(SeawallError):
    """The job ended, but has no result."""

    def __init__(self, message: str, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.fault = fault

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.fault)


class JobFailedError(JobEndedError):
    """The job failed for good; `fault` says why."""


class JobSkippedError(JobEndedError):
    """The job's handler found nothing to do for it."""


class JobCancelledError(JobEndedError):
    """The job was cancelled."""


class StoreError(SeawallError):
    """The store cannot be used as it is."""


class StoreUnavailableError(StoreError):
    """The store did not answer: it is unreachable, locked by another, out of room, or too slow.

    What was asked may or may not have been done. Asking again is safe: every write of a worker
    names its token, and a job with a key is enqueued once.
    """


class StoreVersionError(StoreError):
    """The store's tables were made by another version of seawall, or were changed by hand."""


class NotMovedError(StoreError):
    """The jobs of a store were not moved to another; the line says what is in the way."""


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
        raw_output: str | bytes | None = None,
    ) -> None:
        self.code = code_named(code)
        super().__init__(message or self.code.meaning)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.request_id = request_id
        self.detail = detail
        self.ambiguous = ambiguous
        if isinstance(raw_output, bytes):
            raw_output = raw_output.decode("utf-8", "replace")
        self.raw_output = None if raw_output is None else str(raw_output)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by code and message; an exception is otherwise made anew by message alone."""
        return type(self), (str(self.code), str(self)), self.__dict__


class ArtifactError(FaultError):
    """The artifact store could not do what it was asked to; its code says whether to ask again.

    None of the codes speaks of an upstream: where a stage's output cannot be kept, the service
    that the stage called is not to blame.
    """

    seawall_call: ClassVar[tuple[str, bool]] = ("", True)
    """At which upstream it happened: at none that is watched over."""


class ArtifactMissingError(ArtifactError, LookupError):
    """The artifact store holds nothing of that address."""


class ArtifactDamagedError(ArtifactError):
    """What the artifact store holds at an address is not what was put there."""


class Skip(Exception):  # noqa: N818 - it is no error
    """What a handler raises when there is nothing to do for this job: it ends as skipped."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Snooze(Exception):  # noqa: N818 - it is no error
    """What a handler raises to be called again later: no try is used up, and nothing has failed."""

    def __init__(self, seconds: float | timedelta) -> None:
        span: object = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if not isinstance(span, int | float) or not 0 <= span <= LONGEST_WAIT_SECONDS:
            raise ValueError(f"Snooze: found {seconds!r:.80}, expected seconds from 0 on")
        self.seconds = float(span)
        super().__init__(self.seconds)
