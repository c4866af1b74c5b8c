"""Makes the packages that a stranger might send: zips written byte by byte, so that they can lie."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Row:
    """One entry; whatever is left None is told honestly."""

    name: bytes
    content: bytes = b"hello\n"
    mode: int = 0o100644
    flags: int = 0
    method: int = 8
    declared_size: int | None = None
    declared_crc: int | None = None
    local_name: bytes | None = None
    offset_of: int | None = None
    extra: bytes = b""
    dos: int = 0


def write_zip(
    path: Path,
    rows: list[Row],
    *,
    count: int | None = None,
    comment: bytes = b"",
    before_end: bytes = b"",
) -> Path:
    """A zip of these rows; `count` is what the end record claims, `before_end` stands just before that record."""
    body, central, offsets = bytearray(), bytearray(), list[int]()
    for row in rows:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(row.content) + packer.flush() if row.method == 8 else row.content
        size = len(row.content) if row.declared_size is None else row.declared_size
        crc = zlib.crc32(row.content) if row.declared_crc is None else row.declared_crc
        offset = len(body) if row.offset_of is None else offsets[row.offset_of]
        offsets.append(offset)
        if row.offset_of is None:
            name = row.name if row.local_name is None else row.local_name
            body += struct.pack(
                "<4s5H3L2H", b"PK\x03\x04", 20, row.flags, row.method, 0, 0, crc, len(packed), size, len(name), 0
            )
            body += name + packed
        central += struct.pack(
            "<4s6H3L5H2L",
            *(b"PK\x01\x02", 0x0314, 20, row.flags, row.method, 0, 0, crc, len(packed), size),
            *(len(row.name), len(row.extra), 0, 0, 0, (row.mode << 16) | row.dos, offset),
        )
        central += row.name + row.extra
    rows_told = len(rows) if count is None else count
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, rows_told, rows_told, len(central), len(body), len(comment))
    path.write_bytes(bytes(body + central) + before_end + end + comment)
    return path
