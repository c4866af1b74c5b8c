"""The running host: the object that the HTTP API, the command line and embedding programs use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import anyio

from paddock.capabilities.artifacts.service import ArtifactService
from paddock.config.directories import Directories
from paddock.config.resolve import LoadedSettings
from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NeedsApproval, PaddockError
from paddock.core.ids import DEFAULT_TENANT, PluginName, PrincipalId, RequestId, Tenant, new_id
from paddock.core.single_flight import SingleFlight
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens
from paddock.gate.gate import Gate
from paddock.gate.idempotency.states import validate_idempotency_key
from paddock.host.calling.actions import Actions
from paddock.host.calling.activation import Activation
from paddock.host.calling.approvals import ApprovalService
from paddock.host.calling.caller_view import CallableAccess, PermittedPlugins
from paddock.host.calling.resources import ResourceReader
from paddock.host.calling.unknown_outcomes import UnknownOutcomes
from paddock.host.explain.explain_service import ExplainService
from paddock.host.identity.api_keys import ApiKeyService
from paddock.host.identity.caller import build_call_context, local_principal
from paddock.host.identity.console_sessions import ConsoleSessions
from paddock.host.identity.credentials import CredentialVerifier
from paddock.host.identity.oidc import OidcIdentities
from paddock.host.identity.people import ConsentService, PeopleService
from paddock.host.ledger.reader import LedgerReader
from paddock.host.ledger.verification import VerificationService
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.observability.health import HostHealth
from paddock.host.observability.metrics import Metrics
from paddock.host.plugins.activity import ActivityReader
from paddock.host.plugins.config_service import ConfigService
from paddock.host.plugins.discovery import DefinitionService
from paddock.host.plugins.embedded_plugin import build_embedded, replace_log_hint
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.knob_service import KnobService
from paddock.host.plugins.knobs import KnobsJson, describe_knobs
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.pubsub import Subscription
from paddock.host.plugins.reconciler import Reconciler, tenant_plugin_of
from paddock.host.plugins.supervisor_events import SupervisorEvents
from paddock.host.plugins.uninstall import UninstallCleanup, UninstallService
from paddock.host.plugins.versions import VersionService
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.policy_service import PolicyService
from paddock.host.repairs.fact_collector import FactCollector
from paddock.host.repairs.host_probe import HostProbe
from paddock.host.repairs.repair_actions import RepairActions
from paddock.host.repairs.repair_service import RepairService
from paddock.host.secrets.secret_service import SecretService
from paddock.host.secrets.usage import SecretUsageService
from paddock.host.secrets.user_requirements import UserRequirements
from paddock.manifest.capability import Capability
from paddock.plugins.manage.details import load_details
from paddock.plugins.manage.enable import disable, enable
from paddock.plugins.store.listing import InstalledPlugin, InstalledState, list_plugins
from paddock.plugins.store.lookup import require_plugin
from paddock.plugins.store.purge import check_no_pending_purge
from paddock.plugins.store.thread import StoreThread
from paddock.principals.principal_name import resolve_principal
from paddock.principals.tenants import require_tenant
from paddock.runtime.calls import AskCaller, OnEvent
from paddock.runtime.deployment import PluginStatus
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import DRAIN_TIMEOUT_S, Supervisor
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.webhooks.live_events import LiveEvents

VERSION_START_TIMEOUT_S = 60.0  # how long a version change waits for the new processes


class Host:
    """A running host. Built by `open_host`."""

    def __init__(
        self,
        *,
        directories: Directories,
        loaded_settings: LoadedSettings,
        store: StoreThread,
        views: StoreThread,
        supervisor: Supervisor,
        gate: Gate,
        calls: CallRegistry,
        approval_tokens: ApprovalTokens,
        approvals: ApprovalService,
        credentials: CredentialVerifier,
        console_sessions: ConsoleSessions,
        people: PeopleService,
        api_keys: ApiKeyService,
        consents: ConsentService,
        oidc_identities: OidcIdentities,
        explain_service: ExplainService,
        ledger: LedgerReader,
        verification: VerificationService,
        activation: Activation,
        install_service: InstallService,
        active_policy: ActivePolicy,
        policy: PolicyService,
        health: HostHealth,
        metrics: Metrics,
        reconciler: Reconciler,
        uninstall_cleanup: UninstallCleanup,
        knob_service: KnobService,
        config_service: ConfigService,
        activity: ActivityReader,
        artifacts: ArtifactService,
        definitions: DefinitionService,
        live_events: LiveEvents,
        webhooks: WebhookService,
        unknown_outcomes: UnknownOutcomes,
        keys: WrappingKeys,
        host_probe: HostProbe,
        environ: Mapping[str, str],
        logs: PluginLogs,
        supervisor_events: SupervisorEvents,
        clock: Clock,
        random: Random,
    ) -> None:
        self.directories = directories
        self.loaded_settings = loaded_settings  # each setting with where it came from
        self.settings = loaded_settings.settings
        self.calls = calls
        self.actions = Actions(gate, calls, approval_tokens)
        self.permitted_plugins = PermittedPlugins(gate)
        self.callable_access = CallableAccess(gate, calls, approval_tokens, active_policy, reconciler)
        self.approvals = approvals
        self.credentials = credentials
        self.console_sessions = console_sessions
        self.people = people
        self.api_keys = api_keys
        self.consents = consents
        self.oidc_identities = oidc_identities
        self.explain_service = explain_service
        self.ledger = ledger
        self.verification = verification
        self.activation = activation
        self.install_service = install_service
        self.install_service.apply_version_change = self._apply_version_change
        self.uninstall_service = UninstallService(store, self.reconcile)
        self.versions = VersionService(store, views, self._apply_version_change)
        self.knob_service = knob_service
        self.config_service = config_service
        self.activity = activity
        self.active_policy = active_policy
        self.policy = policy
        self.health = health
        self.metrics = metrics
        self.definitions = definitions
        self.artifacts = artifacts
        self.live_events = live_events
        self.webhooks = webhooks
        self.unknown_outcomes = unknown_outcomes
        self.secrets = SecretService(views, keys, reconciler.reconcile)
        self.secret_usage = SecretUsageService(views)
        self.user_requirements = UserRequirements(gate.catalogue, self.permitted_plugins, self.secrets)
        fact_collector = FactCollector(
            views,
            self.runtime_status,
            self._restart_if_modified,
            gate.catalogue,
            health,
            host_probe,
            keys,
            environ,
            clock,
        )
        repair_actions = RepairActions(store, self, self.versions, self._apply_version_change, webhooks, self.secrets)
        self.repairs = RepairService(fact_collector, repair_actions, views)
        self._store = store
        self._views = views  # a second thread, so that reads never wait behind a start that reads a large package
        # Every open console page polls this, and each listing checks the files of all plugins: share one run.
        self._shared_listing: SingleFlight[Tenant, list[InstalledPlugin]] = SingleFlight(
            lambda tenant: views.run(list_plugins, tenant)
        )
        self._supervisor = supervisor
        self._gate = gate
        self._approval_tokens = approval_tokens
        self._resources = ResourceReader(views, gate, calls)
        self._reconciler = reconciler
        self._uninstall_cleanup = uninstall_cleanup
        self._logs = logs
        self._supervisor_events = supervisor_events
        self._clock = clock
        self._random = random

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        principal: Principal | None = None,
        context: CallContext | None = None,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
        approval_token: str | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call `<plugin>.<callable>` and wait for the result.

        Args:
            name: The full name.
            params: The parameters of the call.
            principal: The caller; the person at this machine when left out. See `principal`.
            context: The caller with everything else known about the call; replaces `principal`.
            on_event: Receives the events that the plugin emits while it works. Without a listener an MCP server sends
                no progress, so its tools get the ordinary timeout however far they are.
            ask: Puts the plugin's questions to a person; without it they are declined.
            approval_token: The `token` of an earlier NeedsApproval: resumes that call, once, instead of making
                another. Valid only for the same caller, name and parameters.
            idempotency_key: Repeating an effect under the same key returns the first result; other parameters are a
                Conflict.

        Raises:
            NeedsApproval: a person has to approve first; the call is listed in `calls` and continues once approved.
            PaddockError: the call was denied or failed.
        """
        if context is None:
            context = self.operator_context(None) if principal is None else self.call_context(principal)
        if idempotency_key is not None:
            context = replace(context, idempotency_key=validate_idempotency_key(idempotency_key))
        target = self._gate.catalogue(context.tenant).find(name)
        if approval_token is not None:
            return await (await self.claim_approved_call(approval_token, name, params, context)).wait()
        try:
            return await self.calls.call(target, params, context, on_event=on_event, ask=ask)
        except NeedsApproval:
            raise
        except PaddockError as error:
            plugin = target.manifest.name
            if context.tenant == DEFAULT_TENANT and plugin in self._reconciler.embedded:
                replace_log_hint(error, plugin)
            raise

    async def claim_approved_call(
        self, token: str, name: str, params: Mapping[str, Any], context: CallContext
    ) -> CallHandle:
        """Redeem an approval token for the call that waited for it. See `ApprovalTokens.redeem`."""
        return await self._approval_tokens.redeem(
            token, self._gate.catalogue(context.tenant).find(name), params, context
        )

    async def describe_call(self, call: CallHandle) -> dict[str, Any]:
        """Serialize a call; for one in progress also include the operator's last report and the next poll time."""
        long_running = self._gate.long_running
        record = call.to_json()
        if call.status == "in_progress" and long_running is not None:
            record["in_progress"] = await long_running.progress(call.context.tenant, call.id)
        return record

    def operator_context(self, operator: str | None, tenant: Tenant = DEFAULT_TENANT) -> CallContext:
        """Build the context of a call by the person at this machine, in an existing tenant (see `tenant`)."""
        return self.call_context(local_principal(operator, tenant), operator=operator)

    def call_context(
        self,
        principal: Principal,
        *,
        operator: str | None = None,
        trace: str | None = None,
        idempotency_key: str | None = None,
    ) -> CallContext:
        """Build the context of a call; `operator` is the operator who made it on the principal's behalf, if any."""
        request = RequestId(new_id("req", self._clock, self._random))
        return build_call_context(principal, request, operator, trace=trace, idempotency_key=idempotency_key)

    async def tenant(self, name: str) -> Tenant:
        """Look up a tenant by name.

        Raises:
            NotFound: no such tenant.
        """
        if name == DEFAULT_TENANT:
            return DEFAULT_TENANT
        row = await self._views.run(lambda store: store.database.read(lambda tx: require_tenant(tx, name)))
        return row.name

    async def principal(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Principal:
        """Resolve a principal by name, as in `user:ann`, with its current roles, scopes and groups.

        A name proves nothing: only the operator of the host may name others. `acme/user:ann` is Ann of tenant acme;
        `tenant` applies where the name does not say.

        Raises:
            OperatorError: the name does not denote a principal that can act.
            NotFound: no such principal.
            Denied: the principal is no longer allowed to act.
        """
        now = self._clock.now()
        return await self._views.run(
            lambda store: store.database.read(lambda tx: resolve_principal(tx, name, tenant, now))
        )

    async def embed(self, manifest: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        """Serve functions of this program to the default tenant as a plugin, behind the same gate as all others.

        They run in this process, without a cage, and every recorded call says so. A function gets its parameters by
        name, and the call itself as `call` if it has a parameter of that name.

        Args:
            manifest: As in `paddock.yaml`, without a runtime.
            functions: One for each callable that the manifest declares, by name.

        Raises:
            Invalid: manifest and functions do not match; carries every mistake.
            Conflict: another plugin has that name.
            Busy: another plugin had that name and is still being removed.
        """
        embedded = build_embedded(manifest, functions)
        name = str(embedded.deployment.name)
        installed = {listed.plugin.name for listed in await self._views.run(list_plugins)}
        if name in installed or name in self._reconciler.embedded:
            raise Conflict(f"there is a plugin {name!r} already", code="plugin.name_taken", hint="choose another name")
        await self._store.run(lambda store: check_no_pending_purge(store, name))
        self._reconciler.embedded[name] = embedded
        await self._reconciler.reconcile()
        await self.approvals.restore_waiting_calls(name)

    def callables(self, tenant: Tenant = DEFAULT_TENANT) -> tuple[str, ...]:
        """Return the full names of everything that a tenant can call."""
        return self._gate.catalogue(tenant).names()

    # --- tools, documents and prompts ---------------------------------------------------------------------------------

    async def tools(self, plugin: str, *, tenant: Tenant = DEFAULT_TENANT, discover: bool = False) -> dict[str, Any]:
        """List a plugin's `tools`, each with description, input schema, effects and status.

        Args:
            plugin: Its name or an alias.
            tenant: The tenant: each tenant discovers a server's tools separately.
            discover: Start a server that never ran; without this nothing is `known` about it.

        Raises:
            NotFound: it is not installed; or not enabled, where it has to be started.
            PaddockError: it had to be started and failed to run.
        """
        return await self._resources.tools(plugin, tenant, discover=discover)

    async def resources(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """List a plugin's `resources`, resource `templates`, and those that are `withheld` from use.

        Nothing is `known` about a server that never ran.

        Raises:
            NotFound: it is not installed.
        """
        return await self._resources.resources(plugin, tenant)

    async def read_resource(self, plugin: str, uri: str, *, context: CallContext | None = None) -> dict[str, Any]:
        """Read one resource of a plugin, as `contents`: it must be listed by its server or match one of its templates.

        Raises:
            NotFound: the plugin is not enabled, or offers nothing there.
            PaddockError: see `call`.
        """
        return await self._resources.read_resource(plugin, uri, context or self.operator_context(None))

    async def prompts(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """List a plugin's `prompts` with their arguments. See `resources`."""
        return await self._resources.prompts(plugin, tenant)

    async def get_prompt(
        self, plugin: str, name: str, arguments: Mapping[str, Any] | None = None, *, context: CallContext | None = None
    ) -> dict[str, Any]:
        """Render a prompt as `messages`: by its server, or here where the manifest holds its text.

        Raises:
            NotFound: the plugin is not enabled, or has no such prompt.
            Invalid: the arguments do not match the declared ones; carries every mistake.
            PaddockError: see `call`.
        """
        return await self._resources.get_prompt(plugin, name, arguments or {}, context or self.operator_context(None))

    # --- plugins ------------------------------------------------------------------------------------------------------

    async def plugins(self, tenant: Tenant = DEFAULT_TENANT) -> list[dict[str, Any]]:
        """List every installed plugin with its runtime status for a tenant. Stops plugins whose files changed.

        For operators of the host: plugins are installed for all, and this also lists those that the tenant has not
        enabled. The list for the tenant's own people is `callables`.
        """
        listed = await self._shared_listing.run(tenant)
        for plugin in listed:
            if plugin.version is not None:
                self._restart_if_modified(plugin.plugin.name, plugin.version.digest, plugin.state)
        return [self._plugin_summary(plugin, tenant) for plugin in listed]

    async def plugin(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """Describe one installed plugin; its process is stopped if its files changed. See `plugins`.

        Raises:
            NotFound: it is not installed.
        """
        details = await self._views.run(lambda store: load_details(store, name), tenant)
        facts = await asyncio.to_thread(details.to_value)  # a server may say a great deal
        self._restart_if_modified(facts["name"], facts["digest"], facts["state"])
        return facts | {"runtime": self.runtime_status(facts["name"], tenant)}

    async def knobs(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> KnobsJson:
        """Describe a plugin's knobs. See `describe_knobs`; `knob_service` changes them."""
        return await self._views.run(lambda store: describe_knobs(store, name), tenant)

    async def enable(
        self,
        name: str,
        *,
        tenant: Tenant = DEFAULT_TENANT,
        acknowledged: Iterable[Capability] = (),
        anew: bool = False,
        by: PrincipalId | None = None,
    ) -> dict[str, Any]:
        """Enable a plugin for a tenant, and wait until it runs or has failed.

        Args:
            name: Its name or an alias.
            tenant: The tenant. Installing a plugin grants its requested capabilities to the default tenant alone.
            acknowledged: The capabilities that a person has just granted for this tenant.
            anew: Start a new process even if one is running.
            by: The principal to record; the operator by default.

        Raises:
            NeedsConsent: the plugin requests more than the tenant granted; nothing has changed.
            PaddockError: it cannot be enabled; see `plugins/manage/enable.py`.
        """
        granted = tuple(acknowledged)
        recorded_by = by or local_principal(None).id
        row = await self._store.run(lambda store: enable(store, name, granted), tenant, by=recorded_by)
        await self._reconciler.reconcile()
        blocked = self._reconciler.blocked.get((tenant, row.plugin))
        if blocked is not None:
            raise blocked.error
        key = self._reconciler.current_keys.get((tenant, row.plugin))
        if key is None:
            raise Conflict(
                f"{row.plugin} was disabled while it was being enabled",
                code="plugin.changed_meanwhile",
                hint="run the command again",
            )
        status = await (self._reconciler.restart(key) if anew else self._reconciler.enable(key))
        unused = await self._reconciler.wait_unused_config_reason(key)
        return {"name": row.plugin, "version": row.version, **runtime_to_json(status, unused_config=unused)}

    async def disable(
        self, name: str, tenant: Tenant = DEFAULT_TENANT, *, by: PrincipalId | None = None
    ) -> dict[str, Any]:
        """Stop a plugin and disable it for a tenant. Its grants stay. `by` as in `enable`."""
        plugin = await self._store.run(lambda store: disable(store, name), tenant, by=by or local_principal(None).id)
        await self._reconciler.reconcile()
        await self._reconciler.stop_unwanted(plugin.name, tenant)
        return {"name": plugin.name, "version": plugin.current_version, "state": "disabled"}

    async def logs(self, name: str, *, tenant: Tenant = DEFAULT_TENANT, lines: int = 50) -> list[dict[str, Any]]:
        """Return the last lines that a tenant's plugin wrote to its standard error, oldest first.

        Raises:
            NotFound: it is not installed.
            HostError: the disk with the log files does not answer.
        """
        return await self._logs.read_last(log_name(tenant, await self._resolve_name(name)), lines)

    async def follow_logs(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Subscription[dict[str, Any]]:
        """Follow new log lines, starting when this is awaited, not at the first read."""
        return self._logs.follow(log_name(tenant, await self._resolve_name(name)))

    async def follow_notifications(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Subscription[dict[str, Any]]:
        """Follow the plugin's notifications from now on."""
        return self._supervisor_events.follow_notifications(tenant, await self._resolve_name(name))

    def follow_states(self) -> Subscription[PluginStatus]:
        """Follow every plugin state change of all tenants from now on, for operators of the host."""
        return self._supervisor_events.follow_states()

    def statuses(self) -> tuple[PluginStatus, ...]:
        """Return the status of every plugin instance the supervisor knows, of all tenants."""
        return self._supervisor.statuses()

    def starts_on_demand(self, status: PluginStatus) -> bool:
        """Return whether the plugin has no process right now because its next call starts one."""
        idle = status.state in (PluginState.DISABLED, PluginState.STOPPED)
        return idle and self._reconciler.current_keys.get(tenant_plugin_of(status.key)) == status.key

    async def wait_settled(self, timeout_s: float | None = None) -> tuple[PluginStatus, ...]:
        """Return all statuses once each plugin runs or failed; after `timeout_s` some may still be starting."""
        with anyio.move_on_after(timeout_s):
            for status in self._supervisor.statuses():
                if (
                    status.state in (PluginState.SPAWNING, PluginState.DISABLED)
                    and self._reconciler.current_keys.get(tenant_plugin_of(status.key)) == status.key
                ):
                    await self._supervisor.wait_settled(status.key)
        return self._supervisor.statuses()

    # --- the daemon's own ---------------------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Apply rows that a command changed. The changes are in effect when this returns."""
        await self._reconciler.reconcile()
        self._reconciler.retry_modified()
        await self._reconciler.wait_applied()
        await self._uninstall_cleanup.start_pending()
        await self._uninstall_cleanup.wait_finished()

    async def _apply_version_change(self, name: str) -> None:
        """Reconcile after a version change, and wait (bounded) until the plugin's processes run or have failed."""
        await self.reconcile()
        with anyio.move_on_after(VERSION_START_TIMEOUT_S):
            for status in self._supervisor.statuses():
                if status.key.plugin == name and status.state is PluginState.SPAWNING:
                    await self._supervisor.wait_settled(status.key)

    async def drain(self) -> None:
        """Stop taking calls and wait, bounded, for those in flight."""
        await self.calls.drain(DRAIN_TIMEOUT_S)

    async def _resolve_name(self, name: str) -> str:
        plugin = await self._views.run(lambda store: store.database.read(lambda tx: require_plugin(tx, name)))
        return plugin.name

    def _restart_if_modified(self, name: str, digest: str, state: str) -> None:
        """Apply a modification just seen in a plugin's files to its processes, of every tenant."""
        if state == InstalledState.MODIFIED:
            for key in self._reconciler.current_keys.values():
                if key.plugin == name and key.digest == digest:
                    self._reconciler.restart_modified(key)

    def _plugin_summary(self, installed: InstalledPlugin, tenant: Tenant) -> dict[str, Any]:
        return {
            "name": installed.plugin.name,
            "version": installed.version.version if installed.version else installed.plugin.current_version,
            "state": installed.state.value,
            "given_up": installed.given_up,
            "kind": installed.kind,
            "description": installed.description,
            "waiting": installed.waiting,
            "runtime": self.runtime_status(installed.plugin.name, tenant),
        }

    def runtime_status(self, name: str, tenant: Tenant) -> dict[str, Any] | None:
        """Return the status of a plugin's process for a tenant, by the plugin's own name; None if it has none."""
        blocked = self._reconciler.blocked.get((tenant, name))
        if blocked is not None:
            return runtime_to_json(blocked.status())
        statuses = self._supervisor.statuses_of(tenant, PluginName(name))
        current = self._reconciler.current_keys.get((tenant, name))
        status = next((one for one in statuses if one.key == current), statuses[-1] if statuses else None)
        if status is None:
            return None
        unused = self._reconciler.unused_config_reasons.get(status.key, "")
        return runtime_to_json(status, on_demand=self.starts_on_demand(status), unused_config=unused)


def runtime_to_json(status: PluginStatus, *, on_demand: bool = False, unused_config: str = "") -> dict[str, Any]:
    """Serialize a plugin's status; see `Host.starts_on_demand` and `Reconciler.unused_config_reasons`."""
    return {
        "state": status.state.value,
        "on_demand": on_demand,
        "pid": status.pid,
        "cage_id": status.cage_id,
        "reason": status.reason,
        "hint": status.hint,
        "error_code": status.error_code,
        "failures": status.failures,
        "restarts": status.restarts,
        "last_failure": asdict(status.last_failure) if status.last_failure else None,
        "running_since": status.running_since,
        "restarts_in": status.restarts_in,
        "in_flight": status.in_flight,
        "calls": status.calls,
        "unavailable_methods": list(status.unavailable_methods),
        "features": list(status.features),
        "unused_config": unused_config,
    }
