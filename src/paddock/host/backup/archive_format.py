"""The format of a backup: a tar archive of sections, with a list of all files and their digests at its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from msgspec import Struct, to_builtins

from paddock.config.directories import Directories
from paddock.core.errors import OperatorError
from paddock.core.printable import printable
from paddock.store.database import Engine

FORMAT: Final = 1
CONTENTS_NAME: Final = "paddock-backup.json"
MAX_CONTENTS_BYTES: Final = 256 << 20
DATABASE_PATH: Final = "data/paddock.db"
KEYS_PREFIX: Final = "state/keys/"
BLOBS_PREFIX: Final = "data/packages/"
# Folders that a restore makes beside what it works on.
STAGED_PREFIX: Final = "restoring-"
REPLACED_PREFIX: Final = "before-restore-"

_ENGINES: Final[dict[str, Engine]] = {engine: engine for engine in get_args(Engine)}

EntryKind = Literal["file", "directory", "link"]


class BackupEntry(Struct, frozen=True):
    """A file, directory or symbolic link of the home."""

    path: str  # with its section, as in `data/paddock.db`
    kind: EntryKind
    mode: int
    size: int = 0
    sha256: str = ""
    target: str = ""  # of a link


class BackupContents(Struct, frozen=True):
    """What a backup contains, and what made it."""

    engine: Engine
    version: str
    created_at: str
    entries: tuple[BackupEntry, ...]
    skipped: tuple[str, ...] = ()  # files in plugins' own folders that could not be copied

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def files(self) -> int:
        return sum(entry.kind == "file" for entry in self.entries)

    @property
    def holds_secret_keys(self) -> bool:
        """Whether the wrapping key of the secrets is in it; else it is kept elsewhere, as in a keyring."""
        return any(entry.path.startswith(f"{KEYS_PREFIX}secrets/") for entry in self.entries)

    def to_bytes(self) -> bytes:
        listed = to_builtins(self)
        del listed["skipped"]
        return json.dumps({"format": FORMAT} | listed).encode()


def parse_contents(data: bytes) -> BackupContents:
    """Parse the list at the end of a backup.

    Raises:
        OperatorError: it is of a newer format, or damaged.
    """
    try:
        value = cast("dict[str, Any]", json.loads(data))
        if value["format"] != FORMAT:
            raise OperatorError(
                f"the backup has the format {printable(str(value['format']))}, and this Paddock reads {FORMAT}",
                code="backup.other_format",
                hint="restore it with the version of Paddock that made it, or a newer one",
            )
        entries = tuple(BackupEntry(**entry) for entry in value["entries"])
        return BackupContents(_ENGINES[value["engine"]], str(value["version"]), str(value["created_at"]), entries)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise damaged_error("its list of files cannot be read") from None


def damaged_error(reason: str) -> OperatorError:
    """Return the error for a backup that is not complete and unchanged."""
    return OperatorError(
        f"the backup is damaged: {reason}", code="backup.damaged", hint="nothing was restored; use another backup"
    )


def sections(directories: Directories) -> dict[str, Path]:
    """Return the directories that a backup contains, in the order in which they are copied.

    The state comes first: a checkpoint of the ledger that is newer than the database would look like lost entries.
    """
    return {"state": directories.state, "data": directories.data, "config": directories.config}


def is_left_out(directories: Directories, path: Path) -> bool:
    """Whether a path below a section is no part of a backup: another section, a cache, a lock, or work in progress."""
    name = path.name
    if path in (*directories.all(), directories.restore_journal):
        return True
    if path.parent == directories.data and name in ("staging", "fingerprints", "workshop"):
        return True
    if path.parent == directories.state and name == "logs":
        return True
    # Only beside our own files: packages contain lock files too.
    own_work = name.endswith(".lock") or name.startswith((STAGED_PREFIX, REPLACED_PREFIX))
    return path.parent in directories.all() and own_work
