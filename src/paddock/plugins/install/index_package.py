"""Wraps a registry package as a package of ours: a small folder with a manifest and a lock, and nothing else.

This folder is what Paddock stores, hashes and shows. So its digest stands for exactly what will run, down to the last
dependency.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
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


class IndexPackage(Struct, frozen=True):
    """The folder, and warnings for the person that are not in it."""

    folder: Path
    lock: Lock
    warnings: tuple[Problem, ...]


@contextmanager
def open_index_package(
    store: PluginStore, source: PackageSource, choices: IndexOptions, progress: ProgressCallback | None
) -> Generator[IndexPackage, None, None]:
    """Build the folder and keep it for as long as the block runs.

    Raises:
        NotFound: there is no such package or version.
        Conflict: a plugin from another source has its name.
        PaddockError: it cannot be pinned; says why.
    """
    with (
        open_package_client(store, progress) as client,
        open_cached_resolution(store, source, client.environ) as cached,
    ):
        resolution = cached.resolution or resolve_from_index(source, client)
        cached.resolution = resolution
        base_manifest = build_mcp_manifest(resolution.facts, resolution.programs, choices, source=source.text)
        if choices.name is None:
            store.database.read(lambda tx: check_name_owner(tx, base_manifest, source))
        manifest = store.database.read(lambda tx: _with_free_version(tx, base_manifest, resolution.lock))
        folder = client.workspace / "package"
        folder.mkdir()
        (folder / "paddock.yaml").write_text(to_yaml(manifest), encoding="utf-8")
        (folder / resolution.lock.ecosystem.lock_file).write_text(resolution.lock.text, encoding="utf-8")
        yield IndexPackage(folder, resolution.lock, resolution.warnings)


def check_name_owner(tx: Transaction, manifest: Manifest, source: PackageSource) -> None:
    """Check that a plugin of this name came from the same source. Packages of different people may have the same name,
    and a plugin changes its source only if a person says so.

    Raises:
        Conflict: it came from another source.
    """
    plugin = find_plugin(tx, manifest.name)
    row = find_version(tx, plugin.name, plugin.default_version) if plugin else None
    if row is None:
        return
    installed_source = row.source.source
    if (installed_source.kind, installed_source.location) != (source.kind, source.location):
        raise Conflict(
            f"there is a plugin {manifest.name} already, from {installed_source.describe()}",
            code="plugin.name_taken",
            hint="choose another name for this one",
            action=Action.of("plugin.install", source=source.text, name="NAME"),
        )


def _with_free_version(tx: Transaction, manifest: Manifest, lock: Lock) -> Manifest:
    """Keep the package's own version, unless it is installed with other dependencies or other options."""
    existing = find_version(tx, manifest.name, manifest.version)
    if existing is None or _is_same_package(tx, existing, manifest, lock):
        return manifest
    plugin = find_plugin(tx, manifest.name)
    current = find_version(tx, manifest.name, plugin.default_version) if plugin else None
    if current is not None and current.version.startswith(manifest.version):
        unchanged = replace(manifest, version=current.version)
        if _is_same_package(tx, current, unchanged, lock):
            return unchanged
    return with_distinct_version(manifest, lock)


def _is_same_package(tx: Transaction, row: VersionRow, manifest: Manifest, lock: Lock) -> bool:
    installed_lock = find_lock(tx, row.plugin, row.version)
    return (
        installed_lock is not None
        and installed_lock.digest == lock.digest
        and to_yaml(manifest_of(row)) == to_yaml(manifest)
    )
