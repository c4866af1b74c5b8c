"""The environments of this machine: lookup, verification, placement and sweep.

Each is a directory named by the digest of its lock and by what it was built for, so that plugins with equal locks share
one. Beside it stands a record with the digest of its files, written last: a directory without one does not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import HostError, Unavailable
from paddock.core.ids import PluginName
from paddock.plugins.environments.build import BuiltEnvironment, completion_record, record_text
from paddock.plugins.environments.files import scan_environment
from paddock.plugins.environments.lock import Ecosystem, Lock, read_python_lock
from paddock.plugins.environments.npm_lock import read_npm_lock
from paddock.plugins.environments.python_env import VENV_PYTHON, host_interpreter
from paddock.plugins.package.tree import fingerprint
from paddock.store.database import Transaction
from paddock.store.filesystem import remove_tree


class Environment(Struct, frozen=True):
    """A complete environment."""

    ecosystem: Ecosystem
    root: Path
    programs: dict[str, Path]  # program name to its script

    @property
    def python(self) -> Path:
        """The interpreter of a Python environment; programs it runs find the environment's packages."""
        return self.root / VENV_PYTHON

    @property
    def site_packages(self) -> list[Path]:
        """The module directories of a Python environment."""
        return sorted(self.root.glob("lib/python3.*/site-packages"))


class EnvironmentKey(Struct, frozen=True):
    """Identifies the environment that a version needs: ecosystem and lock digest."""

    ecosystem: Ecosystem
    digest: str


