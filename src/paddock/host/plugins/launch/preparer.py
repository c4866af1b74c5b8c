"""Prepares a plugin's start: verify its files, resolve its configuration, compile its cage."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.granted_paths import GrantRoots, config_directories
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.spec import MIB, CageSpec, Learning, ResourceLimits
from paddock.config.directories import Directories
from paddock.config.knob_values import RejectedKnobValue, config_fields
from paddock.config.local_file import read_entries
from paddock.config.plugin_config import merge_config
from paddock.config.settings import Settings
from paddock.core.action import Action
from paddock.core.errors import Invalid, NotFound, PluginError
from paddock.core.events.plugin_runtime import PluginConfigValidationFailed
from paddock.core.ids import Tenant, new_id
from paddock.host.plugins.configuration.knobs import stored_knob_values
from paddock.host.plugins.launch.filesystem_probe import FilesystemProbe
from paddock.host.plugins.launch.launch_command import base_interpreter, build_launch_command
from paddock.host.plugins.launch.substitution import SecretEnvironment, substitute_references
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.permissions import limit_to_kind
from paddock.plugins.manage.enable import require_intact
from paddock.plugins.store.node_files import ensure_local_files, find_environment
from paddock.plugins.store.purge import plugin_folder
from paddock.plugins.store.rows import versions_of
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import Deployment, InProcessTarget, RemoteTarget, StartSpec
from paddock.secrets.wrapping_keys import WrappingKeys

if TYPE_CHECKING:
    from paddock.plugins.environments.store import Environment


def make_directory_nofollow(base: Path, path: Path) -> None:
    """Create `path`, which lies below `base`, with all missing directories between them.

    Only `base` itself is trusted. Each step below it is opened by descriptor and rejects symbolic links: a plugin that
    put one there would otherwise make us create directories, with our permissions, wherever it points.

    Raises:
        PluginError: something other than a directory is in the way.
    """
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory_fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.relative_to(base).parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=directory_fd)
            child_fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory_fd)
            os.close(directory_fd)
            directory_fd = child_fd
    except OSError as error:
        raise PluginError(
            f"{path} cannot be made for the plugin: {error.strerror}",
            code="plugin.folder_blocked",
            hint=f"look at what is there: ls -ld {path}",
        ) from error
    finally:
        os.close(directory_fd)


class LaunchInputs(Struct, frozen=True):
    """The inputs of one start from the store; the files were verified against the digest that was consented to."""

    cage_id: str
    root: str
    config: Mapping[str, Any]
    environment: Environment | None
    left_out: tuple[RejectedKnobValue, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """A start that is prepared, the manifest with its references substituted, and the directory of its files."""

    start_spec: StartSpec
    manifest: Manifest = dataclasses.field(repr=False)  # may hold secrets in the clear
    root: str


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchPreparer:
    """Prepares every start of every plugin; see `SupervisorDeps.prepare`."""

    store: StoreThread
    filesystem_probe: FilesystemProbe
    directories: Directories
    settings: Settings
    environ: Mapping[str, str]
    keys: WrappingKeys
    logs: PluginLogs

    async def __call__(self, deployment: Deployment) -> StartSpec:
        if deployment.functions is not None:
            return StartSpec(InProcessTarget(deployment.manifest, deployment.functions))
        return (await self.prepare(deployment)).start_spec

    async def prepare(self, deployment: Deployment, learning: Learning | None = None) -> PreparedLaunch:
        """Prepare a start of an installed plugin, in a learning cage if one is described.

        Raises:
            PaddockError: it must not or cannot run.
        """
        inputs = await self.store.run(lambda store: self.resolve_inputs(store, deployment), deployment.key.tenant)
        for rejected in inputs.left_out:
            message = f"[paddock] the knob {rejected.knob} is not at what was set: {rejected.reason}"
            self.logs.write(log_name(deployment.key.tenant, deployment.name), message)
        own_folder = str(self.own_folder(deployment.key.tenant, deployment.name))
        manifest = substitute_references(deployment.manifest, inputs.config, inputs.root, own_folder)
        if isinstance(manifest.runtime, RemoteRuntime):
            runtime = manifest.runtime
            target = RemoteTarget(runtime.url, runtime.headers, runtime.transport)
            return PreparedLaunch(StartSpec(target, inputs.config), manifest, inputs.root)
        deployment = replace(deployment, manifest=manifest)
        # Not on the store's thread, which every plugin needs: a granted path may be on a mount that never answers.
        try:
            cage = await self.filesystem_probe.run(
                deployment.key, lambda filesystem: self._compile_cage(deployment, inputs, filesystem, learning)
            )
        except CageUnavailable as error:
            if error.error_code != "cage.path_missing":
                raise
            raise error.with_remedy(hint=error.hint, action=self.retry_action(deployment)) from error
        return PreparedLaunch(StartSpec(cage, inputs.config), manifest, inputs.root)

    def resolve_inputs(self, store: PluginStore, deployment: Deployment) -> LaunchInputs:
        """Resolve the files and the configuration to start with. Blocking; on the store's thread.

        Raises:
            PaddockError: it must not run.
        """
        manifest = deployment.manifest
        rows = store.database.read(lambda tx: versions_of(tx, deployment.name))
        row = next((row for row in rows if row.digest == deployment.key.digest), None)
        if row is None:
            raise NotFound(f"{deployment.name} was removed meanwhile", code="plugin.not_found")
        require_intact(store, row)
        try:
            config = self.effective_config(store, manifest)
        except Invalid as error:
            self._record_invalid(store, manifest, error)
            configure = Action.of("plugin.configure", plugin=manifest.name, tenant=store.tenant)
            raise error.with_remedy(
                hint=error.hint or "set its configuration fields, then enable it again",
                action=error.action or configure,
            ) from error
        inputs = self.build_inputs(
            store, deployment, ensure_local_files(store, row), config, find_environment(store, row)
        )
        return replace(inputs, left_out=stored_knob_values(store, manifest).left_out)

    def build_inputs(
        self,
        store: PluginStore,
        deployment: Deployment,
        root: Path,
        config: Mapping[str, Any],
        environment: Environment | None = None,
    ) -> LaunchInputs:
        """Build the inputs of a start, after creating the plugin's own folders."""
        # The host creates the plugin's own folder; all other paths belong to the machine's owner.
        own_folder = self.own_folder(deployment.key.tenant, deployment.name)
        for path in config_directories(deployment.capabilities, str(own_folder)):
            make_directory_nofollow(own_folder, Path(path))
        return LaunchInputs(new_id("cage", store.clock, store.random), str(root), config, environment)

    def _compile_cage(
        self, deployment: Deployment, inputs: LaunchInputs, filesystem: HostFilesystem, learning: Learning | None
    ) -> CageSpec:
        manifest, limits = deployment.manifest, self.settings.limits
        granted = limit_to_kind(manifest.kind, deployment.capabilities)
        command = build_launch_command(manifest, inputs.root, granted, inputs.environment, filesystem)
        environment = spawn_environment(manifest, inputs.root, manifest.observability.log_level)
        cage = compile_cage(
            cage_id=inputs.cage_id,
            manifest=manifest,
            root=inputs.root,
            capabilities=granted,
            environment={**environment, **command.variables},
            command=command.argv,
            trees=command.trees,
            host_paths=HostPaths(
                python=base_interpreter(),
                sdk=str(Path(__file__).parents[4]),
                hidden=self.hidden_paths,
            ),
            filesystem=filesystem,
            roots=self.cage_places(deployment.key.tenant, deployment.name),
            limits=ResourceLimits(
                memory_bytes=limits.memory_mb * MIB,
                pids=limits.pids,
                cpu_weight=limits.cpu_weight,
                cpu_quota=limits.hard_quota(manifest.dialect.value),
            ),
            config=inputs.config,
            learning=learning,
        )
        return dataclasses.replace(cage, tenant=deployment.key.tenant)

    @property
    def hidden_paths(self) -> tuple[str, ...]:
        """Paddock's own directories, which no cage shows."""
        return tuple(str(path) for path in self.directories.all())

    def retry_action(self, deployment: Deployment) -> Action | None:
        """Return what to do once a problem of this machine is fixed: calls do not retry a start that was rejected."""
        return Action.of("plugin.enable", plugin=deployment.name, tenant=deployment.key.tenant)

    def cage_places(self, tenant: Tenant, plugin: str) -> GrantRoots:
        """Return the root of `config:` paths: a folder of the plugin's own. Project roots come with sessions."""
        return GrantRoots(config=str(self.own_folder(tenant, plugin)))

    def own_folder(self, tenant: Tenant, plugin: str) -> Path:
        return plugin_folder(self.directories.data, tenant, plugin)

    def effective_config(self, store: PluginStore, manifest: Manifest) -> dict[str, Any]:
        """Return the configuration that the plugin gets.

        Raises:
            Invalid: it violates the plugin's schema; carries every mistake.
        """
        return self.config_with_project_values(
            store, manifest, config_fields(manifest, stored_knob_values(store, manifest).values)
        )

    def config_with_project_values(
        self, store: PluginStore, manifest: Manifest, project: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the plugin's configuration with these project values."""
        entry = read_entries(store.config_file).get(manifest.name)
        system = entry.system_values(self.reference_environment(store)) if entry else {}
        merged = merge_config(manifest.config_schema, manifest.system_config_schema, project, system)
        return resolve_config_paths(manifest, merged, self.cage_places(store.tenant, manifest.name))

    def reference_environment(self, store: PluginStore) -> Mapping[str, str]:
        """Return what a plugin's configuration may refer to: environment variables and the tenant's secrets."""
        return SecretEnvironment(self.environ, store, self.keys)

    def _record_invalid(self, store: PluginStore, manifest: Manifest, error: Invalid) -> None:
        event = PluginConfigValidationFailed(
            name=manifest.name, side="system", errors=tuple(str(problem) for problem in error.problems)
        )
        store.database.write(lambda tx: store.publish(tx, event))


def resolve_config_paths(manifest: Manifest, config: Mapping[str, Any], roots: GrantRoots) -> dict[str, Any]:
    """Resolve every path knob's `config:/…` to a real path, as the plugin's cage mounts it."""
    resolved = dict(config)
    for knob in manifest.knobs:
        field = knob.binds_to.removeprefix("config.")
        value = resolved.get(field)
        if knob.type == "path" and isinstance(value, str) and value.startswith("config:") and roots.config:
            resolved[field] = str(Path(roots.config) / value.removeprefix("config:").lstrip("/"))
    return resolved
