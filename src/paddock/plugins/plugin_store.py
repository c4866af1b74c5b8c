"""The plugin store: where installed plugins live, on disk and in rows, and the lock that orders changes to both.

Rows are the truth. A tree on disk that no row names is left over from a killed command and is swept away; a row whose
tree is gone or changed is *modified* and can be restored from its package blob.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.core.clock import Clock, Random
from paddock.core.event import Event, Publish
from paddock.core.ids import PluginName, PrincipalId, Tenant
from paddock.plugins.rows import DEFAULT_TENANT, all_plugins, packages, versions_of
from paddock.plugins.tree import fingerprint
from paddock.store.blobs import Blobs
from paddock.store.database import DirectDatabase, Transaction

if TYPE_CHECKING:
    from paddock.plugins.environments.shelf import Environments
    from paddock.principals.change import Change
    from paddock.secrets.keys import Keys


@dataclass(frozen=True, slots=True)
class PluginStore:
    """What every step in a plugin's life needs."""

    database: DirectDatabase
    blobs: Blobs
    data: Path
    local_file: Path
    clock: Clock
    random: Random
    retention_days: int = 30
    tenant: Tenant = DEFAULT_TENANT
    environments_allowed: bool = False  # for packages that come with requirements of their own
    by: PrincipalId | None = None  # who makes changes with it; None where the host does so by itself
    keys: Keys | None = None  # seals keys that come with a plugin; without it they stand in its configuration

    def of(self, tenant: Tenant) -> PluginStore:
        """The same plugins as another tenant has them, with grants, a record and configuration of its own."""
        return self if tenant == self.tenant else replace(self, tenant=tenant)

    def used_by(self, by: PrincipalId | None) -> PluginStore:
        """The same for changes that somebody makes, so that the record says who."""
        return self if by == self.by else replace(self, by=by)

    @property
    def values_file(self) -> Path:
        """Where the configuration of this tenant's plugins stands: nobody is told another's."""
        if self.tenant == DEFAULT_TENANT:
            return self.local_file
        return tenants_in(self.local_file.parent) / f"{self.tenant}.toml"

    @property
    def environments(self) -> Environments:
        """What plugins from package registries run in, on this machine."""
        from paddock.plugins.environments.shelf import Environments

        return Environments(self.data / "environments")

    @property
    def staging(self) -> Path:
        return staging_in(self.data)

    @property
    def trees(self) -> Path:
        return trees_in(self.data)

    def root_of(self, name: str, version: str) -> Path:
        """Where a version's files stand. Both parts passed the name and version rules, so neither can climb."""
        return self.trees / name / version

    @property
    def shared(self) -> bool:
        """Whether other nodes use the same rows, so that a plugin may be installed without being here."""
        return self.database.engine == "postgresql"

    def known_stats(self, name: str, version: str) -> str | None:
        """The fingerprint of a version's files when they were last known to be the consented ones."""
        try:
            return self._stats_file(name, version).read_text(encoding="ascii")
        except (OSError, UnicodeError):
            return None

    def remember_stats(self, name: str, version: str) -> None:
        """Note what a version's files look like now. Only listings rely on it, so a failure costs nothing but time."""
        file = self._stats_file(name, version)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(fingerprint(self.root_of(name, version)), encoding="ascii")

    def _stats_file(self, name: str, version: str) -> Path:
        return self._stats / name / version

    @property
    def _stats(self) -> Path:
        return self.data / "fingerprints"

    def now(self) -> str:
        return self.clock.now().isoformat()

    def publish(self, tx: Transaction, event: Event) -> None:
        """Record an event in the unit of work that it belongs to, as the deed of whoever uses this."""
        # Imported here: with it comes what hashes and writes JSON, and most commands record nothing.
        from paddock.ledger.append import LedgerTable

        seam: Publish = LedgerTable(tx, self.clock, self.random, self.tenant, by=self.by)
        seam.publish(event)

    def change(self, tx: Transaction) -> Change:
        """A unit of work as a change of who may act, or of what is theirs, by whoever uses this."""
        from paddock.principals.change import Change

        assert self.by is not None
        return Change(tx, self.tenant, self.by, self.now(), _Told(self, tx))

    @contextmanager
    def changing(self) -> Generator[None, None, None]:
        """One change to trees and rows at a time, whichever process makes it; the lock dies with its holder."""
        self.trees.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.trees, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def sweep(self) -> None:
        """Remove what killed commands left behind.

        That is staging directories, and trees, stats, packages and environments that no row names.
        """
        # Imported here: with it come zip, git and all else that a package may arrive by, and most commands fetch none.
        from paddock.plugins.staging import sweep_staging

        sweep_staging(self.staging)
        if not self.trees.is_dir():
            return
        with self.changing():
            known = self.database.read(
                lambda tx: {
                    plugin.name: {row.version for row in versions_of(tx, plugin.name)} for plugin in all_plugins(tx)
                }
            )
            for plugin in [*_directories(self.trees), *_directories(self._stats)]:
                versions = known.get(PluginName(plugin.name))
                if versions is None:
                    remove_tree(plugin)
                    continue
                for version in plugin.iterdir():
                    if version.name not in versions:
                        remove_tree(version)
            self.blobs.sweep(self.database.read(packages))
            self.forget_environments()

    def forget_environments(self) -> None:
        """Remove environments that no installed version uses any more. Call it while holding `changing()`."""
        if (self.data / "environments").is_dir():
            from paddock.plugins.environments.rows import all_wanted

            self.environments.sweep(self.database.read(all_wanted))

    def forget_tree(self, name: str, version: str) -> None:
        """Remove a version's files after its row is gone; a crash in between is swept later."""
        for file in (self.root_of(name, version), self._stats_file(name, version)):
            remove_tree(file)
            if file.parent.is_dir() and not any(file.parent.iterdir()):
                file.parent.rmdir()

    def forget_packages(self, blobs: Iterable[str]) -> None:
        """Remove packages that no row names any more.

        On a shared store only a sweep does, after a time of grace: another node may be about to name one again.
        """
        if not self.shared:
            for blob in blobs:
                self.blobs.delete(blob)


@dataclass(frozen=True, slots=True)
class _Told:
    """Where changes are told: in the record of one tenant, within the unit that makes them."""

    store: PluginStore
    tx: Transaction

    def publish(self, event: Event) -> None:
        self.store.publish(self.tx, event)


def tenants_in(directory: Path) -> Path:
    """Where a directory of ours holds what belongs to other tenants than the default one."""
    return directory / "tenants"


def staging_in(data: Path) -> Path:
    """The directory where packages stand that nobody has said yes to yet."""
    return data / "staging"


def trees_in(data: Path) -> Path:
    """The directory around the files of all installed plugins, and of nothing else."""
    return data / "plugins"


def remove_tree(root: Path) -> None:
    """Remove whatever stands at this place. A link is removed and never followed: what it points at is not ours."""
    if root.is_dir() and not root.is_symlink():
        shutil.rmtree(root, ignore_errors=True)
    else:
        root.unlink(missing_ok=True)


def _directories(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if entry.is_dir() and not entry.is_symlink()]
