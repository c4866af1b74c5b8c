"""Which version was installed with which lock. The lock itself stands here too, so that any node can build from it."""

from __future__ import annotations

from paddock.core.ids import PluginName
from paddock.plugins.environments.lock import Ecosystem, Lock
from paddock.plugins.environments.npm_lock import read_npm_lock
from paddock.plugins.environments.python_lock import read_python_lock
from paddock.plugins.environments.shelf import Wanted
from paddock.store.database import Transaction


def save_lock(tx: Transaction, plugin: PluginName, version: str, lock: Lock) -> None:
    tx.execute(
        "INSERT INTO plugin_locks (plugin, version, ecosystem, digest, lock) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (plugin, version) DO UPDATE SET ecosystem = excluded.ecosystem, digest = excluded.digest, "
        "lock = excluded.lock",
        (plugin, version, lock.ecosystem.value, lock.digest, lock.text),
    )


def wanted_by(tx: Transaction, plugin: str, version: str) -> Wanted | None:
    """The environment that a version needs; None where it needs none."""
    row = tx.one("SELECT ecosystem, digest FROM plugin_locks WHERE plugin = ? AND version = ?", (plugin, version))
    return Wanted(Ecosystem(row["ecosystem"]), row["digest"]) if row else None


def lock_of(tx: Transaction, plugin: str, version: str) -> Lock | None:
    """The lock that a version was installed with."""
    row = tx.one("SELECT ecosystem, lock FROM plugin_locks WHERE plugin = ? AND version = ?", (plugin, version))
    return read_lock(Ecosystem(row["ecosystem"]), row["lock"]) if row else None


def all_wanted(tx: Transaction) -> set[Wanted]:
    """Every environment that an installed version needs."""
    rows = tx.all("SELECT DISTINCT ecosystem, digest FROM plugin_locks")
    return {Wanted(Ecosystem(row["ecosystem"]), row["digest"]) for row in rows}


def read_lock(ecosystem: Ecosystem, text: str) -> Lock:
    """
    Raises:
        Invalid: it leaves something open.
    """
    return read_python_lock(text) if ecosystem is Ecosystem.PYTHON else read_npm_lock(text)
