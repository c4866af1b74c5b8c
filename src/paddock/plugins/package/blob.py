"""The package blob: a tree packed into one file that the store keeps and other nodes fetch.

It is an uncompressed tar in which everything but names, executable bits and content is fixed: files sorted by path,
time 0, owner 0, no directories, then `paddock.sig` if there is one. The headers are made here and not by a library, so
the same tree gives the same bytes with every Python, and `unpack_blob` compares headers instead of interpreting them.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from paddock.core.action import Action
from paddock.core.errors import HostError, Invalid, Modified
from paddock.core.printable import printable
from paddock.plugins.package.extract import PackageEntry, extract_entries
from paddock.plugins.package.rules import DEFAULT_LIMITS, SIGNATURE_FILE, PackageValidator
from paddock.plugins.package.tree import PackageTree, TreeFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK_BYTES = 512
_CHUNK_BYTES = 1024 * 1024
_END_OF_ARCHIVE = bytes(2 * _BLOCK_BYTES)
# No link, no owner's name, no device, no prefix.
_USTAR_SUFFIX = bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(167)
_USTAR_SUFFIX_SUM = sum(_USTAR_SUFFIX)


def open_packed_stream(root: Path, tree: PackageTree) -> BinaryIO:
    """Open the blob as a readable stream, so that a store takes it without a copy in between.

    Reading raises Modified if a file is not the one that the tree lists.
    """
    return io.BufferedReader(_ChunkReader(pack_chunks(root, tree)), _CHUNK_BYTES)


def pack_chunks(root: Path, tree: PackageTree) -> Iterator[bytes]:
    """Yield the blob in chunks, none much longer than a megabyte.

    Raises:
        Modified: a file is not the one that the tree lists; the chunks so far are worthless.
    """
    base = os.fspath(root)
    for file in tree.files:
        yield from _pack_file(base, file)
    yield from _pack_signature(base)
    yield _END_OF_ARCHIVE


def unpack_blob(blob: BinaryIO, into: Path, expected: PackageTree) -> None:
    """Write the files of a blob below `into`, which must not exist yet.

    Raises:
        HostError: the blob is not that of `expected`, or the disk refuses. The caller removes what was written.
    """
    try:
        tree = extract_entries(_read_entries(blob, expected), into, PackageValidator(), "the stored package")
    except Invalid as error:
        raise _corrupt_blob_error(str(error)) from error
    if tree.digest != expected.digest:
        raise _corrupt_blob_error("its files do not give the expected digest")


class _ChunkReader(io.RawIOBase):
    """Chunks of bytes, readable as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer)
        filled = 0
        while filled < len(target):
            while not self._rest:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return filled
                self._rest = memoryview(chunk)
            count = min(len(self._rest), len(target) - filled)
            target[filled : filled + count] = self._rest[:count]
            self._rest = self._rest[count:]
            filled += count
        return filled


def _pack_file(base: str, file: TreeFile) -> Iterator[bytes]:
    digest = hashlib.sha256()
    try:
        fd = os.open(f"{base}/{file.path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Modified(f"{printable(file.path)} cannot be read: {error.strerror}") from error
    try:
        header, left = _tar_header(file.path, file.executable, file.size), file.size
        while left and (chunk := os.read(fd, min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
            yield header + chunk if header else chunk
            header = b""
        if left or os.read(fd, 1) or digest.hexdigest() != file.sha256:
            raise Modified(f"{printable(file.path)} changed while it was being packed")
    finally:
        os.close(fd)
    yield header + bytes(-file.size % _BLOCK_BYTES)


def _pack_signature(base: str) -> Iterator[bytes]:
    try:
        fd = os.open(f"{base}/{SIGNATURE_FILE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        content = os.read(fd, DEFAULT_LIMITS.signature_bytes + 1)
    except IsADirectoryError:
        return  # an ordinary directory of that name; its files are in the tree
    finally:
        os.close(fd)
    if len(content) > DEFAULT_LIMITS.signature_bytes:
        raise Modified(f"{SIGNATURE_FILE} is too big for a signature")
    yield _tar_header(SIGNATURE_FILE, False, len(content)) + content + bytes(-len(content) % _BLOCK_BYTES)


def _tar_header(path: str, executable: bool, size: int) -> bytes:
    """Build the tar header of one file, preceded by an extended header if the name is long or not ASCII."""
    mode = 0o755 if executable else 0o644
    if len(path) <= 100 and path.isascii():
        return _ustar_header(path.encode(), mode, size, b"0")
    record = _pax_record(b"path", path.encode())
    extended = _ustar_header(b"pax", 0o644, len(record), b"x") + record + bytes(-len(record) % _BLOCK_BYTES)
    return extended + _ustar_header(path.encode("ascii", "replace")[:100], mode, size, b"0")


def _ustar_header(name: bytes, mode: int, size: int, kind: bytes) -> bytes:
    prefix = name.ljust(100, b"\0") + b"%07o\0" % mode + b"0000000\0" * 2 + b"%011o\0" % size + b"00000000000\0"
    # The checksum counts itself as eight spaces.
    checksum = sum(prefix) + 8 * ord(" ") + kind[0] + _USTAR_SUFFIX_SUM
    return prefix + b"%06o\0 " % checksum + kind + _USTAR_SUFFIX


def _pax_record(key: bytes, value: bytes) -> bytes:
    """`LENGTH key=value`, where the length counts its own digits."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + len(str(len(rest)))
    length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _read_entries(blob: BinaryIO, expected: PackageTree) -> Iterator[PackageEntry]:
    for file in expected.files:
        header = _tar_header(file.path, file.executable, file.size)
        if blob.read(len(header)) != header:
            raise _corrupt_blob_error(f"{printable(file.path)} is not where it should be")
        yield PackageEntry(file.path, file.executable, _content_reader(blob, file.size))
    block = blob.read(_BLOCK_BYTES)
    if block != bytes(_BLOCK_BYTES):
        size = _signature_size(block)
        yield PackageEntry(SIGNATURE_FILE, False, _content_reader(blob, size))
        block = blob.read(_BLOCK_BYTES)
    if block + blob.read(_BLOCK_BYTES + 1) != _END_OF_ARCHIVE:
        raise _corrupt_blob_error("it goes on after its end")


def _signature_size(header: bytes) -> int:
    try:
        size = int(header[124:135], 8)
    except ValueError:
        size = -1
    if not 0 <= size <= DEFAULT_LIMITS.signature_bytes or header != _tar_header(SIGNATURE_FILE, False, size):
        raise _corrupt_blob_error("it contains a file that is not listed")
    return size


def _content_reader(blob: BinaryIO, size: int) -> Callable[[], Iterator[bytes]]:
    def chunks() -> Iterator[bytes]:
        left = size
        while left:
            chunk = blob.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise _corrupt_blob_error("it is cut short")
            left -= len(chunk)
            yield chunk
        padding = -size % _BLOCK_BYTES
        if blob.read(padding) != bytes(padding):
            raise _corrupt_blob_error("it is cut short")

    return chunks


def _corrupt_blob_error(reason: str) -> HostError:
    return HostError(
        f"the stored package is damaged: {reason}",
        code="package.corrupt",
        hint="install the plugin again, from where it came",
        action=Action.of("plugin.install"),
    )
