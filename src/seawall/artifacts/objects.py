"""Artifacts as objects in a bucket of any service that speaks S3, through obstore.

Settings are the usual ones of the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3) and their kin; without
keys, the role of the machine or container. Profiles in files are not read.

Promise. An object is written in one request, so it is there wholly or not at all, and a killed
writer leaves nothing. Where the service can, the write is conditional: who comes second is told
that it is there. What the service says is never repeated in an error, as it may quote credentials:
only its status is.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from seawall.artifacts.port import (
    LARGEST_ARTIFACT_BYTES,
    RENEWED_AFTER_SECONDS,
    SPARED_SECONDS,
    Address,
    Kept,
    checked,
    missing,
    sound,
)
from seawall.errors import ArtifactError, ConfigurationError
from seawall.faults import FaultCode

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Config, S3Store

CONNECT_SECONDS = 5
REQUEST_SECONDS = 300
"""How long the largest artifact may take on its way."""
RETRIES = 2
RETRY_SECONDS = 10
"""obstore's own retries are few and short: the job's policy knows better how to wait."""

_STATUS = re.compile(r"\bstatus(?: code)?:? ([45]\d\d)\b", re.IGNORECASE)
_CANNOT = "501"
"""What a service answers to a write on a condition that it does not know."""
_NO_BUCKET = re.compile(r"\bNoSuchBucket\b")
_NO_KEYS = re.compile(r"\b(?:credential|metadata endpoint|169\.254\.169\.254)", re.IGNORECASE)


def open_bucket(bucket: str, prefix: str = "") -> "ObjectArtifacts":
    """The artifacts in a bucket, below a prefix; nothing is asked of the service yet."""
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra
        from obstore.store import S3Store  # noqa: PLC0415 - as above
    except ImportError:
        raise ConfigurationError(
            "artifacts_url: s3:// needs obstore: pip install 'seawall[s3]'"
        ) from None
    config: S3Config = {"conditional_put": "etag"}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint and not endpoint.startswith(("https://", "http://")):
        raise ConfigurationError("AWS_ENDPOINT_URL: expected http://… or https://…")
    if endpoint:
        config["endpoint"] = endpoint
    try:
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": f"{CONNECT_SECONDS}s",
                "timeout": f"{REQUEST_SECONDS}s",
            },
            retry_config={
                "max_retries": RETRIES,
                "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            },
        )
    except (BaseError, ValueError):  # Their words may hold what stands in the settings.
        raise ConfigurationError(
            "artifacts_url: an AWS_… setting of the environment cannot be used"
        ) from None
    return ObjectArtifacts(store)


class ObjectArtifacts:
    """A bucket of artifacts, or the part of one below a prefix."""

    def __init__(self, store: "S3Store") -> None:
        self._store = store

    def __repr__(self) -> str:
        return "ObjectArtifacts()"

    def put(self, data: bytes) -> Address:
        """As `Artifacts.put`."""
        address = checked(data)
        found = self._found(address)
        if found is None:
            self._write_new(address, data)
        elif found["size"] != len(data) or _age_seconds(found) > RENEWED_AFTER_SECONDS:
            self._write(address, data)
        return address

    def get(self, address: Address) -> bytes:
        """As `Artifacts.get`."""
        from obstore import get  # noqa: PLC0415 - an extra

        with _trouble("read"):
            try:
                answer = get(self._store, Address(address).path)
                if answer.meta["size"] > LARGEST_ARTIFACT_BYTES:
                    return sound(b"", address)
                data = bytes(answer.bytes())
            except FileNotFoundError as error:
                _refuse_no_bucket(error)
                missing(address)
        return sound(data, address)

    def exists(self, address: Address) -> bool:
        """As `Artifacts.exists`."""
        return self._found(address) is not None

    def delete(self, address: Address, *, older_than_seconds: float = 0.0) -> bool:
        """As `Artifacts.delete`."""
        from obstore import delete  # noqa: PLC0415 - an extra

        found = self._found(address)
        if found is None or _age_seconds(found) < older_than_seconds:
            return False
        with _trouble("written"), suppress(FileNotFoundError):
            delete(self._store, Address(address).path)
        return True

    def kept(self) -> Iterator[Kept]:
        """As `Artifacts.kept`."""
        from obstore import list as pages_of  # noqa: PLC0415 - an extra

        with _trouble("read"):
            pages = iter(pages_of(self._store))
        while True:
            with _trouble("read"):
                page = next(pages, None)
            if page is None:
                return
            for found in page:
                with suppress(ValueError):
                    address = Address(found["path"].rpartition("/")[2])
                    if found["path"].endswith(address.path):
                        yield Kept(address, found["size"], found["last_modified"])

    def clear_leftovers(self, *, older_than_seconds: float = SPARED_SECONDS) -> int:
        """As `Artifacts.clear_leftovers`: there are none, as nothing is written in parts."""
        del older_than_seconds
        return 0

    def _found(self, address: Address) -> "ObjectMeta | None":
        from obstore import head  # noqa: PLC0415 - an extra

        with _trouble("read"):
            try:
                return head(self._store, Address(address).path)
            except FileNotFoundError:
                return None

    def _write_new(self, address: Address, data: bytes) -> None:
        """Write what was not there a moment ago; another may have been quicker."""
        from obstore import put  # noqa: PLC0415 - an extra
        from obstore.exceptions import (  # noqa: PLC0415 - as above
            AlreadyExistsError,
            GenericError,
            NotSupportedError,
            PreconditionError,
        )

        with _trouble("written"):
            try:
                put(self._store, address.path, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return
            except (NotSupportedError, NotImplementedError):
                self._write(address, data)
            except GenericError as error:
                if _status_in(error) != _CANNOT:
                    raise
                self._write(address, data)

    def _write(self, address: Address, data: bytes) -> None:
        from obstore import put  # noqa: PLC0415 - an extra

        with _trouble("written"):
            put(self._store, address.path, data, use_multipart=False)


def _age_seconds(found: "ObjectMeta") -> float:
    return (datetime.now(UTC) - found["last_modified"]).total_seconds()


def _refuse_no_bucket(error: FileNotFoundError) -> None:
    """A bucket that is not there is a setting to mend, and no missing artifact."""
    if _NO_BUCKET.search(str(error)):
        raise ArtifactError(
            FaultCode.CONFIG_MISSING, "the bucket of artifacts is not there; see artifacts_url"
        ) from None


@contextmanager
def _trouble(done: str) -> Iterator[None]:
    """Turn obstore's errors into ours, in words of our own."""
    from obstore.exceptions import (  # noqa: PLC0415 - an extra
        BaseError,
        PermissionDeniedError,
        UnauthenticatedError,
    )

    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError):
        code, reason = FaultCode.CONFIG_MISSING, "access denied; see the AWS_… settings"
    except FileNotFoundError:
        code, reason = FaultCode.CONFIG_MISSING, "the bucket is not there; see artifacts_url"
    except (BaseError, OSError) as error:
        code, reason = _read(error)
    else:
        return
    raise ArtifactError(code, f"the bucket of artifacts cannot be {done}: {reason}") from None


def _read(error: Exception) -> tuple[FaultCode, str]:
    """What an error that has only words comes to."""
    status = _status_in(error)
    if status is not None:
        return FaultCode.IO_ERROR, f"the service answered {status}"
    if _NO_KEYS.search(str(error)):
        return FaultCode.CONFIG_MISSING, "no credentials; see the AWS_… settings"
    return FaultCode.IO_ERROR, "the service does not answer"


def _status_in(error: Exception) -> str | None:
    found = _STATUS.search(str(error))
    return None if found is None else found[1]
