"""Artifacts in a folder and in a real S3: one suite, then what is particular to each."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seawall.artifacts.objects
import seawall.artifacts.port
from seawall.artifacts import RENEWED_AFTER_SECONDS, address_of, open_artifacts
from seawall.artifacts.files import HIDDEN
from seawall.decisions.classify import classify
from seawall.errors import (
    ArtifactDamagedError,
    ArtifactError,
    ArtifactMissingError,
    ConfigurationError,
    SettingError,
)
from seawall.faults import FaultCode
from tests.support.objects import ACCESS_KEY, SECRET_KEY

KINDS = ("folder", "s3")
DAY = 86_400


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    if request.param == "s3":
        return request.getfixturevalue("s3").new_url()
    return f"file://{tmp_path}/artifacts"


@pytest.fixture
def artifacts(url):
    return open_artifacts(url)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def in_folder(folder):
    return open_artifacts(f"file://{folder}")


def inside(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def all_kept(artifacts):
    return {each.address: each.size for each in artifacts.kept()}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_whatever_goes_in_comes_out(artifacts, data):
    address = artifacts.put(data)
    assert address == address_of(data) == artifacts.put(data)
    assert artifacts.get(address) == data
    assert artifacts.exists(address)


def test_large_content_comes_out_as_well(artifacts):
    data = os.urandom(12 * 1024 * 1024)
    assert artifacts.get(artifacts.put(data)) == data


def test_the_same_content_is_kept_once_and_listed_with_its_size_and_age(artifacts):
    before = datetime.now(UTC)
    one, other = artifacts.put(b"one"), artifacts.put(b"the other")
    artifacts.put(b"one")
    kept = list(artifacts.kept())
    assert {each.address: each.size for each in kept} == {one: 3, other: 9}
    assert len(kept) == 2
    for each in kept:
        assert each.age_seconds(before) == 0 or each.since <= before
        assert each.age_seconds(datetime.now(UTC)) < DAY


def test_what_is_not_there_is_missing_and_the_jobs_fault(artifacts):
    artifacts.put(b"something else")
    address = address_of(b"never put")
    assert not artifacts.exists(address)
    with pytest.raises(ArtifactMissingError, match="is not there") as raised:
        artifacts.get(address)
    assert classify(raised.value).code is FaultCode.NOT_FOUND


def test_nothing_is_listed_where_nothing_was_put(artifacts):
    address = address_of(b"")
    assert (list(artifacts.kept()), artifacts.clear_leftovers()) == ([], 0)
    assert (artifacts.exists(address), artifacts.delete(address)) == (False, False)


def test_what_is_deleted_is_gone_and_deleting_it_again_does_no_harm(artifacts):
    address = artifacts.put(b"for a while")
    assert not artifacts.delete(address, older_than_seconds=3_600)
    assert artifacts.exists(address)
    assert artifacts.delete(address)
    assert not artifacts.delete(address)
    assert not artifacts.exists(address)
    assert list(artifacts.kept()) == []
    assert artifacts.get(artifacts.put(b"for a while")) == b"for a while"


def test_content_that_is_too_large_is_refused_before_anything_is_written(artifacts, monkeypatch):
    monkeypatch.setattr(seawall.artifacts.port, "LARGEST_ARTIFACT_BYTES", 1_000)
    with pytest.raises(ArtifactError, match="1,001 bytes is too large to be kept") as raised:
        artifacts.put(bytes(1_001))
    assert classify(raised.value).code is FaultCode.INVALID_INPUT
    assert list(artifacts.kept()) == []
    artifacts.put(bytes(1_000))


@pytest.mark.parametrize("text", ["../../../etc/passwd", "", "x" * 64])
def test_only_addresses_are_looked_up(artifacts, text):
    for ask in (artifacts.get, artifacts.exists, artifacts.delete):
        with pytest.raises(ValueError, match="hexadecimal"):
            ask(text)


PUTS_ALL = """
import sys
from seawall.artifacts import open_artifacts
artifacts = open_artifacts(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for at in range(8):
    data = bytes([at]) * 200_000
    assert artifacts.get(artifacts.put(data)) == data
"""


def started(program, *words):
    """A process that has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def test_many_processes_put_the_same_content_at_once(url):
    processes = [started(PUTS_ALL, url) for _ in range(4)]
    for each in processes:
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in processes:
        each.communicate(timeout=120)
    assert [each.returncode for each in processes] == [0] * 4
    artifacts = open_artifacts(url)
    assert all_kept(artifacts) == {address_of(bytes([at]) * 200_000): 200_000 for at in range(8)}


# ---------------------------------------------------------------- in a folder


def test_files_are_sharded_whole_and_as_readable_as_the_umask_says(in_folder, folder):
    before = os.umask(0o027)
    try:
        address = in_folder.put(b"content")
    finally:
        os.umask(before)
    (path,) = inside(folder)
    assert path == folder / address[:2] / address[2:4] / address
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
    assert path.read_bytes() == b"content"


def test_content_that_is_there_is_not_written_again(in_folder, folder):
    in_folder.put(b"content")
    (path,) = inside(folder)
    before = path.stat()
    in_folder.put(b"content")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert inside(folder) == [path]


@pytest.mark.parametrize("damage", [b"", b"conten", b"contenT", b"content and more"])
def test_damaged_content_is_never_answered_and_is_mended_by_putting_it_again(
    in_folder, folder, damage
):
    address = in_folder.put(b"content")
    (path,) = inside(folder)
    path.write_bytes(damage)
    with pytest.raises(ArtifactDamagedError, match="is damaged") as raised:
        in_folder.get(address)
    assert classify(raised.value).code is FaultCode.INVALID_INPUT
    in_folder.put(b"content")
    assert in_folder.get(address) == b"content"


def test_what_is_put_again_counts_as_young_and_so_no_sweep_takes_it(in_folder, folder):
    address = in_folder.put(b"content")
    (path,) = inside(folder)
    old = time.time() - RENEWED_AFTER_SECONDS - 60
    os.utime(path, (old, old))
    assert in_folder.delete(address, older_than_seconds=2 * RENEWED_AFTER_SECONDS) is False
    in_folder.put(b"content")
    assert in_folder.delete(address, older_than_seconds=3_600) is False


def test_a_put_is_synced_before_it_is_seen_and_its_folder_after(in_folder, folder, monkeypatch):
    told, synced, replaced = [], os.fsync, Path.replace

    def sync(descriptor):
        told.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        synced(descriptor)

    def replace(self, target):
        told.append("rename")
        return replaced(self, target)

    in_folder.put(b"so that the folders are there")
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    in_folder.put(b"content")
    kept = told[told.index("file") :]
    assert kept[:3] == ["file", "rename", "folder"]


@pytest.mark.parametrize(("number", "code"), [
    (errno.EIO, FaultCode.IO_ERROR), (errno.ESTALE, FaultCode.IO_ERROR),
    (errno.ENOSPC, FaultCode.RESOURCE_EXHAUSTED), (errno.EMFILE, FaultCode.RESOURCE_EXHAUSTED),
    (errno.EACCES, FaultCode.CONFIG_MISSING), (errno.EROFS, FaultCode.CONFIG_MISSING),
])  # fmt: skip
def test_a_disk_in_trouble_is_a_fault_by_its_kind_and_leaves_nothing(
    in_folder, folder, monkeypatch, number, code
):
    def fails(descriptor):
        raise OSError(number, os.strerror(number), "/srv/secret/place")

    monkeypatch.setattr(os, "fsync", fails)
    folder.mkdir()
    with pytest.raises(ArtifactError, match="cannot be written") as raised:
        in_folder.put(b"content")
    assert classify(raised.value).code is code
    assert "secret" not in str(raised.value)
    assert inside(folder) == []


def test_a_file_in_the_place_of_the_folder_is_a_setting_to_mend(in_folder, folder):
    folder.write_text("no folder")
    for ask in (lambda: in_folder.put(b"x"), lambda: in_folder.get(address_of(b"x"))):
        with pytest.raises(ArtifactError, match="see artifacts_url") as raised:
            ask()
        assert classify(raised.value).code is FaultCode.CONFIG_MISSING


def test_strange_files_in_the_folder_are_left_alone(in_folder, folder):
    address = in_folder.put(b"content")
    (folder / "README").write_text("not ours")
    (folder / "ab" / "cd").mkdir(parents=True, exist_ok=True)
    (folder / "ab" / "cd" / "notes.txt").write_text("not ours")
    assert [each.address for each in in_folder.kept()] == [address]
    assert in_folder.clear_leftovers(older_than_seconds=0) == 0
    assert len(inside(folder)) == 3


PUTS_ON_AND_ON = """
import sys
from seawall.artifacts import open_artifacts
artifacts = open_artifacts(sys.argv[1])
print("ready", flush=True)
for at in range(1_000_000):
    print(artifacts.put(at.to_bytes(8, "big") * 100_000), flush=True)
"""


def told_until_killed(url, seconds):
    """What a process had been told was kept when it was killed."""
    process = started(PUTS_ON_AND_ON, url)
    time.sleep(seconds)
    process.kill()
    return [line for line in process.communicate()[0].splitlines() if len(line) == 64]


def at_rest(artifacts):
    """What is kept once a server has dealt with what the killed had sent in full."""
    kept = None
    while kept != (found := all_kept(artifacts)):
        kept = found
        time.sleep(0.5)
    return kept


def test_who_is_killed_in_the_middle_leaves_nothing_that_is_answered(url):
    told = {each for at in range(6) for each in told_until_killed(url, 0.05 + 0.037 * at)}
    artifacts = open_artifacts(url)
    kept = at_rest(artifacts)
    assert told <= set(kept)
    for address in kept:
        assert len(artifacts.get(address)) == 800_000
    artifacts.clear_leftovers(older_than_seconds=0)
    assert set(all_kept(artifacts)) == set(kept)


DIES_AT = """
import os, signal, sys
from pathlib import Path
from seawall.artifacts import open_artifacts
url, last = sys.argv[1], int(sys.argv[2])
steps = 0

def step(name, do):
    def counted(*args):
        global steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return do(*args)
    return counted

os.fsync, Path.replace = step("sync", os.fsync), step("rename", Path.replace)
open_artifacts(url).put(b"content")
"""


def test_who_is_killed_at_any_step_of_a_put_leaves_it_whole_or_not_at_all(in_folder, folder):
    found, address = [], address_of(b"content")
    for last in range(1, 20):
        shutil.rmtree(folder, ignore_errors=True)
        words = [sys.executable, "-c", DIES_AT, f"file://{folder}", str(last)]
        died = subprocess.run(words, check=False).returncode
        found.append(in_folder.exists(address))
        assert all_kept(in_folder) == ({address: 7} if found[-1] else {})
        if found[-1]:
            assert in_folder.get(address) == b"content"
        if died == 0:
            break
    assert found == sorted(found)
    assert found[-1]
    assert not found[0]


def test_leftovers_of_the_killed_are_cleared_once_they_are_old(in_folder, folder):
    address = in_folder.put(b"content")
    (path,) = inside(folder)
    leftover = path.with_name(f"{HIDDEN}1-abc")
    leftover.write_bytes(b"conte")
    assert all_kept(in_folder) == {address: 7}
    assert in_folder.clear_leftovers() == 0
    old = time.time() - 3 * DAY
    os.utime(leftover, (old, old))
    os.utime(path, (old, old))
    assert in_folder.clear_leftovers() == 1
    assert inside(folder) == [path]


# ---------------------------------------------------------------- in a bucket


def test_a_bucket_holds_only_what_is_below_its_prefix(s3):
    url = s3.new_url()
    one, other = open_artifacts(url), open_artifacts(f"{url}/deeper")
    address = one.put(b"content")
    assert not other.exists(address)
    assert list(other.kept()) == []


def test_a_service_that_nobody_reaches_is_trouble_that_passes(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    artifacts = open_artifacts(s3.new_url())
    for ask in (lambda: artifacts.put(b"x"), lambda: artifacts.get(address_of(b"x"))):
        with pytest.raises(ArtifactError, match="the service does not answer") as raised:
            ask()
        assert classify(raised.value).code is FaultCode.IO_ERROR
        assert not classify(raised.value).code.speaks_of_upstream


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_a_key_that_is_not_accepted_is_a_setting_to_mend_and_is_not_told(s3, monkeypatch, name):
    monkeypatch.setenv(name, "wrong-key-2718281828")
    artifacts = open_artifacts(s3.new_url())
    with pytest.raises(ArtifactError, match="access denied; see the AWS_") as raised:
        artifacts.put(b"x")
    assert classify(raised.value).code is FaultCode.CONFIG_MISSING
    told = f"{raised.value} {classify(raised.value)} {artifacts!r}"
    for secret in (SECRET_KEY, ACCESS_KEY, "2718281828"):
        assert secret not in told
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_a_bucket_that_is_not_there_is_a_setting_to_mend(s3):
    artifacts = open_artifacts("s3://never-made/prefix")
    with pytest.raises(ArtifactError, match="not there; see artifacts_url") as raised:
        artifacts.get(address_of(b"x"))
    assert classify(raised.value).code is FaultCode.CONFIG_MISSING


def test_damaged_content_in_a_bucket_is_never_answered_and_cut_short_is_mended(s3):
    import obstore

    artifacts = open_artifacts(s3.new_url())
    address = artifacts.put(b"content")
    obstore.put(artifacts._store, address.path, b"conten")
    with pytest.raises(ArtifactDamagedError, match="is damaged"):
        artifacts.get(address)
    artifacts.put(b"content")
    assert artifacts.get(address) == b"content"


def test_what_is_old_in_a_bucket_is_written_again_and_so_young(s3, monkeypatch):
    artifacts = open_artifacts(s3.new_url())
    address = artifacts.put(b"content")
    written = []
    monkeypatch.setattr(
        type(artifacts), "_write", lambda self, address, data: written.append(address)
    )
    artifacts.put(b"content")
    assert written == []
    monkeypatch.setattr(seawall.artifacts.objects, "RENEWED_AFTER_SECONDS", -1)
    artifacts.put(b"content")
    assert written == [address]


class PlainService(BaseHTTPRequestHandler):
    """An S3 of the older kind: it knows no conditions, and says so."""

    objects: dict
    asked: list

    def do_HEAD(self):
        self._answer(200 if self.path in self.objects else 404)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.headers.get("If-None-Match"))
        if self.headers.get("If-None-Match"):
            self._answer(501)
            return
        self.objects[self.path] = body
        self._answer(200)

    def _answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Tue, 17 Nov 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, *words):
        pass


