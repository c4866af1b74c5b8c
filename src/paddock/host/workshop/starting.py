"""Starting a plugin from a copy of its folder: the same cage as ever, without rows and without a consent on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.config.local import read_entries
from paddock.config.plugin_config import merge_config
from paddock.core.errors import HostError
from paddock.host.starting import Checked, Starter, with_places
from paddock.manifest.model import Manifest
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.supervision.deployment import Deployment


@dataclass(frozen=True, slots=True)
class FolderStarter(Starter):
    """Prepares starts of what lies in folders; see `Starter`.

    Attributes:
        given: The configuration that the author gave; beside it counts what the home's `local.toml` says.
        roots: Where the files of each deployment are, by its digest.
    """

    given: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    roots: dict[str, Path] = field(default_factory=dict[str, Path])

    def check(self, store: PluginStore, deployment: Deployment) -> Checked:
        root = self.roots.get(deployment.key.digest)
        if root is None:
            raise HostError(f"{deployment.name} has no files")
        return self.checked(store, deployment, root, self.config_of(store, deployment.manifest))

    def after_mending(self, deployment: Deployment) -> str:
        del deployment
        return ""  # nothing is installed that could be enabled

    def config_of(self, store: PluginStore, manifest: Manifest) -> dict[str, Any]:
        entry = read_entries(store.local_file).get(manifest.name)
        kept = entry.system_values(self.known_in(store)) if entry else {}
        ours = _fields(manifest.system_config_schema)
        system = {**kept, **{name: value for name, value in self.given.items() if name in ours}}
        project = {name: value for name, value in self.given.items() if name not in ours}
        merged = merge_config(manifest.config_schema, manifest.system_config_schema, project, system)
        return with_places(manifest, merged, self.places_of(store.tenant, manifest.name))


def _fields(schema: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset((schema or {}).get("properties", {}))
