"""SQLite databases, which need their folder: a journal is made beside the file, and must last as long. Pure."""

from __future__ import annotations

from paddock.cage.plan.host_filesystem import HostFilesystem

DATABASE_SUFFIXES = (".db", ".db3", ".sqlite", ".sqlite3")
_MAGIC = b"SQLite format 3"
_READ_VERSION_OFFSET = 19
_WRITE_AHEAD_LOG = b"\x02"


def is_database(path: str, filesystem: HostFilesystem) -> bool:
    """Whether a file is a SQLite database, or will be one: an empty file with the suffix of one."""
    if filesystem.kind(path) != "file":
        return False
    head = filesystem.read_head(path)
    return head.startswith(_MAGIC) or (not head and path.endswith(DATABASE_SUFFIXES))


def reads_need_folder(path: str, filesystem: HostFilesystem) -> bool:
    """Whether even reading it needs the files beside it: the newest changes are in its write-ahead log."""
    head = filesystem.read_head(path)
    return head.startswith(_MAGIC) and head[_READ_VERSION_OFFSET:][:1] == _WRITE_AHEAD_LOG
