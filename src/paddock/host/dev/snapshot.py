"""Snapshots of a plugin's folder: its author keeps editing, but running files must not change. Blocking."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from paddock.config.local_file import read_entries
from paddock.config.plugin_config import merge_config
from paddock.core.action import Action
from paddock.core.errors import HostError, Invalid, OperatorError, Problem
from paddock.core.ids import Digest
from paddock.host.plugins.launch.preparer import LaunchInputs, LaunchPreparer, resolve_config_paths
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.read import DirectoryFiles, read_package
from paddock.manifest.rules.readiness import find_blockers
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import stage_package
from paddock.plugins.store.store import PluginStore
from paddock.runtime.deployment import Deployment


class SourceSnapshot(Struct, frozen=True):
    """The folder as it was at one moment, validated as for an install."""

    root: Path
    digest: Digest
    manifest: Manifest
    warnings: tuple[Problem, ...]

    def remove(self) -> None:
        """Delete the files. Call it when nothing runs from them any more."""
        shutil.rmtree(self.root, ignore_errors=True)


def snapshot_folder(folder: Path, staging: Path, trees: Path, number: int) -> SourceSnapshot:
    """Copy the folder to a new directory below `trees`, and validate it.

    Args:
        folder: The author's folder.
        staging: The directory for unfinished copies.
        trees: The directory for finished copies.
        number: The number of the snapshot; it distinguishes snapshots of the same files.

    Raises:
        Invalid: the package cannot be installed or enabled; carries every reason.
        OperatorError: the folder cannot be read, or contains nothing that runs here.
    """
    source = PackageSource(SourceKind.DIRECTORY, str(folder.resolve()))
    with stage_package(source, staging) as staged:
        manifest_result = read_package(staged.root)
        manifest = manifest_result.single()
        blockers = find_blockers(manifest, DirectoryFiles(staged.root))
        if blockers:
            raise Invalid(f"{manifest.name} cannot run yet", blockers, code="plugin.cannot_enable")
        if isinstance(manifest.runtime, RemoteRuntime):
            raise OperatorError(
                f"{manifest.name} is a server elsewhere: there is no program in this folder",
                code="dev.remote",
                hint="name the folder of the server itself",
            )
        root = trees / f"{manifest.name}-{number}"
        trees.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(root, ignore_errors=True)  # left from an earlier session that was killed
        staged.root.rename(root)
    warnings = [warning for warning in manifest_result.warnings if warning not in blockers]
    return SourceSnapshot(root, Digest(f"{staged.tree.digest}#{number}"), manifest, tuple(warnings))


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotLaunchPreparer(LaunchPreparer):
    """Prepares starts of snapshots; see `LaunchPreparer`.

    Attributes:
        author_config: The author's configuration; it takes precedence over the home's `local.toml`.
        roots: The directory of each deployment's files, by digest.
    """

    author_config: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any], repr=False)
    roots: dict[str, Path] = dataclasses.field(default_factory=dict[str, Path])

    def resolve_inputs(self, store: PluginStore, deployment: Deployment) -> LaunchInputs:
        root = self.roots.get(deployment.key.digest)
        if root is None:
            raise HostError(f"{deployment.name} has no files")
        return self.build_inputs(store, deployment, root, self.effective_config(store, deployment.manifest))

    def retry_action(self, deployment: Deployment) -> Action | None:
        del deployment  # a snapshot is not installed, so it cannot be enabled
        return None

    def effective_config(self, store: PluginStore, manifest: Manifest) -> dict[str, Any]:
        entry = read_entries(store.local_file).get(manifest.name)
        stored = entry.system_values(self.reference_environment(store)) if entry else {}
        system_fields = _schema_fields(manifest.system_config_schema)
        system = {**stored, **{name: value for name, value in self.author_config.items() if name in system_fields}}
        project = {name: value for name, value in self.author_config.items() if name not in system_fields}
        merged = merge_config(manifest.config_schema, manifest.system_config_schema, project, system)
        return resolve_config_paths(manifest, merged, self.cage_places(store.tenant, manifest.name))


def _schema_fields(schema: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset((schema or {}).get("properties", {}))