class EnvironmentStore(Struct, frozen=True):
    """All environments below one directory. Callers that change something hold the plugin store's lock."""

    root: Path

    def path_for(self, lock: Lock) -> Path:
        """Return the directory of a lock's environment, whether it exists or not."""
        return self.root / directory_name(EnvironmentKey(lock.ecosystem, lock.digest))

    def find(self, environment_key: EnvironmentKey) -> Environment | None:
        """Return the environment if it exists and is untouched since it was built."""
        directory_key = directory_name(environment_key)
        record = self._read_record(directory_key)
        root = self.root / directory_key
        if record is None:
            return None
        try:
            if fingerprint(root) != record["fingerprint"]:
                return None
        except OSError:
            return None
        return Environment(
            environment_key.ecosystem, root, {name: root / path for name, path in record["programs"].items()}
        )

    def find_by_lock(self, lock: Lock) -> Environment | None:
        """Find the environment by its lock; see `find`."""
        return self.find(EnvironmentKey(lock.ecosystem, lock.digest))

    def require(self, key: EnvironmentKey, plugin: str) -> Environment:
        """Return the environment or raise.

        Raises:
            Unavailable: it is missing or incomplete; starting a plugin never builds one.
        """
        environment = self.find(key)
        if environment is None:
            raise Unavailable(
                f"the environment of {plugin} is not on this machine",
                code="environment.missing",
                action=Action.of("plugin.repair", plugin=plugin),
            )
        return environment

    def is_intact(self, lock: Lock) -> bool:
        """Whether every file is as it was built; reads all of them."""
        path = self.path_for(lock)
        record = self._read_record(path.name)
        if record is None or self.find_by_lock(lock) is None:
            return False
        try:
            return scan_environment(path).digest == record["digest"]
        except (OSError, HostError):
            return False

    def put(self, built: BuiltEnvironment, *, replace: bool = False) -> None:
        """Move a built environment into place, unless it exists already. `replace` is for one that is not intact."""
        path = self.path_for(built.lock)
        if not replace and self.find_by_lock(built.lock) is not None:
            return
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove(path.name)
        built.root.rename(path)
        for directory, _, _ in os.walk(path):
            Path(directory).chmod(0o555)
        self._write_record(path.name, completion_record(built, fingerprint(path)))

    def adopt_copies(self) -> None:
        """Accept environments that were copied to this disk, as a restore does, if every file is as it was built."""
        for path in self.root.glob("*.json"):
            record = self._read_record(path.stem)
            root = self.root / path.stem
            try:
                if record is not None and scan_environment(root).digest == record["digest"]:
                    self._write_record(path.stem, record_text(record | {"fingerprint": fingerprint(root)}))
            except (OSError, HostError):
                continue  # it counts as missing, and a repair builds it

    def sweep(self, used: Iterable[EnvironmentKey]) -> None:
        """Remove environments that no version uses, and those that a killed command left without a record."""
        if not self.root.is_dir():
            return
        used_names = {directory_name(key) for key in used}
        for entry in list(self.root.iterdir()):
            name = entry.name.partition(".")[0]
            if name not in used_names or self._read_record(name) is None:
                self._remove(name)
                _remove_tree(entry)

    def _remove(self, name: str) -> None:
        # The record first: an environment without one is not used.
        (self.root / f"{name}.json").unlink(missing_ok=True)
        _remove_tree(self.root / name)

    def _read_record(self, name: str) -> dict[str, Any] | None:
        try:
            record = json.loads((self.root / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        complete = isinstance(record, dict) and {"fingerprint", "digest", "programs"} <= record.keys()  # pyright: ignore[reportUnknownMemberType]
        return record if complete else None  # pyright: ignore[reportUnknownVariableType]

    def _write_record(self, name: str, text: str) -> None:
        temporary = self.root / f"{name}.{secrets.token_hex(4)}"
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(self.root / f"{name}.json")


def directory_name(key: EnvironmentKey) -> str:
    """Return the name of an environment's directory.

    A Python environment is bound to one interpreter and holds files compiled for it. What npm installs depends on the
    machine alone: nothing is compiled.
    """
    parts = [key.ecosystem.value, key.digest, platform.machine(), platform.libc_ver()[0]]
    if key.ecosystem is Ecosystem.PYTHON:
        interpreter = host_interpreter()
        parts += [interpreter.tag, str(interpreter.path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _remove_tree(path: Path) -> None:
    with contextlib.suppress(OSError):
        remove_tree(path)


def save_lock(tx: Transaction, plugin: PluginName, version: str, lock: Lock) -> None:
    tx.execute(
        "INSERT INTO plugin_locks (plugin, version, ecosystem, digest, lock) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (plugin, version) DO UPDATE SET ecosystem = excluded.ecosystem, digest = excluded.digest, "
        "lock = excluded.lock",
        (plugin, version, lock.ecosystem.value, lock.digest, lock.text),
    )


def required_environment(tx: Transaction, plugin: str, version: str) -> EnvironmentKey | None:
    """Return the key of the environment that a version needs; None if it needs none."""
    row = tx.one("SELECT ecosystem, digest FROM plugin_locks WHERE plugin = ? AND version = ?", (plugin, version))
    return EnvironmentKey(Ecosystem(row["ecosystem"]), row["digest"]) if row else None


def find_lock(tx: Transaction, plugin: str, version: str) -> Lock | None:
    """Return the lock that a version was installed with."""
    row = tx.one("SELECT ecosystem, lock FROM plugin_locks WHERE plugin = ? AND version = ?", (plugin, version))
    return parse_lock(Ecosystem(row["ecosystem"]), row["lock"]) if row else None


def required_environments(tx: Transaction) -> set[EnvironmentKey]:
    """Return the keys of all environments that installed versions need."""
    rows = tx.all("SELECT DISTINCT ecosystem, digest FROM plugin_locks")
    return {EnvironmentKey(Ecosystem(row["ecosystem"]), row["digest"]) for row in rows}


def parse_lock(ecosystem: Ecosystem, text: str) -> Lock:
    """Parse and validate a lock of either ecosystem.

    Raises:
        Invalid: it leaves something unpinned.
    """
    return read_python_lock(text) if ecosystem is Ecosystem.PYTHON else read_npm_lock(text)
