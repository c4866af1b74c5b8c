"""The last steps before a plugin starts: its files compared, its configuration read, its cage compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cage.launcher import CageUnavailable
from paddock.cage.plan.compile import Surroundings, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.grants import Places, config_directories
from paddock.cage.plan.machine import Machine
from paddock.cage.spec import MIB, CageSpec, Limits
from paddock.config.directories import Directories
from paddock.config.knob_values import LeftOut, fields_set
from paddock.config.local import read_entries
from paddock.config.plugin_config import merge_config
from paddock.config.settings import Settings
from paddock.core.errors import Invalid, NotFound
from paddock.core.events_host import PluginConfigValidationFailed
from paddock.core.ids import Tenant, new_id
from paddock.host.commands import base_interpreter, command_of
from paddock.host.filling import filled
from paddock.host.knobs import fitting_of
from paddock.host.log_files import log_name
from paddock.host.looking import Looks
from paddock.host.own_folder import make_directory
from paddock.host.plugin_logs import PluginLogs
from paddock.host.secret_references import WithSecrets
from paddock.manifest.kind_boundary import within_kind
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.plugins.enabling import require_intact
from paddock.plugins.leavings import own_folder
from paddock.plugins.local_copy import local_root
from paddock.plugins.local_environment import environment_of
from paddock.plugins.mending import for_tenant
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.rows import versions_of
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.supervision.deployment import Deployment, Elsewhere, Functions, Prepared
from paddock.secrets.keys import Keys

if TYPE_CHECKING:
    from paddock.plugins.environments.shelf import Environment


@dataclass(frozen=True, slots=True)
class Checked:
    """What the store says about one start: these files are the ones that were consented to."""

    cage_id: str
    root: str
    config: Mapping[str, Any]
    environment: Environment | None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Starter:
    """Prepares every start of every plugin; see `Prepare`."""

    store: StoreThread
    looks: Looks
    directories: Directories
    settings: Settings
    environ: Mapping[str, str]
    keys: Keys
    logs: PluginLogs

    async def __call__(self, deployment: Deployment) -> Prepared:
        if deployment.functions is not None:
            return Prepared(Functions(deployment.manifest, deployment.functions))
        checked = await self.store.run(lambda store: self.check(store, deployment), deployment.key.tenant)
        for one in checked.left_out:
            words = f"[paddock] the knob {one.knob} is not at what was set: {one.reason}"
            self.logs.write(log_name(deployment.key.tenant, deployment.name), words)
        own = str(self.own_folder(deployment.key.tenant, deployment.name))
        manifest = filled(deployment.manifest, checked.config, checked.root, own)
        if isinstance(manifest.runtime, RemoteRuntime):
            runtime = manifest.runtime
            return Prepared(Elsewhere(runtime.url, runtime.headers, runtime.transport), checked.config)
        deployment = replace(deployment, manifest=manifest)
        # Not on the store's thread, which every plugin needs: a granted place may be a mount that never answers.
        try:
            cage = await self.looks.run(deployment.key, lambda machine: self._compile(deployment, checked, machine))
        except CageUnavailable as error:
            if error.error_code == "cage.path_missing":
                error.hint += self.after_mending(deployment)
            raise
        return Prepared(cage, checked.config)

    def check(self, store: PluginStore, deployment: Deployment) -> Checked:
        """Which files to start, and with which configuration. Blocks; on the store's thread.

        Raises:
            PaddockError: it must not run.
        """
        manifest = deployment.manifest
        rows = store.database.read(lambda tx: versions_of(tx, deployment.name))
        row = next((row for row in rows if row.digest == deployment.key.digest), None)
        if row is None:
            raise NotFound(f"{deployment.name} was uninstalled meanwhile", code="plugin.not_found")
        require_intact(store, row)
        try:
            config = self.config_of(store, manifest)
        except Invalid as error:
            self._record_invalid(store, manifest, error)
            fields = f"paddock plugin configure {manifest.name}{for_tenant(store.tenant)}"
            error.hint = error.hint or f"its fields: {fields}{self.after_mending(deployment)}"
            raise
        checked = self.checked(store, deployment, local_root(store, row), config, environment_of(store, row))
        return replace(checked, left_out=fitting_of(store, manifest).left_out)

    def checked(
        self,
        store: PluginStore,
        deployment: Deployment,
        root: Path,
        config: Mapping[str, Any],
        environment: Environment | None = None,
    ) -> Checked:
        """A start with these files and this configuration, once the plugin's own folder is there."""
        # Its own folder is the host's to make; other places are the machine owner's.
        own = self.own_folder(deployment.key.tenant, deployment.name)
        for path in config_directories(deployment.capabilities, str(own)):
            make_directory(own, Path(path))
        return Checked(new_id("cage", store.clock, store.random), str(root), config, environment)

    def _compile(self, deployment: Deployment, checked: Checked, machine: Machine) -> CageSpec:
        manifest, limits = deployment.manifest, self.settings.limits
        granted = within_kind(manifest.kind, deployment.capabilities)
        command = command_of(manifest, checked.root, granted, checked.environment, machine)
        environment = spawn_environment(manifest, checked.root, manifest.observability.log_level)
        cage = compile_cage(
            cage_id=checked.cage_id,
            manifest=manifest,
            root=checked.root,
            capabilities=granted,
            environment={**environment, **command.variables},
            command=command.words,
            trees=command.trees,
            surroundings=Surroundings(
                python=base_interpreter(),
                sdk=str(Path(__file__).parents[2]),
                hidden=tuple(str(place) for place in self.directories.all()),
            ),
            machine=machine,
            places=self.places_of(deployment.key.tenant, deployment.name),
            limits=Limits(
                memory_bytes=limits.memory_mb * MIB,
                pids=limits.pids,
                cpu_weight=limits.cpu_weight,
                cpu_quota=limits.hard_quota(manifest.dialect.value),
            ),
        )
        return replace(cage, tenant=deployment.key.tenant)

    def after_mending(self, deployment: Deployment) -> str:
        """What ends the advice to mend this machine: a start that was refused is not tried again at each call."""
        return f"; then: paddock plugin enable {deployment.name}{for_tenant(deployment.key.tenant)}"

    def places_of(self, tenant: Tenant, plugin: str) -> Places:
        """What `config:` stands for: a folder of the plugin's own. Projects come with their own sessions."""
        return Places(config=str(self.own_folder(tenant, plugin)))

    def own_folder(self, tenant: Tenant, plugin: str) -> Path:
        return own_folder(self.directories.data, tenant, plugin)

    def config_of(self, store: PluginStore, manifest: Manifest) -> dict[str, Any]:
        """The configuration as the plugin gets it.

        Raises:
            Invalid: it does not fit what the plugin declares; carries every mistake.
        """
        return self.config_with(store, manifest, fields_set(manifest, fitting_of(store, manifest).values))

    def config_with(self, store: PluginStore, manifest: Manifest, project: Mapping[str, Any]) -> dict[str, Any]:
        """The same with these values on the project's side."""
        entry = read_entries(store.values_file).get(manifest.name)
        system = entry.system_values(self.known_in(store)) if entry else {}
        merged = merge_config(manifest.config_schema, manifest.system_config_schema, project, system)
        return with_places(manifest, merged, self.places_of(store.tenant, manifest.name))

    def known_in(self, store: PluginStore) -> Mapping[str, str]:
        """What a plugin's configuration may refer to: variables, and secrets of the tenant."""
        return WithSecrets(self.environ, store, self.keys)

    def _record_invalid(self, store: PluginStore, manifest: Manifest, error: Invalid) -> None:
        event = PluginConfigValidationFailed(
            name=manifest.name, side="system", errors=tuple(str(problem) for problem in error.problems)
        )
        store.database.write(lambda tx: store.publish(tx, event))


def with_places(manifest: Manifest, config: Mapping[str, Any], places: Places) -> dict[str, Any]:
    """The configuration with every path knob's `config:/…` made a real path, as the plugin's cage shows it."""
    resolved = dict(config)
    for knob in manifest.knobs:
        field = knob.binds_to.removeprefix("config.")
        value = resolved.get(field)
        if knob.type == "path" and isinstance(value, str) and value.startswith("config:") and places.config:
            resolved[field] = str(Path(places.config) / value.removeprefix("config:").lstrip("/"))
    return resolved
