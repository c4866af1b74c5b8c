"""Renames of a restore that take effect together: they are recorded before the first, and undone if they were
interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.core.errors import HostError
from paddock.host.backup.archive_format import STAGED_PREFIX
from paddock.store.filesystem import create_private_file, sync_directory


class Move(NamedTuple):
    """A file or directory and its new place, on the same file system."""

    source: Path
    target: Path


class MoveJournal:
    """The record of the moves that are under way. While its file exists, the home is not to be used.

    Args:
        path: Its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def perform(self, moves: Sequence[Move]) -> None:
        """Make all moves, or none. An empty directory at a target is replaced.

        Killed in between, `roll_back` takes back those that were made.

        Raises:
            OSError: one cannot be made.
        """
        self._write(moves)
        try:
            for move in moves:
                if move.target.is_dir() and not move.target.is_symlink():
                    move.target.rmdir()
                move.source.rename(move.target)
            _sync_directories(moves)
        except BaseException:
            self.roll_back()
            raise
        self._remove()  # from here on they are made

    def roll_back(self) -> bool:
        """Take back the moves that were interrupted. Returns whether there were any. Killed meanwhile, call it again.

        Raises:
            HostError: the record is damaged.
        """
        try:
            moves = [Move(Path(source), Path(target)) for source, target in json.loads(self._path.read_bytes())]
        except FileNotFoundError:
            return False
        except (ValueError, TypeError):
            hint = "what was in the home is in its folders before-restore-*"
            raise HostError(f"{self._path} is damaged", code="backup.journal_damaged", hint=hint) from None
        for source, target in reversed(moves):
            if os.path.lexists(target) and not os.path.lexists(source):
                source.parent.mkdir(mode=0o700, exist_ok=True)
                target.rename(source)
        _sync_directories(moves)
        self._remove()
        return True

    def _write(self, moves: Sequence[Move]) -> None:
        temporary = self._path.with_name(f"{STAGED_PREFIX}journal")
        temporary.unlink(missing_ok=True)
        create_private_file(temporary, json.dumps([[str(source), str(target)] for source, target in moves]).encode())
        temporary.rename(self._path)
        sync_directory(self._path.parent)

    def _remove(self) -> None:
        self._path.unlink()
        sync_directory(self._path.parent)


def _sync_directories(moves: Sequence[Move]) -> None:
    for directory in dict.fromkeys(path.parent for move in moves for path in move):
        if directory.is_dir():
            sync_directory(directory)
