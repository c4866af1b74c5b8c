"""Resolves an installed package with more capabilities: the same files and the same lock. Nothing is fetched.

This is for packages whose capabilities a person chose: a server from a registry, from another program's settings, or
in one file.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from paddock.core.errors import OperatorError
from paddock.manifest.capability import Capability, merge_capabilities
from paddock.manifest.model import Manifest
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.read import read_package
from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.store import find_lock
from paddock.plugins.install.request import how_to_grant_more
from paddock.plugins.install.resolve import ResolvedPackage, build_resolved
from paddock.plugins.package.blob import unpack_blob
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import stage_package
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.rows import VersionRow, find_version, tree_of
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction

_OPTIONS_SUFFIX = re.compile(r"[+.][0-9a-f]{8}$")  # distinguishes versions of one package with other options


@contextmanager
def resolve_with_capabilities(
    store: PluginStore, name: str, capabilities: Sequence[Capability]
) -> Generator[ResolvedPackage, None, None]:
    """Resolve the installed version of a plugin with these capabilities added, without changing anything yet.

    Raises:
        NotFound: it is not installed.
        OperatorError: its own manifest declares what it may do.
    """
    row, lock = store.database.read(lambda tx: _find_installed(tx, name))
    source = row.source.source
    if not source.without_manifest:
        hint, action = how_to_grant_more(source, row.plugin)
        message = f"the manifest of {row.plugin} declares what it may do"
        raise OperatorError(message, code="plugin.own_manifest", hint=hint, action=action)
    installed = manifest_of(row)
    manifest = _with_version(
        replace(installed, capabilities=merge_capabilities(installed.capabilities, capabilities)), row
    )
    with tempfile.TemporaryDirectory(prefix="paddock-grant-") as folder:
        # From the store and not from the disk: exactly the files that a person consented to.
        root = Path(folder) / "package"
        with store.blobs.open(row.blob) as blob:
            unpack_blob(blob, root, store.database.read(lambda tx: tree_of(tx, row.plugin, row.version)))
        (root / "paddock.yaml").unlink()
        (root / "paddock.yaml").write_text(to_yaml(manifest), encoding="utf-8")
        with stage_package(PackageSource(SourceKind.DIRECTORY, str(root)), store.staging) as staged:
            result = read_package(staged.root)
            staged = replace(staged, source=row.source)
            yield build_resolved(store, staged, result.single(), result.warnings, {}, lock)


def _find_installed(tx: Transaction, name: str) -> tuple[VersionRow, Lock | None]:
    plugin = require_plugin(tx, name)
    row = find_version(tx, plugin.name, plugin.default_version)
    if row is None:
        raise pinned_version_missing_error(plugin)
    return row, find_lock(tx, row.plugin, row.version)


def _with_version(manifest: Manifest, row: VersionRow) -> Manifest:
    """Give it a version of its own: its manifest differs from the installed one."""
    if to_yaml(manifest) == to_yaml(manifest_of(row)):
        return manifest
    suffix = hashlib.sha256(to_yaml(manifest).encode()).hexdigest()[:8]
    base = _OPTIONS_SUFFIX.sub("", manifest.version)
    return replace(manifest, version=f"{base}{'.' if '+' in base else '+'}{suffix}")