def test_a_service_without_conditional_writes_is_written_to_plainly(no_aws, monkeypatch):
    handler = type("Handler", (PlainService,), {"objects": {}, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{serving.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        open_artifacts("s3://bucket").put(b"content")
        serving.shutdown()
    assert list(handler.objects.values()) == [b"content"]
    assert handler.asked[0] == "*"
    assert handler.asked[-1] is None


# ---------------------------------------------------------------- which keeper


@pytest.mark.parametrize("url", [
    "", "artifacts", "/srv/artifacts", "file:", "file://", "file:///", "file:artifacts",
    "file://artifacts", "file://host/srv/artifacts", "file:///srv?x=1", "file:///srv#x",
    "file:///srv/%00", "s3:", "s3://", "s3:///prefix", "s3://b", "s3://bucket?x=1", "s3://bu cket",
    "s3://bucket/a//b", "s3://bucket/../b", "s3://bucket/a b", "http://host/bucket", "S3", "s3://[",
])  # fmt: skip
def test_an_address_that_names_no_keeper_is_refused_in_one_line(url):
    with pytest.raises(SettingError, match=r"^artifacts_url: found .*, expected file:") as e:
        open_artifacts(url)
    assert len(str(e.value).splitlines()) == 1


def test_a_password_in_the_address_is_refused_and_not_told():
    for url in ("s3://key:hunter2-Zq@bucket/prefix", "file://u:hunter2-Zq@host/srv"):
        with pytest.raises(SettingError) as refused:
            open_artifacts(url)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "written", ["file://{}/my%20artifacts", "file://localhost{}/my artifacts/"]
)
def test_a_folder_is_named_from_the_root_on(tmp_path, written):
    open_artifacts(written.format(tmp_path)).put(b"content")
    assert len(inside(tmp_path / "my artifacts")) == 1


def test_without_obstore_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'seawall\[s3\]'$"):
        open_artifacts("s3://bucket/prefix")


def test_obstore_is_not_imported_for_a_folder():
    program = (
        "import sys; from seawall.artifacts import open_artifacts; "
        "open_artifacts('file:///nowhere'); sys.exit('obstore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_endpoint_that_is_none_is_refused(no_aws, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "minio:9000")
    with pytest.raises(ConfigurationError, match="AWS_ENDPOINT_URL"):
        open_artifacts("s3://bucket/prefix")
