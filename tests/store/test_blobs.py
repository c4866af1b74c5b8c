"""Blobs are what their name says, on files and on rows."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

from paddock.core.clock import SystemClock
from paddock.core.errors import CallerError, HostError, NotFound, StoreUnavailable
from paddock.store import blobs as blobs_module
from paddock.store.blobs import Blobs, FileBlobs, open_blobs
from paddock.store.database import DirectDatabase, open_direct


@dataclass
class Place:
    """Somewhere blobs are kept, and how to see and spoil it from outside."""

    blobs: Blobs
    database: DirectDatabase
    directory: Path

    def count(self) -> int:
        if self.database.engine == "postgresql":
            return len(self.database.read(lambda tx: tx.all("SELECT digest FROM blobs")))
        return sum(path.is_file() for path in self.directory.rglob("*"))

    def spoil(self, digest: str) -> None:
        if self.database.engine == "postgresql":
            self.database.write(lambda tx: tx.execute("UPDATE blobs SET data = ? WHERE digest = ?", (b"bad", digest)))
        else:
            next(self.directory.rglob(digest.removeprefix("sha256:"))).write_bytes(b"bad")


@pytest.fixture
def place(database_address: str, tmp_path: Path) -> Iterator[Place]:
    with open_direct(database_address) as database:
        directory = tmp_path / "blobs"
        yield Place(open_blobs(database, directory, SystemClock()), database, directory)


CONTENT = bytes(range(256)) * 9000


def test_what_is_put_comes_back_from_bytes_streams_and_files_alike(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "package.zip"
    file.write_bytes(CONTENT)
    digests = {place.blobs.put(CONTENT), place.blobs.put(BytesIO(CONTENT)), place.blobs.put(file)}
    assert digests == {f"sha256:{sha256(CONTENT).hexdigest()}"}
    assert place.count() == 1
    digest = digests.pop()
    assert place.blobs.has(digest)
    with place.blobs.open(digest) as stream:
        assert stream.read() == CONTENT


def test_a_deleted_blob_is_gone_and_deleting_it_again_is_harmless(place: Place) -> None:
    digest = place.blobs.put(b"")
    for _ in range(2):
        place.blobs.delete(digest)
        assert not place.blobs.has(digest)
        with pytest.raises(NotFound):
            place.blobs.open(digest)


def test_a_damaged_blob_is_never_handed_out_and_putting_it_again_repairs_it(place: Place) -> None:
    digest = place.blobs.put(CONTENT)
    place.spoil(digest)
    with pytest.raises(HostError) as damaged:
        place.blobs.open(digest)
    assert damaged.value.error_code == "blob.corrupt"
    assert place.blobs.put(CONTENT) == digest
    place.blobs.open(digest).close()


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "sha256:../../x", "sha256:" + "A" * 64, "sha256:" + "a" * 63])
def test_a_name_that_is_no_digest_never_becomes_a_path(place: Place, name: str) -> None:
    for use in (place.blobs.open, place.blobs.has, place.blobs.delete):
        with pytest.raises(CallerError) as refused:
            use(name)
        assert refused.value.error_code == "blob.name"


def test_a_blob_beyond_the_limit_is_refused_and_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs_module, "MAX_BLOB_BYTES", 1000)
    with pytest.raises(CallerError) as refused:
        place.blobs.put(bytes(1001))
    assert refused.value.error_code == "blob.too_large"
    assert place.count() == 0


def test_files_are_readable_by_nobody_else(tmp_path: Path) -> None:
    FileBlobs(tmp_path / "blobs").put(b"mine")
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "blobs").rglob("*")}
    assert modes == {True: 0o700, False: 0o600}


def test_many_threads_putting_the_same_blob_make_one(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(blobs.put, [CONTENT] * 16))
    assert len(digests) == 1
    assert sum(path.is_file() for path in (tmp_path / "blobs").rglob("*")) == 1


def test_a_disk_that_fills_up_is_reported_and_no_half_blob_stays(tmp_path: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from paddock.core.errors import StoreUnavailable
from paddock.store.blobs import FileBlobs
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    FileBlobs(Path(sys.argv[1])).put(bytes(3_000_000))
except StoreUnavailable as error:
    print(error.error_code)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "blobs")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "store.full\n"
    assert not any(path.is_file() for path in (tmp_path / "blobs").rglob("*"))


def test_a_process_killed_while_it_puts_leaves_no_blob_that_is_not_whole(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from paddock.store.blobs import FileBlobs
FileBlobs(Path(sys.argv[1])).put(sys.stdin.buffer)
"""
    directory = tmp_path / "blobs"
    with subprocess.Popen([sys.executable, "-c", program, str(directory)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        # It has read the first of these when it asks for the last, which never comes.
        process.stdin.write(bytes(4 * 1024 * 1024))
        process.stdin.flush()
        process.kill()
    kept = [path for path in directory.rglob("*") if path.is_file()]
    assert all(path.name.startswith("draft-") for path in kept)
    assert not os.path.lexists(directory / sha256(bytes(4 * 1024 * 1024)).hexdigest()[:2])


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        FileBlobs(tmp_path / "file" / "blobs").put(b"x")
