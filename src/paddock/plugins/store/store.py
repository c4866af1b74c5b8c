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
from paddock.core.events.event import Event, EventSink
from paddock.core.ids import PluginName, PrincipalId, Tenant
from paddock.plugins.package.tree import fingerprint
from paddock.plugins.store.rows import DEFAULT_TENANT, all_plugins, blobs_in_use, versions_of
from paddock.store.blobs import Blobs
from paddock.store.database import DirectDatabase, Transaction

if TYPE_CHECKING:
    from paddock.plugins.environments.store import EnvironmentStore
    from paddock.secrets.wrapping_keys import WrappingKeys
    from paddock.store.audited_transaction import AuditedTransaction
from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.clock import SystemClock, SystemRandom
from paddock.store.blobs import open_blobs
from paddock.store.database import open_direct


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
    keys: WrappingKeys | None = None  # seals keys that come with a plugin; without it they stand in its configuration

    def for_tenant(self, tenant: Tenant) -> PluginStore:
        """The same plugins as another tenant has them, with grants, a record and configuration of its own."""
        return self if tenant == self.tenant else replace(self, tenant=tenant)

    def acting_as(self, by: PrincipalId | None) -> PluginStore:
        """The same for changes that somebody makes, so that the record says who."""
        return self if by == self.by else replace(self, by=by)

    @property
    def config_file(self) -> Path:
        """Where the configuration of this tenant's plugins stands: nobody is told another's."""
        if self.tenant == DEFAULT_TENANT:
            return self.local_file
        return tenants_directory(self.local_file.parent) / f"{self.tenant}.toml"

    @property
    def environments(self) -> EnvironmentStore:
        """What plugins from package registries run in, on this machine."""
        from paddock.plugins.environments.store import EnvironmentStore

        return EnvironmentStore(self.data / "environments")

    @property
    def staging(self) -> Path:
        return staging_root_in(self.data)

    @property
    def trees(self) -> Path:
        return trees_directory(self.data)

    def version_root(self, name: str, version: str) -> Path:
        """Where a version's files stand. Both parts passed the name and version rules, so neither can climb."""
        return self.trees / name / version

    @property
    def shared(self) -> bool:
        """Whether other nodes use the same rows, so that a plugin may be installed without being here."""
        return self.database.engine == "postgresql"

    def known_fingerprint(self, name: str, version: str) -> str | None:
        """The fingerprint of a version's files when they were last known to be the consented ones."""
        try:
            return self._fingerprint_file(name, version).read_text(encoding="ascii")
        except (OSError, UnicodeError):
            return None

    def save_fingerprint(self, name: str, version: str) -> None:
        """Note what a version's files look like now. Only listings rely on it, so a failure costs nothing but time."""
        file = self._fingerprint_file(name, version)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(fingerprint(self.version_root(name, version)), encoding="ascii")

    def _fingerprint_file(self, name: str, version: str) -> Path:
        return self._fingerprints / name / version

    @property
    def _fingerprints(self) -> Path:
        return self.data / "fingerprints"

    def now(self) -> str:
        return self.clock.now().isoformat()

    def publish(self, tx: Transaction, event: Event) -> None:
        """Record an event in the unit of work that it belongs to, as the deed of whoever uses this."""
        # Imported here: with it comes what hashes and writes JSON, and most commands record nothing.
        from paddock.ledger.write.append import TransactionLedger

        seam: EventSink = TransactionLedger(tx, self.clock, self.random, self.tenant, by=self.by)
        seam.publish(event)

    def audited_change(self, tx: Transaction) -> AuditedTransaction:
        """A unit of work as a change of who may act, or of what is theirs, by whoever uses this."""
        from paddock.store.audited_transaction import AuditedTransaction

        assert self.by is not None
        return AuditedTransaction(tx, self.tenant, self.by, self.now(), _TransactionPublisher(self, tx))

    @contextmanager
    def change_lock(self) -> Generator[None, None, None]:
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
        from paddock.plugins.package.stage import sweep_staging

        sweep_staging(self.staging)
        if not self.trees.is_dir():
            return
        with self.change_lock():
            known = self.database.read(
                lambda tx: {
                    plugin.name: {row.version for row in versions_of(tx, plugin.name)} for plugin in all_plugins(tx)
                }
            )
            for plugin in [*_subdirectories(self.trees), *_subdirectories(self._fingerprints)]:
                versions = known.get(PluginName(plugin.name))
                if versions is None:
                    remove_path(plugin)
                    continue
                for version in plugin.iterdir():
                    if version.name not in versions:
                        remove_path(version)
            self.blobs.sweep(self.database.read(blobs_in_use))
            self.sweep_environments()

    def sweep_environments(self) -> None:
        """Remove environments that no installed version uses any more. Call it while holding `changing()`."""
        if (self.data / "environments").is_dir():
            from paddock.plugins.environments.store import required_environments

            self.environments.sweep(self.database.read(required_environments))

    def delete_version_files(self, name: str, version: str) -> None:
        """Remove a version's files after its row is gone; a crash in between is swept later."""
        for file in (self.version_root(name, version), self._fingerprint_file(name, version)):
            remove_path(file)
            if file.parent.is_dir() and not any(file.parent.iterdir()):
                file.parent.rmdir()

    def delete_blobs(self, blobs: Iterable[str]) -> None:
        """Remove packages that no row names any more.

        On a shared store only a sweep does, after a time of grace: another node may be about to name one again.
        """
        if not self.shared:
            for blob in blobs:
                self.blobs.delete(blob)


@dataclass(frozen=True, slots=True)
class _TransactionPublisher:
    """Where changes are told: in the record of one tenant, within the unit that makes them."""

    store: PluginStore
    tx: Transaction

    def publish(self, event: Event) -> None:
        self.store.publish(self.tx, event)


def tenants_directory(directory: Path) -> Path:
    """Where a directory of ours holds what belongs to other tenants than the default one."""
    return directory / "tenants"


def staging_root_in(data: Path) -> Path:
    """The directory where packages stand that nobody has said yes to yet."""
    return data / "staging"


def trees_directory(data: Path) -> Path:
    """The directory around the files of all installed plugins, and of nothing else."""
    return data / "plugins"


def remove_path(root: Path) -> None:
    """Remove whatever stands at this place. A link is removed and never followed: what it points at is not ours."""
    if root.is_dir() and not root.is_symlink():
        shutil.rmtree(root, ignore_errors=True)
    else:
        root.unlink(missing_ok=True)


def _subdirectories(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if entry.is_dir() and not entry.is_symlink()]


@contextmanager
def open_plugin_store(
    directories: Directories, settings: Settings, *, clock: Clock | None = None, wait: float = 10.0
) -> Generator[PluginStore, None, None]:
    """The plugin store where the settings say it is, for as long as the block runs.

    Raises:
        StoreUnavailable: a daemon held it for longer than `wait` seconds, or it cannot be opened.
    """
    clock = clock or SystemClock()
    with open_direct(settings.store.url or directories.database_file, wait=wait) as database:
        yield PluginStore(
            database=database,
            blobs=open_blobs(database, directories.data / "packages", clock),
            data=directories.data,
            local_file=directories.local_file,
            clock=clock,
            random=SystemRandom(),
            retention_days=settings.versions.retention_days,
            environments_allowed=settings.plugins.environments,
        )
