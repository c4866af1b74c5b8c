"""Copies of a plugin's folder. Its author goes on writing; what runs must stay as it was when it started. Blocks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.config.local_file import read_entries
from paddock.config.plugin_config import merge_config
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


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """The folder as it was at one moment, judged as an install would judge it."""

    root: Path
    digest: Digest
    manifest: Manifest
    warnings: tuple[Problem, ...]

    def remove(self) -> None:
        """Nothing runs from it any more."""
        shutil.rmtree(self.root, ignore_errors=True)


def snapshot_folder(folder: Path, staging: Path, trees: Path, number: int) -> SourceSnapshot:
    """A copy of the folder below `trees`.

    Args:
        folder: The author's.
        staging: Where copies are made.
        trees: Where they are kept.
        number: Which copy it is; two of the same files are still two.

    Raises:
        Invalid: the package could not be installed, or not be enabled; carries every reason.
        OperatorError: the folder cannot be read, or holds nothing that runs here.
    """
    source = PackageSource(SourceKind.DIRECTORY, str(folder.resolve()))
    with stage_package(source, staging) as staged:
        reading = read_package(staged.root)
        manifest = reading.single()
        in_the_way = find_blockers(manifest, DirectoryFiles(staged.root))
        if in_the_way:
            raise Invalid(f"{manifest.name} cannot run yet", in_the_way, code="plugin.cannot_enable")
        if isinstance(manifest.runtime, RemoteRuntime):
            raise OperatorError(
                f"{manifest.name} is a server elsewhere: there is no program in this folder",
                code="dev.remote",
                hint="name the folder of the server itself",
            )
        root = trees / f"{manifest.name}-{number}"
        trees.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(root, ignore_errors=True)  # of a session before this one, which was killed
        staged.root.rename(root)
    shown = [one for one in reading.warnings if one not in in_the_way]
    return SourceSnapshot(root, Digest(f"{staged.tree.digest}#{number}"), manifest, tuple(shown))


@dataclass(frozen=True, slots=True)
class SnapshotLaunchPreparer(LaunchPreparer):
    """Prepares starts of what lies in folders; see `Starter`.

    Attributes:
        given: The configuration that the author gave; beside it counts what the home's `local.toml` says.
        roots: Where the files of each deployment are, by its digest.
    """

    given: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    roots: dict[str, Path] = field(default_factory=dict[str, Path])

    def resolve_inputs(self, store: PluginStore, deployment: Deployment) -> LaunchInputs:
        root = self.roots.get(deployment.key.digest)
        if root is None:
            raise HostError(f"{deployment.name} has no files")
        return self.build_inputs(store, deployment, root, self.effective_config(store, deployment.manifest))

    def retry_hint(self, deployment: Deployment) -> str:
        del deployment
        return ""  # nothing is installed that could be enabled

    def effective_config(self, store: PluginStore, manifest: Manifest) -> dict[str, Any]:
        entry = read_entries(store.local_file).get(manifest.name)
        kept = entry.system_values(self.reference_environment(store)) if entry else {}
        ours = _schema_fields(manifest.system_config_schema)
        system = {**kept, **{name: value for name, value in self.given.items() if name in ours}}
        project = {name: value for name, value in self.given.items() if name not in ours}
        merged = merge_config(manifest.config_schema, manifest.system_config_schema, project, system)
        return resolve_config_paths(manifest, merged, self.cage_places(store.tenant, manifest.name))


def _schema_fields(schema: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset((schema or {}).get("properties", {}))
