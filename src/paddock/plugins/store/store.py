"""The plugin store: installed plugins on disk and in rows, and the lock that orders changes to both.

Rows are the truth. A tree on disk without a row is left over from a killed command and is swept away; a row whose tree
is gone or changed is *modified* and can be restored from its package blob.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.clock import Clock, Random, SystemClock, SystemRandom
from paddock.core.events.event import Event, EventSink
from paddock.core.ids import DEFAULT_TENANT, PluginName, PrincipalId, Tenant
from paddock.plugins.package.tree import fingerprint
from paddock.plugins.store.rows import all_plugins, blobs_in_use, versions_of
from paddock.store.blobs import Blobs, open_blobs
from paddock.store.database import DirectDatabase, Transaction, open_direct
from paddock.store.filesystem import remove_tree

if TYPE_CHECKING:
    from paddock.plugins.environments.store import EnvironmentStore
    from paddock.secrets.wrapping_keys import WrappingKeys
    from paddock.store.audited_transaction import AuditedTransaction


class PluginStore(Struct, frozen=True):
    """Database, blobs, directories and settings that every plugin operation needs."""

    database: DirectDatabase
    blobs: Blobs
    data: Path
    cache: Path  # of downloads; can be removed at any time
    local_file: Path
    clock: Clock
    random: Random
    allowed_domains: tuple[str, ...]  # the hosts that OSQR plugins may connect to
    retention_days: int = 30
    tenant: Tenant = DEFAULT_TENANT
    environments_allowed: bool = False  # for packages with requirements of their own
    by: PrincipalId | None = None  # the principal who makes changes; None for the host itself
    keys: WrappingKeys | None = None  # seals a plugin's secrets; without it they stay in its configuration

    def for_tenant(self, tenant: Tenant) -> PluginStore:
        """Return the store as another tenant sees it, with its own grants, ledger and configuration."""
        return self if tenant == self.tenant else replace(self, tenant=tenant)

    def acting_as(self, by: PrincipalId | None) -> PluginStore:
        """Return the store for changes made by this principal, so that the ledger records who made them."""
        return self if by == self.by else replace(self, by=by)

    @property
    def config_file(self) -> Path:
        """The configuration file of this tenant's plugins; tenants do not see each other's."""
        if self.tenant == DEFAULT_TENANT:
            return self.local_file
        return tenants_directory(self.local_file.parent) / f"{self.tenant}.toml"

    @property
    def environments(self) -> EnvironmentStore:
        """The environments of plugins from package registries, on this machine."""
        from paddock.plugins.environments.store import EnvironmentStore

        return EnvironmentStore(self.data / "environments")

    @property
    def staging(self) -> Path:
        return staging_root_in(self.data)

    @property
    def trees(self) -> Path:
        return trees_directory(self.data)

    def version_root(self, name: str, version: str) -> Path:
        """Return the directory of a version's files. Both parts passed the name and version rules, so neither can
        escape it."""
        return self.trees / name / version

    @property
    def shared(self) -> bool:
        """Whether other nodes use the same rows, so that a plugin may be installed without its files being here."""
        return self.database.engine == "postgresql"

    def known_fingerprint(self, name: str, version: str) -> str | None:
        """Return the fingerprint of a version's files when they were last known to be intact."""
        try:
            return self._fingerprint_file(name, version).read_text(encoding="ascii")
        except (OSError, UnicodeError):
            return None

    def save_fingerprint(self, name: str, version: str) -> None:
        """Save the current fingerprint of a version's files. Only listings rely on it, so a failure costs only time."""
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
        """Record an event in the transaction that it belongs to, in the name of the acting principal."""
        # Imported lazily: it pulls in hashing and JSON encoding, and most commands record nothing.
        from paddock.ledger.write.append import TransactionLedger

        ledger: EventSink = TransactionLedger(tx, self.clock, self.random, self.tenant, by=self.by)
        ledger.publish(event)

    def audited_change(self, tx: Transaction) -> AuditedTransaction:
        """Wrap a transaction as an audited change by the acting principal."""
        from paddock.store.audited_transaction import AuditedTransaction

        assert self.by is not None
        return AuditedTransaction(tx, self.tenant, self.by, self.now(), _TransactionPublisher(self, tx))

    @contextmanager
    def change_lock(self) -> Generator[None, None, None]:
        """Serialise changes to trees and rows across processes; the lock is released if its holder dies."""
        self.trees.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.trees, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def sweep(self) -> None:
        """Remove what killed commands left behind.

        These are staging directories, and trees, fingerprints, packages and environments without a row.
        """
        # Imported lazily: it pulls in zip, git and all other sources, and most commands fetch nothing.
        from paddock.plugins.package.stage import sweep_staging

        sweep_staging(self.staging)
        if not self.trees.is_dir():
            return
        with self.change_lock():
            versions_by_plugin = self.database.read(
                lambda tx: {
                    directory.name: {row.version for row in versions_of(tx, directory.name)}
                    for directory in all_plugins(tx)
                }
            )
            for directory in [*_subdirectories(self.trees), *_subdirectories(self._fingerprints)]:
                versions = versions_by_plugin.get(PluginName(directory.name))
                if versions is None:
                    remove_path(directory)
                    continue
                for version in directory.iterdir():
                    if version.name not in versions:
                        remove_path(version)
            self.blobs.sweep(self.database.read(blobs_in_use))
            self.sweep_environments()

    def sweep_environments(self) -> None:
        """Remove environments that no installed version uses. Call it while holding `change_lock()`."""
        if (self.data / "environments").is_dir():
            from paddock.plugins.environments.store import required_environments

            self.environments.sweep(self.database.read(required_environments))

    def delete_version_files(self, name: str, version: str) -> None:
        """Remove a version's files after its row is deleted; a crash in between is swept later."""
        for file in (self.version_root(name, version), self._fingerprint_file(name, version)):
            remove_path(file)
            if file.parent.is_dir() and not any(file.parent.iterdir()):
                file.parent.rmdir()

    def delete_blobs(self, blobs: Iterable[str]) -> None:
        """Remove packages that no row references any more.

        On a shared store only a sweep does that, after a grace period: another node may be about to reference one
        again.
        """
        if not self.shared:
            for blob in blobs:
                self.blobs.delete(blob)


