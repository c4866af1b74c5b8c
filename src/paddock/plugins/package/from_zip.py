"""Reads untrusted zip archives (`.zip`, `.mcpb`, `.dxt`).

The central directory is parsed here, by hand, because what matters is exactly what a lenient reader smooths over: names
with NUL bytes, two names for one entry, two entries over one range, an end record that lies about their number.
Everything is checked before the first byte is unpacked; unpacking then counts, and trusts no declared size. Nested
archives are not opened.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from paddock.core.errors import Invalid, OperatorError, Problem
from paddock.core.printable import printable
from paddock.plugins.package.extract import PackageEntry
from paddock.plugins.package.rules import DEFAULT_LIMITS, PackageLimits, PackageValidator, format_bytes, is_excluded

_END_RECORD = struct.Struct("<4s4H2LH")
_CENTRAL_HEADER = struct.Struct("<4s6H3L5H2L")
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ZIP64_LOCATOR = b"PK\x06\x07"
_MAX_COMMENT_BYTES = 0xFFFF
_ZIP64_SENTINEL = 0xFFFFFFFF
_CHUNK_BYTES = 256 * 1024

_ENCRYPTED_FLAGS = 0x0001 | 0x0040 | 0x2000
_DATA_DESCRIPTOR_FLAG = 0x0008
_STORED, _DEFLATED = 0, 8
_UNICODE_PATH_FIELD = 0x7075


class ZipMember(Struct, frozen=True):
    """One entry of the central directory."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    dos_attributes: int
    offset: int

    @property
    def is_directory(self) -> bool:
        return self.name.endswith("/")


def zip_entries(file: BinaryIO, label: str, limits: PackageLimits = DEFAULT_LIMITS) -> Iterator[PackageEntry]:
    """Yield the files of an archive, after all of it was checked. `file` stays open until the last one is read.

    If every file lies in one top-level folder, as in downloads from code hosts, that folder is stripped: nothing then
    stands at the root, so no manifest does. A folder beginning with a dot (`.vscode`) is content, not a wrapper.

    Raises:
        Invalid: with every problem found, each under the entry's name.
    """
    archive_size = _file_size(file)
    if archive_size > limits.archive_bytes:
        raise _damaged_error(label, f"is larger than {format_bytes(limits.archive_bytes)}", "package.too_big")
    count, directory_size, directory_start = _read_end_record(file, archive_size, label)
    # Directories have entries of their own, so there may be more entries than files.
    if count > limits.files + limits.directories:
        raise _damaged_error(label, f"holds more than {limits.files:,} files", "package.too_many_files")
    if directory_size > (limits.files + limits.directories) * 2_048:
        raise _damaged_error(label, "has a central directory that is far too long", "package.damaged")
    file.seek(directory_start)
    validator = PackageValidator(limits)
    members = _read_central_directory(file.read(directory_size), count, label, validator)
    _check_members(members, validator)
    starts = _check_ranges(file, members, directory_start, validator)
    validator.raise_problems(label)
    files = [member for member in members if not member.is_directory and not is_excluded(member.name)]
    strip_chars = len(_common_root(files))
    return (
        PackageEntry(
            member.name[strip_chars:], bool(member.mode & 0o111), _member_reader(file, member, starts[member.offset])
        )
        for member in files
    )


def _member_reader(file: BinaryIO, member: ZipMember, start: int) -> Callable[[], Iterator[bytes]]:
    return lambda: _read_member(file, member, start)


