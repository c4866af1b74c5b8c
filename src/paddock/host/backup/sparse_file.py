"""Sparse files: their holes are neither copied, nor written to a backup, nor filled when they are restored.

A plugin can make a file of terabytes that takes no room. In the archive such a file is a sparse member of the pax
format 1.0, which GNU tar reads too: a list of the regions that hold data, then their bytes.
"""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from msgspec import Struct

_CHUNK_BYTES = 1 << 20
_MEMBER_NAME = "GNUSparseFile.0/data"  # what a reader without sparse files would extract


class Region(Struct, frozen=True):
    """A part of a file that holds data."""

    offset: int
    size: int


def data_regions(file: BinaryIO, size: int) -> Iterator[Region]:
    """Yield the regions of a file that hold data, up to a size. Elsewhere it consists of zeros."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(file.fileno(), offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        end = min(os.lseek(file.fileno(), start, os.SEEK_HOLE), size)
        if start < end:
            yield Region(start, end - start)
        offset = end if start < size else size


def copy_sparse(source: BinaryIO, target: BinaryIO) -> None:
    """Copy a file and its holes. It may change meanwhile."""
    size = os.fstat(source.fileno()).st_size
    for region in data_regions(source, size):
        offset, left = region.offset, region.size
        while left and (data := os.pread(source.fileno(), min(left, _CHUNK_BYTES), offset)):
            target.seek(offset)
            target.write(data)
            offset, left = offset + len(data), left - len(data)
    target.truncate(size)


def is_sparse(regions: Sequence[Region], size: int) -> bool:
    """Whether a file of this size has holes."""
    return sum(region.size for region in regions) < size


def region_list(regions: Sequence[Region]) -> bytes:
    """Return the list of regions, as it precedes the data in the archive."""
    numbers = [len(regions), *(number for region in regions for number in (region.offset, region.size))]
    text = "".join(f"{number}\n" for number in numbers).encode()
    return text + bytes(-len(text) % tarfile.BLOCKSIZE)


def sparse_member(name: str, size: int, regions: Sequence[Region]) -> tuple[str, int, dict[str, str]]:
    """Return the name, size and pax headers of a member whose content is the list of its regions and their data."""
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": name,
        "GNU.sparse.realsize": str(size),
    }
    return _MEMBER_NAME, len(region_list(regions)) + sum(region.size for region in regions), headers


class SparseContent(io.RawIOBase):
    """Reads the content of a sparse member: the list of regions, then their data."""

    def __init__(self, source: BinaryIO, regions: Sequence[Region]) -> None:
        super().__init__()
        self._source = source
        self._list = region_list(regions)
        self._left = [*reversed(regions)]

    def read(self, size: int = -1, /) -> bytes:
        """Read up to so many bytes; fewer only at the end."""
        parts: list[bytes] = []
        while size and (part := self._read_part(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _read_part(self, size: int) -> bytes:
        if self._list:
            part, self._list = self._list[:size], self._list[size:]
            return part
        if not self._left:
            return b""
        region = self._left.pop()
        part = os.pread(self._source.fileno(), min(size, region.size), region.offset)
        if part and len(part) < region.size:
            self._left.append(Region(region.offset + len(part), region.size - len(part)))
        return part


def regions_of(member: tarfile.TarInfo) -> list[Region] | None:
    """Return the regions of a member that was read from an archive; None if it is not sparse.

    Raises:
        ValueError: they overlap, or lie outside the file.
    """
    listed = cast("list[tuple[int, int]] | None", member.sparse)  # the type stubs say `int`
    if listed is None:
        return None
    regions = [Region(offset, size) for offset, size in listed]
    end = 0
    for region in regions:
        if region.offset < end or region.size < 0 or region.offset + region.size > member.size:
            raise ValueError("regions that do not fit into the file")
        end = region.offset + region.size
    return regions
