"""Prepares the start of a server that is not installed: its files are in staging, and it has no configuration yet."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from paddock.core.action import Action
from paddock.host.plugins.launch.preparer import LaunchInputs, LaunchPreparer
from paddock.plugins.environments.store import Environment
from paddock.plugins.store.store import PluginStore
from paddock.runtime.deployment import Deployment


@dataclasses.dataclass(frozen=True, slots=True)
class StagedLaunchPreparer(LaunchPreparer):
    """Prepares starts of one staged package; see `LaunchPreparer`."""

    root: Path
    environment: Environment | None

    def resolve_inputs(self, store: PluginStore, deployment: Deployment) -> LaunchInputs:
        return self.build_inputs(store, deployment, self.root, {}, self.environment)

    def retry_action(self, deployment: Deployment) -> Action | None:
        del deployment  # it is not installed, so it cannot be enabled
        return None


def staged_preparer(preparer: LaunchPreparer, root: Path, environment: Environment | None) -> StagedLaunchPreparer:
    """Return a preparer for the files in staging; all else is as for installed plugins."""
    shared = {field.name: getattr(preparer, field.name) for field in dataclasses.fields(LaunchPreparer)}
    return StagedLaunchPreparer(**shared, root=root, environment=environment)
