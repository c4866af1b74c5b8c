"""The little that the compiler asks of the machine about its files. Everything else about a cage is decided purely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["file", "directory", "link"]


class Machine(Protocol):
    """Files of the host. No method raises for a path that is not there."""

    def kind(self, path: str) -> Kind | None:
        """What stands at the path itself; None where nothing does or nobody may look. Sockets and devices are files."""
        ...

    def link(self, path: str) -> str:
        """Where the link at the path points, as it is written."""
        ...

    def entries(self, path: str) -> list[str]:
        """The names in a directory."""
        ...

    def runnable(self, path: str) -> bool:
        """Whether somebody may execute the file."""
        ...

    def opening(self, path: str) -> bytes:
        """The first bytes of a file, enough for a line that names its interpreter."""
        ...


class DiskMachine:
    """This machine."""

    def kind(self, path: str) -> Kind | None:
        place = Path(path)
        try:
            if place.is_symlink():
                return "link"
            return "directory" if place.is_dir() else "file" if place.exists() else None
        except OSError:
            return None

    def link(self, path: str) -> str:
        return str(Path(path).readlink())

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 names, not paths
        except OSError:
            return []

    def runnable(self, path: str) -> bool:
        try:
            return bool(Path(path).stat().st_mode & 0o111)
        except OSError:
            return False

    def opening(self, path: str) -> bytes:
        try:
            with Path(path).open("rb") as file:
                return file.read(256)
        except OSError:
            return b""
