"""A package of a registry as a package of ours: a small folder with a manifest and a lock, and nothing else.

It is what Paddock stores, hashes and shows. So a digest stands for exactly what will run, to the last dependency.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import Conflict, Problem
from paddock.manifest.model import Manifest
from paddock.manifest.native_writer import to_yaml
from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.metadata import IndexOptions, build_mcp_manifest, with_distinct_version
from paddock.plugins.environments.resolve import resolve_from_index
from paddock.plugins.environments.store import find_lock
from paddock.plugins.install.resolution_cache import open_cached_resolution
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.source import PackageSource
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.node_files import open_package_client
from paddock.plugins.store.rows import VersionRow, find_plugin, find_version
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class IndexPackage:
    """The folder, and what a person should know that is not in it."""

    folder: Path
    lock: Lock
    warnings: tuple[Problem, ...]


@contextmanager
def open_index_package(
    store: PluginStore, source: PackageSource, choices: IndexOptions, progress: ProgressCallback | None
) -> Generator[IndexPackage, None, None]:
    """The folder, for as long as the block runs.

    Raises:
        NotFound: there is no such package or version.
        Conflict: a plugin from elsewhere has its name.
        PaddockError: it cannot be pinned; says why.
    """
    with open_package_client(store, progress) as client, open_cached_resolution(store, source, client.environ) as shown:
        found = shown.resolution or resolve_from_index(source, client)
        shown.resolution = found
        described = build_mcp_manifest(found.facts, found.programs, choices)
        if choices.name is None:
            store.database.read(lambda tx: _check_name_owner(tx, described, source))
        manifest = store.database.read(lambda tx: _with_free_version(tx, described, found.lock))
        folder = client.workspace / "package"
        folder.mkdir()
        (folder / "paddock.yaml").write_text(to_yaml(manifest), encoding="utf-8")
        (folder / found.lock.ecosystem.lock_file).write_text(found.lock.text, encoding="utf-8")
        yield IndexPackage(folder, found.lock, found.warnings)


def _check_name_owner(tx: Transaction, manifest: Manifest, source: PackageSource) -> None:
    """Packages of different people may be called alike. Whose a plugin is changes only when somebody says so."""
    plugin = find_plugin(tx, manifest.name)
    row = find_version(tx, plugin.name, plugin.default_version) if plugin else None
    if row is None:
        return
    before = row.source.source
    if (before.kind, before.location) != (source.kind, source.location):
        raise Conflict(
            f"there is a plugin {manifest.name} already, from {before.describe()}",
            code="plugin.name_taken",
            hint="choose another name for this one: --name NAME",
        )


def _with_free_version(tx: Transaction, manifest: Manifest, lock: Lock) -> Manifest:
    """With the package's own version, unless that is installed with other dependencies or by other choices."""
    existing = find_version(tx, manifest.name, manifest.version)
    if existing is None or _is_same_package(tx, existing, manifest, lock):
        return manifest
    return with_distinct_version(manifest, lock)


def _is_same_package(tx: Transaction, row: VersionRow, manifest: Manifest, lock: Lock) -> bool:
    before = find_lock(tx, row.plugin, row.version)
    return before is not None and before.digest == lock.digest and to_yaml(manifest_of(row)) == to_yaml(manifest)