class _TransactionPublisher(Struct, frozen=True):
    """Publishes events to the ledger of one tenant, within the transaction that makes the changes."""

    store: PluginStore
    tx: Transaction

    def publish(self, event: Event) -> None:
        self.store.publish(self.tx, event)


def tenants_directory(directory: Path) -> Path:
    """Return the subdirectory for tenants other than the default one."""
    return directory / "tenants"


def staging_root_in(data: Path) -> Path:
    """Return the directory for packages that are not consented to yet."""
    return data / "staging"


def trees_directory(data: Path) -> Path:
    """Return the directory of the files of all installed plugins, and nothing else."""
    return data / "plugins"


def remove_path(root: Path) -> None:
    """Remove a file, link or directory. A link is removed and never followed: its target is not ours."""
    with contextlib.suppress(OSError):
        remove_tree(root)


def _subdirectories(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if entry.is_dir() and not entry.is_symlink()]


@contextmanager
def open_plugin_store(
    directories: Directories,
    settings: Settings,
    *,
    clock: Clock | None = None,
    wait: float = 10.0,
    only_connection: bool = True,
) -> Generator[PluginStore, None, None]:
    """Open the plugin store configured in the settings for as long as the block runs.

    Args:
        only_connection: See `open_direct`.

    Raises:
        StoreUnavailable: a daemon held it for longer than `wait` seconds, or it cannot be opened.
    """
    clock = clock or SystemClock()
    with open_direct(
        settings.store.url or directories.database_file, wait=wait, only_connection=only_connection
    ) as database:
        yield PluginStore(
            database=database,
            blobs=open_blobs(database, directories.data / "packages", clock),
            data=directories.data,
            cache=directories.cache,
            local_file=directories.local_file,
            clock=clock,
            random=SystemRandom(),
            allowed_domains=settings.plugins.allowed_domains,
            retention_days=settings.versions.retention_days,
            environments_allowed=settings.plugins.environments,
        )