def open_zip(path: Path) -> BinaryIO:
    """Open an archive for reading.

    Raises:
        OperatorError: it cannot be opened, or is not a regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise OperatorError(f"cannot open {path}: {error.strerror}", code="source.unreadable") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OperatorError(f"{path} is not a regular file", code="source.unreadable")
    return os.fdopen(fd, "rb")


def _file_size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _damaged_error(label: str, message: str, code: str = "package.damaged") -> Invalid:
    return Invalid(f"{label} {message}", [Problem("", message, code=code)], code="package.unsafe")


def _read_end_record(file: BinaryIO, archive_size: int, label: str) -> tuple[int, int, int]:
    """Return the number of entries, and the size and start of the central directory."""
    start = max(0, archive_size - _END_RECORD.size - _MAX_COMMENT_BYTES)
    file.seek(start)
    tail = file.read(archive_size - start)
    positions = [position for position in _occurrences(tail, b"PK\x05\x06") if _comment_fills_tail(tail, position)]
    if not positions:
        raise _damaged_error(label, "is not a zip archive, or its end is missing")
    if len(positions) > 1:
        raise _damaged_error(label, "has two end records, and readers would not agree on its content")
    position = positions[0]
    _, disk, first_disk, disk_count, count, size, offset, _ = _END_RECORD.unpack_from(tail, position)
    if tail[max(0, position - 20) : position][:4] == _ZIP64_LOCATOR:
        raise _damaged_error(label, "is a zip64 archive, which only archives beyond our limits need")
    if disk or first_disk or disk_count != count:
        raise _damaged_error(label, "is split over several volumes")
    if offset + size != start + position:
        raise _damaged_error(label, "has a central directory that is not where its end record says")
    return count, size, offset


def _occurrences(data: bytes, pattern: bytes) -> Iterator[int]:
    position = data.find(pattern)
    while position >= 0:
        yield position
        position = data.find(pattern, position + 1)


def _comment_fills_tail(tail: bytes, position: int) -> bool:
    if position + _END_RECORD.size > len(tail):
        return False
    return position + _END_RECORD.size + _END_RECORD.unpack_from(tail, position)[7] == len(tail)


def _read_central_directory(data: bytes, count: int, label: str, validator: PackageValidator) -> list[ZipMember]:
    members: list[ZipMember] = []
    position = 0
    for _ in range(count):
        if position + _CENTRAL_HEADER.size > len(data) or data[position : position + 4] != b"PK\x01\x02":
            raise _damaged_error(label, "has a damaged central directory")
        row = _CENTRAL_HEADER.unpack_from(data, position)
        flags, method, crc, packed, size = row[3], row[4], row[7], row[8], row[9]
        name_length, extra_length, comment_length = row[10], row[11], row[12]
        position += _CENTRAL_HEADER.size
        raw = data[position : position + name_length]
        extra = data[position + name_length : position + name_length + extra_length]
        position += name_length + extra_length + comment_length
        if position > len(data):
            raise _damaged_error(label, "has a damaged central directory")
        name = _decode_name(raw, extra, validator)
        if name is not None:
            members.append(
                ZipMember(name, raw, flags, method, crc, packed, size, row[15] >> 16, row[15] & 0xFF, row[16])
            )
    if position != len(data):
        raise _damaged_error(label, "has more entries than its end record says")
    return members


def _decode_name(raw: bytes, extra: bytes, validator: PackageValidator) -> str | None:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        validator.add_problem(raw.decode("latin-1"), "has a name that is not UTF-8", "package.unsafe_path")
        return None
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        # In this field the version and a checksum come before the name.
        if kind == _UNICODE_PATH_FIELD and extra[position + 9 : position + 4 + length] != raw:
            validator.add_problem(name, "has a second, different name", "package.unsafe_path")
            return None
        position += 4 + length
    return name


def _check_members(members: list[ZipMember], validator: PackageValidator) -> None:
    """Check every rule that the central directory alone can decide."""
    large_members = [member for member in members if member.size > validator.limits.ratio_exempt]
    for member in members:
        if validator.has_max_problems:
            return
        if member.is_directory:
            validator.add_directory(member.name[:-1])
        else:
            validator.add_file(member.name, member.size)
        fault = _file_type_fault(member)
        if fault is not None:
            validator.add_problem(member.name, fault, "package.not_a_file", "packages hold plain files")
        if member.flags & _ENCRYPTED_FLAGS:
            validator.add_problem(member.name, "is encrypted", "package.encrypted")
        if member.method not in (_STORED, _DEFLATED):
            validator.add_problem(
                member.name, f"uses compression method {member.method}", "package.compression", "use deflate"
            )
        elif member.method == _STORED and member.packed != member.size:
            validator.add_problem(member.name, "is stored, yet declares two sizes", "package.damaged")
    if sum(member.size for member in large_members) > validator.limits.ratio * sum(
        max(1, member.packed) for member in large_members
    ):
        validator.add_problem("", f"unpacks to more than {validator.limits.ratio} times its size", "package.bomb")


def _file_type_fault(member: ZipMember) -> str | None:
    kind = stat.S_IFMT(member.mode)
    if kind == stat.S_IFLNK:
        return "is a symbolic link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a device, pipe or socket"
    says_directory = kind == stat.S_IFDIR or bool(member.dos_attributes & 0x10)
    if says_directory != member.is_directory and (says_directory or kind == stat.S_IFREG):
        return "is a file by its name and a directory by its mode, or the reverse"
    if member.is_directory and member.size:
        return "is a directory with content"
    return None


def _check_ranges(file: BinaryIO, members: list[ZipMember], limit: int, validator: PackageValidator) -> dict[int, int]:
    """Return where each entry's data begins, after checking that its local header matches its entry and that no two
    share a byte."""
    starts: dict[int, int] = {}
    end, previous = 0, ""
    for member in sorted(members, key=lambda each: each.offset):
        if validator.has_max_problems:
            break
        if member.offset < end:
            validator.add_problem(member.name, f"overlaps {printable(previous)}", "package.overlap")
            continue
        start = _find_local_data(file, member, limit)
        if isinstance(start, str):
            validator.add_problem(member.name, start, "package.damaged")
            continue
        starts[member.offset] = start
        end, previous = start + member.packed, member.name
        if end > limit:
            validator.add_problem(member.name, "reaches into the central directory", "package.overlap")
    return starts


def _find_local_data(file: BinaryIO, member: ZipMember, limit: int) -> int | str:
    """Return where the data begins, or what is wrong with the local header."""
    if member.offset + _LOCAL_HEADER.size > limit:
        return "points outside the archive"
    file.seek(member.offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size:
        return "points outside the archive"
    signature, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    if signature != b"PK\x03\x04":
        return "points at something that is not an entry"
    if file.read(name_length) != member.raw_name:
        return "has another name in its local header"
    if method != member.method or (flags ^ member.flags) & (_ENCRYPTED_FLAGS | _DATA_DESCRIPTOR_FLAG):
        return "has a local header that disagrees with the directory"
    declared = [(crc, member.crc), (packed, member.packed), (size, member.size)]
    comparable = [pair for pair in declared if pair[0] != _ZIP64_SENTINEL] if not flags & _DATA_DESCRIPTOR_FLAG else []
    if any(local != central for local, central in comparable):
        return "has a local header that disagrees with the directory"
    return member.offset + _LOCAL_HEADER.size + name_length + extra_length


def _common_root(files: list[ZipMember]) -> str:
    """Return the folder that holds everything, with its slash, or an empty string."""
    top_folders = {member.name.partition("/")[0] for member in files}
    if len(top_folders) != 1 or any("/" not in member.name for member in files):
        return ""
    (top,) = top_folders
    return "" if top.startswith(".") else top + "/"


def _read_member(file: BinaryIO, member: ZipMember, start: int) -> Iterator[bytes]:
    """Yield the content of one member, which must have exactly the declared length and checksum."""
    file.seek(start)
    crc = size = 0
    source = _read_deflated(file, member) if member.method == _DEFLATED else _read_stored(file, member)
    for chunk in source:
        size += len(chunk)
        if size > member.size:
            raise _member_mismatch_error(member, "is longer than it declares")
        crc = zlib.crc32(chunk, crc)
        yield chunk
    if size != member.size:
        raise _member_mismatch_error(member, "is shorter than it declares")
    if crc != member.crc:
        raise _member_mismatch_error(member, "does not match its checksum")


def _read_stored(file: BinaryIO, member: ZipMember) -> Iterator[bytes]:
    left = member.packed
    while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
        left -= len(chunk)
        yield chunk


def _read_deflated(file: BinaryIO, member: ZipMember) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    left = member.packed
    while not inflater.eof:
        packed = inflater.unconsumed_tail or file.read(min(left, _CHUNK_BYTES))
        if not packed:
            raise _member_mismatch_error(member, "is cut short")
        if not inflater.unconsumed_tail:
            left -= len(packed)
        try:
            chunk = inflater.decompress(packed, _CHUNK_BYTES)
        except zlib.error as error:
            raise _member_mismatch_error(member, "cannot be unpacked") from error
        if chunk:
            yield chunk
    if left or inflater.unused_data:
        raise _member_mismatch_error(member, "is followed by bytes that belong to nothing")


def _member_mismatch_error(member: ZipMember, message: str) -> Invalid:
    problem = Problem(printable(member.name), message, code="package.damaged")
    return Invalid(f"the archive is damaged or lies: {problem.path} {message}", [problem], code="package.unsafe")
