"""Artifacts as files in a folder that all workers see: a local disk, or a shared one.

Promise. A file under its final name is whole and synced to the disk. It is written under another
name beside it, synced, renamed, and then the folder is synced, so whoever is killed at any moment
leaves at most a hidden leftover that no `get` answers. Two who write the same content each rename
a whole file of their own; the last one wins, and nobody can tell the difference.

Permissions are what the process's umask says, for files as for folders.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
from seawall.errors import ArtifactError
from seawall.faults import FaultCode

HIDDEN = ".put-"
"""How the name of a file begins that is being written."""

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_EXHAUSTED = frozenset(
    {errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, getattr(errno, "EDQUOT", -1)}
)
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.EISDIR})


class FileArtifacts:
    """A folder of artifacts; it is made when something is first put."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._synced: set[Path] = set()  # at most as many as there are folders below the root

    def __repr__(self) -> str:
        return f"FileArtifacts({str(self.folder)!r})"

    def put(self, data: bytes) -> Address:
        """As `Artifacts.put`."""
        address = checked(data)
        path = self._path(address)
        with _trouble("written"):
            if self._holds(path, data):
                _renew(path)
            else:
                _made(path.parent)
                _written(path, data)
            self._sync(path.parent)
        return address

    def get(self, address: Address) -> bytes:
        """As `Artifacts.get`."""
        with _trouble("read"):
            try:
                with self._path(address).open("rb") as file:
                    data = file.read(LARGEST_ARTIFACT_BYTES + 1)
            except FileNotFoundError:
                missing(address)
        return sound(data, address)

    def exists(self, address: Address) -> bool:
        """As `Artifacts.exists`."""
        with _trouble("read"):
            try:
                self._path(address).stat()
            except FileNotFoundError:
                return False
        return True

    def delete(self, address: Address, *, older_than_seconds: float = 0.0) -> bool:
        """As `Artifacts.delete`."""
        with _trouble("written"):
            return _removed(self._path(address), older_than_seconds)

    def kept(self) -> Iterator[Kept]:
        """As `Artifacts.kept`."""
        for entry in self._files():
            found = _found(entry)
            if found is not None:
                yield found

    def clear_leftovers(self, *, older_than_seconds: float = SPARED_SECONDS) -> int:
        """As `Artifacts.clear_leftovers`."""
        with _trouble("written"):
            return sum(
                _removed(Path(entry), older_than_seconds)
                for entry in self._files()
                if entry.name.startswith(HIDDEN)
            )

    def _path(self, address: Address) -> Path:
        return self.folder / Address(address).path

    def _holds(self, path: Path, data: bytes) -> bool:
        """Whether these very bytes are there: a damaged file is to be written again."""
        try:
            with path.open("rb") as file:
                same_size = os.fstat(file.fileno()).st_size == len(data)
                return same_size and file.read(len(data) + 1) == data
        except FileNotFoundError:
            return False

    def _sync(self, folder: Path) -> None:
        """See to it that the names from the root down are on the disk, whoever wrote them."""
        _sync_folder(folder)
        if folder not in self._synced:
            _sync_folder(folder.parent)
            _sync_folder(self.folder)
            self._synced.add(folder)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        for shelf in _entries(self.folder):
            for folder in _entries(shelf.path):
                yield from _entries(folder.path)


def _made(folder: Path) -> None:
    """The folder with all above it, each of them synced into the one that holds it."""
    wanting = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(wanting):
        each.mkdir(exist_ok=True)
        _sync_folder(each.parent)


def _found(entry: os.DirEntry[str]) -> Kept | None:
    """The artifact that a file is; None where it is none, or has just gone."""
    with _trouble("read"):
        try:
            address, about = Address(entry.name), entry.stat()
        except (ValueError, FileNotFoundError):
            return None
    return Kept(address, about.st_size, _moment(about.st_mtime))


def _written(path: Path, data: bytes) -> None:
    """The file, whole and synced under its name, or not there at all."""
    beside = path.with_name(f"{HIDDEN}{os.getpid()}-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # No `tempfile`: its files are for their owner alone, whatever the umask says.
    descriptor = os.open(beside, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _renew(path: Path) -> None:
    """Count as put just now; where that is not allowed, or it has just gone, it stays as it is."""
    with suppress(OSError):
        if _now() - _moment(path.stat().st_mtime) > timedelta(seconds=RENEWED_AFTER_SECONDS):
            os.utime(path)


def _removed(path: Path, older_than_seconds: float) -> bool:
    try:
        age = _now() - _moment(path.stat().st_mtime)
        if age < timedelta(seconds=older_than_seconds):
            return False
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder, which may be none, or gone by now."""
    with _trouble("read"):
        try:
            with os.scandir(folder) as found:
                return list(found)
        except (FileNotFoundError, NotADirectoryError):
            return []


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # There a folder cannot be opened, and renaming is synced by itself.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # said by file systems that have nothing to sync
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _trouble(done: str) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        code = FaultCode.IO_ERROR
        if error.errno in _DENIED or error.errno in _NO_FOLDER:
            code = FaultCode.CONFIG_MISSING
        elif error.errno in _EXHAUSTED:
            code = FaultCode.RESOURCE_EXHAUSTED
        reason = (error.strerror or type(error).__name__).lower()
        raise ArtifactError(
            code, f"the folder of artifacts cannot be {done}: {reason}; see artifacts_url"
        ) from None


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
