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
from paddock.core.ids import PluginName
from paddock.plugins.environments.build import BuiltEnvironment, completion_record, scan_environment
from paddock.plugins.environments.lock import Ecosystem, Lock, read_python_lock
from paddock.plugins.environments.npm_lock import read_npm_lock
from paddock.plugins.environments.python_env import VENV_PYTHON, host_interpreter
from paddock.plugins.package.tree import fingerprint
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that is whole."""

    ecosystem: Ecosystem
    root: Path
    programs: dict[str, Path]  # the script of each program

    @property
    def python(self) -> Path:
        """The interpreter of a Python environment; whatever it runs finds the environment's packages."""
        return self.root / VENV_PYTHON

    @property
    def site_packages(self) -> list[Path]:
        """Where a Python environment's modules are."""
        return sorted(self.root.glob("lib/python3.*/site-packages"))


@dataclass(frozen=True, slots=True)
class EnvironmentKey:
    """What a version needs: whose packages, by which lock."""

    ecosystem: Ecosystem
    digest: str


@dataclass(frozen=True, slots=True)
class EnvironmentStore:
    """All environments below one directory. Whoever changes something holds the lock of the plugin store."""

    root: Path

    def path_for(self, lock: Lock) -> Path:
        """Where the environment of a lock stands, or would."""
        return self.root / directory_name(EnvironmentKey(lock.ecosystem, lock.digest))

    def find(self, wanted: EnvironmentKey) -> Environment | None:
        """The environment, if it is there and nobody touched it since it was built."""
        key = directory_name(wanted)
        note = self._read_record(key)
        place = self.root / key
        if note is None:
            return None
        try:
            if fingerprint(place) != note["fingerprint"]:
                return None
        except OSError:
            return None
        return Environment(wanted.ecosystem, place, {name: place / path for name, path in note["programs"].items()})

    def find_by_lock(self, lock: Lock) -> Environment | None:
        """The same, by the lock itself."""
        return self.find(EnvironmentKey(lock.ecosystem, lock.digest))

    def require(self, wanted: EnvironmentKey, plugin: str) -> Environment:
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

    def is_intact(self, lock: Lock) -> bool:
        """Whether every file is as it was built; all of them are read."""
        place = self.path_for(lock)
        note = self._read_record(place.name)
        if note is None or self.find_by_lock(lock) is None:
            return False
        try:
            return scan_environment(place).digest == note["digest"]
        except (OSError, HostError):
            return False

    def put(self, built: BuiltEnvironment, *, replace: bool = False) -> None:
        """Put what was built in its place, unless it is there already. `replace` is for one that is not intact."""
        place = self.path_for(built.lock)
        if not replace and self.find_by_lock(built.lock) is not None:
            return
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove(place.name)
        built.root.rename(place)
        for directory, _, _ in os.walk(place):
            Path(directory).chmod(0o555)
        self._write_record(place.name, completion_record(built, fingerprint(place)))

    def sweep(self, used: Iterable[EnvironmentKey]) -> None:
        """Remove what nobody uses, and what a killed command left without a note."""
        if not self.root.is_dir():
            return
        kept = {directory_name(wanted) for wanted in used}
        for entry in list(self.root.iterdir()):
            key = entry.name.partition(".")[0]
            if key not in kept or self._read_record(key) is None:
                self._remove(key)
                _remove_read_only(entry)

    def _remove(self, key: str) -> None:
        # The note first: what has none is not used.
        (self.root / f"{key}.json").unlink(missing_ok=True)
        _remove_read_only(self.root / key)

    def _read_record(self, key: str) -> dict[str, Any] | None:
        try:
            note = json.loads((self.root / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(note, dict) and {"fingerprint", "digest", "programs"} <= note.keys()  # pyright: ignore[reportUnknownMemberType]
        return note if whole else None  # pyright: ignore[reportUnknownVariableType]

    def _write_record(self, key: str, text: str) -> None:
        unfinished = self.root / f"{key}.{secrets.token_hex(4)}"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(self.root / f"{key}.json")


def directory_name(wanted: EnvironmentKey) -> str:
    """The name of an environment's directory.

    A Python environment leads to one interpreter and holds what was compiled for it. What npm installs depends on the
    machine alone: nothing is compiled.
    """
    parts = [wanted.ecosystem.value, wanted.digest, platform.machine(), platform.libc_ver()[0]]
    if wanted.ecosystem is Ecosystem.PYTHON:
        interpreter = host_interpreter()
        parts += [interpreter.tag, str(interpreter.path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _remove_read_only(place: Path) -> None:
    """Remove a directory whose parts may all be read-only, or a file."""
    if not place.is_dir() or place.is_symlink():
        place.unlink(missing_ok=True)
        return
    for directory, _, _ in os.walk(place):
        with contextlib.suppress(OSError):
            Path(directory).chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def save_lock(tx: Transaction, plugin: PluginName, version: str, lock: Lock) -> None:
    tx.execute(
        "INSERT INTO plugin_locks (plugin, version, ecosystem, digest, lock) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (plugin, version) DO UPDATE SET ecosystem = excluded.ecosystem, digest = excluded.digest, "
        "lock = excluded.lock",
        (plugin, version, lock.ecosystem.value, lock.digest, lock.text),
    )


def required_environment(tx: Transaction, plugin: str, version: str) -> EnvironmentKey | None:
    """The environment that a version needs; None where it needs none."""
    row = tx.one("SELECT ecosystem, digest FROM plugin_locks WHERE plugin = ? AND version = ?", (plugin, version))
    return EnvironmentKey(Ecosystem(row["ecosystem"]), row["digest"]) if row else None


def find_lock(tx: Transaction, plugin: str, version: str) -> Lock | None:
    """The lock that a version was installed with."""
    row = tx.one("SELECT ecosystem, lock FROM plugin_locks WHERE plugin = ? AND version = ?", (plugin, version))
    return parse_lock(Ecosystem(row["ecosystem"]), row["lock"]) if row else None


def required_environments(tx: Transaction) -> set[EnvironmentKey]:
    """Every environment that an installed version needs."""
    rows = tx.all("SELECT DISTINCT ecosystem, digest FROM plugin_locks")
    return {EnvironmentKey(Ecosystem(row["ecosystem"]), row["digest"]) for row in rows}


def parse_lock(ecosystem: Ecosystem, text: str) -> Lock:
    """
    Raises:
        Invalid: it leaves something open.
    """
    return read_python_lock(text) if ecosystem is Ecosystem.PYTHON else read_npm_lock(text)
