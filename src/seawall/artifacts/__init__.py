"""Where large outputs of stages are kept, beside the store of jobs.

An artifact is bytes under the SHA-256 of these bytes: the same content has the same address
whoever puts it, is kept once, and cannot change under it. `open_artifacts` gives one of two
keepers with the same promises (`port.Artifacts`): a folder that all workers see (`files`), or a
bucket of any service that speaks S3 (`objects`). How an output's text refers to an artifact is in
`references`.

Protocol. The bytes are put before the job's row that refers to them is written, so a crash in
between leaves an artifact that nobody refers to, never a reference to nothing. Such leftovers, and
those of jobs that were pruned, are found by listing what is kept and since when: whoever sweeps
spares all that is younger than `SPARED_SECONDS`, and `put` makes young again what it finds there.

Nothing here knows jobs, stages or the store of jobs, and no message holds a credential.
"""

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from seawall.artifacts.files import FileArtifacts
from seawall.artifacts.port import (
    LARGEST_ARTIFACT_BYTES,
    RENEWED_AFTER_SECONDS,
    SPARED_SECONDS,
    Address,
    Artifacts,
    Kept,
    address_of,
)
from seawall.artifacts.references import (
    Reference,
    as_inline,
    as_reference,
    inline_in,
    keep,
    recall,
    reference_in,
)
from seawall.errors import SettingError
from seawall.redact import without_secrets

__all__ = [
    "LARGEST_ARTIFACT_BYTES",
    "RENEWED_AFTER_SECONDS",
    "SPARED_SECONDS",
    "Address",
    "Artifacts",
    "FileArtifacts",
    "Kept",
    "Reference",
    "address_of",
    "as_inline",
    "as_reference",
    "inline_in",
    "keep",
    "open_artifacts",
    "recall",
    "reference_in",
]

EXPECTED = "file:///FOLDER, from the root on, or s3://BUCKET/PREFIX"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()=/-]{0,512}")


def open_artifacts(url: str) -> Artifacts:
    """The keeper at this address; nothing is read or written yet, but what is wrong is refused.

    A folder is named from the root on: workers that start in different places must mean the same.
    """
    parts = _parts(url)
    if parts is None or parts.query or parts.fragment or "@" in parts.netloc:
        raise _refused(url)
    path = unquote(parts.path)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        if not path.startswith("/") or not path.strip("/") or "\0" in path:
            raise _refused(url)
        return FileArtifacts(Path(path))
    prefix = path.strip("/")
    steps = prefix.split("/") if prefix else []
    sound = _PREFIX.fullmatch(prefix) and not {"", ".", ".."}.intersection(steps)
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or not sound:
        raise _refused(url)
    # Not before it is asked for: obstore is an extra.
    from seawall.artifacts.objects import open_bucket  # noqa: PLC0415

    return open_bucket(parts.netloc, prefix)


def _parts(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _refused(url: str) -> SettingError:
    shown = "an address with a user or password" if "@" in url else repr(without_secrets(url))[:100]
    return SettingError(f"artifacts_url: found {shown}, expected {EXPECTED}")
