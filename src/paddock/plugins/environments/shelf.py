"""The environments of this machine: where they stand, which are whole, and which nobody needs any more.

Each is a directory named by the digest of its lock and by what it was built for, so that plugins with equal locks share
one. Beside it stands a note with the digest of its files, written last: without it, a directory does not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.errors import HostError, Unavailable
from paddock.plugins.environments.building import Built, environment_tree, note_of
from paddock.plugins.environments.interpreter import PYTHON, this_interpreter
from paddock.plugins.environments.lock import Ecosystem, Lock
from paddock.plugins.tree import fingerprint


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that is whole."""

    ecosystem: Ecosystem
    root: Path
    programs: dict[str, Path]  # the script of each program

    @property
    def python(self) -> Path:
        """The interpreter of a Python environment; whatever it runs finds the environment's packages."""
        return self.root / PYTHON

    @property
    def site_packages(self) -> list[Path]:
        """Where a Python environment's modules are."""
        return sorted(self.root.glob("lib/python3.*/site-packages"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a version needs: whose packages, by which lock."""

    ecosystem: Ecosystem
    digest: str


@dataclass(frozen=True, slots=True)
class Environments:
    """All environments below one directory. Whoever changes something holds the lock of the plugin store."""

    root: Path

    def place_of(self, lock: Lock) -> Path:
        """Where the environment of a lock stands, or would."""
        return self.root / key_of(Wanted(lock.ecosystem, lock.digest))

    def find(self, wanted: Wanted) -> Environment | None:
        """The environment, if it is there and nobody touched it since it was built."""
        key = key_of(wanted)
        note = self._note(key)
        place = self.root / key
        if note is None:
            return None
        try:
            if fingerprint(place) != note["fingerprint"]:
                return None
        except OSError:
            return None
        return Environment(wanted.ecosystem, place, {name: place / path for name, path in note["programs"].items()})

    def find_for(self, lock: Lock) -> Environment | None:
        """The same, by the lock itself."""
        return self.find(Wanted(lock.ecosystem, lock.digest))

    def require(self, wanted: Wanted, plugin: str) -> Environment:
        """
        Raises:
            Unavailable: it is not there or not whole; starting a plugin never builds one.
        """
        found = self.find(wanted)
        if found is None:
            raise Unavailable(
                f"the environment of {plugin} is not on this machine",
                code="environment.missing",
                hint=f"paddock plugin repair {plugin}",
            )
        return found

    def intact_for(self, lock: Lock) -> bool:
        """Whether every file is as it was built; all of them are read."""
        place = self.place_of(lock)
        note = self._note(place.name)
        if note is None or self.find_for(lock) is None:
            return False
        try:
            return environment_tree(place).digest == note["digest"]
        except (OSError, HostError):
            return False

    def place(self, built: Built, *, replace: bool = False) -> None:
        """Put what was built in its place, unless it is there already. `replace` is for one that is not intact."""
        place = self.place_of(built.lock)
        if not replace and self.find_for(built.lock) is not None:
            return
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove(place.name)
        built.root.rename(place)
        for directory, _, _ in os.walk(place):
            Path(directory).chmod(0o555)
        self._write_note(place.name, note_of(built, fingerprint(place)))

    def sweep(self, used: Iterable[Wanted]) -> None:
        """Remove what nobody uses, and what a killed command left without a note."""
        if not self.root.is_dir():
            return
        kept = {key_of(wanted) for wanted in used}
        for entry in list(self.root.iterdir()):
            key = entry.name.partition(".")[0]
            if key not in kept or self._note(key) is None:
                self._remove(key)
                _remove(entry)

    def _remove(self, key: str) -> None:
        # The note first: what has none is not used.
        (self.root / f"{key}.json").unlink(missing_ok=True)
        _remove(self.root / key)

    def _note(self, key: str) -> dict[str, Any] | None:
        try:
            note = json.loads((self.root / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(note, dict) and {"fingerprint", "digest", "programs"} <= note.keys()  # pyright: ignore[reportUnknownMemberType]
        return note if whole else None  # pyright: ignore[reportUnknownVariableType]

    def _write_note(self, key: str, text: str) -> None:
        unfinished = self.root / f"{key}.{secrets.token_hex(4)}"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(self.root / f"{key}.json")


def key_of(wanted: Wanted) -> str:
    """The name of an environment's directory.

    A Python environment leads to one interpreter and holds what was compiled for it. What npm installs depends on the
    machine alone: nothing is compiled.
    """
    parts = [wanted.ecosystem.value, wanted.digest, platform.machine(), platform.libc_ver()[0]]
    if wanted.ecosystem is Ecosystem.PYTHON:
        interpreter = this_interpreter()
        parts += [interpreter.tag, str(interpreter.path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _remove(place: Path) -> None:
    """Remove a directory whose parts may all be read-only, or a file."""
    if not place.is_dir() or place.is_symlink():
        place.unlink(missing_ok=True)
        return
    for directory, _, _ in os.walk(place):
        with contextlib.suppress(OSError):
            Path(directory).chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)
