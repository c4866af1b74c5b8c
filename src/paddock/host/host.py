"""A running host, as the HTTP API, the command line and programs that embed it see it."""

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
from paddock.core.ids import DEFAULT_TENANT, CallId, PluginName, PrincipalId, RequestId, Tenant, new_id
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
from paddock.host.plugins.embedded import build_embedded, replace_log_hint
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.knob_service import KnobService
from paddock.host.plugins.knobs import describe_knobs
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
from paddock.plugins.store.listing import InstalledPlugin, list_plugins
from paddock.plugins.store.listing import InstalledState as Seen
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

VERSION_START_TIMEOUT_S = 60.0  # seconds for which somebody waits who moved a plugin to another version


class Host:
    """A running host. Made by `open_host`."""

    def __init__(
        self,
        *,
        directories: Directories,
        loaded: LoadedSettings,
        store: StoreThread,
        views: StoreThread,
        supervisor: Supervisor,
        gate: Gate,
        calls: CallRegistry,
        claims: ApprovalTokens,
        approving: ApprovalService,
        credentials: CredentialVerifier,
        console: ConsoleSessions,
        people: PeopleService,
        api_keys: ApiKeyService,
        consents: ConsentService,
        sign_ins: OidcIdentities,
        explaining: ExplainService,
        ledger: LedgerReader,
        verifying: VerificationService,
        activation: Activation,
        installing: InstallService,
        rules: ActivePolicy,
        policy: PolicyService,
        condition: HostHealth,
        metrics: Metrics,
        reconciler: Reconciler,
        departures: UninstallCleanup,
        turning: KnobService,
        configuring: ConfigService,
        activity: ActivityReader,
        artifacts: ArtifactService,
        definitions: DefinitionService,
        live: LiveEvents,
        webhooks: WebhookService,
        doubts: UnknownOutcomes,
        keys: WrappingKeys,
        machine: HostProbe,
        environ: Mapping[str, str],
        logs: PluginLogs,
        news: SupervisorEvents,
        clock: Clock,
        random: Random,
    ) -> None:
        self.directories = directories
        self.loaded_settings = loaded  # each setting with where it came from
        self.settings = loaded.settings
        self.calls = calls
        self.actions = Actions(gate, calls, claims)
        self.permitted_plugins = PermittedPlugins(gate)
        self.callable_access = CallableAccess(gate, calls, claims, rules, reconciler)
        self.approvals = approving
        self.credentials = credentials
        self.console_sessions = console
        self.people = people
        self.api_keys = api_keys
        self.consents = consents
        self.oidc_identities = sign_ins
        self.explain_service = explaining
        self.ledger = ledger
        self.verification = verifying
        self.activation = activation
        self.install_service = installing
        self.install_service.apply_version_change = self._apply_version_change
        self.uninstall_service = UninstallService(store, self.reconcile)
        self.versions = VersionService(store, views, self._apply_version_change)
        self.knob_service = turning
        self.config_service = configuring
        self.activity = activity
        self.active_policy = rules
        self.policy = policy
        self.health = condition
        self.metrics = metrics
        self.definitions = definitions
        self.artifacts = artifacts
        self.live_events = live
        self.webhooks = webhooks
        self.unknown_outcomes = doubts
        self.secrets = SecretService(views, keys, reconciler.reconcile)
        self.secret_usage = SecretUsageService(views)
        self.user_requirements = UserRequirements(gate.catalogue, self.permitted_plugins, self.secrets)
        looking = FactCollector(
            views,
            self.runtime_status,
            self._restart_if_modified,
            gate.catalogue,
            condition,
            machine,
            keys,
            environ,
            clock,
        )
        mending = RepairActions(store, self, self.versions, self._apply_version_change, webhooks, self.secrets)
        self.repairs = RepairService(looking, mending, views)
        self._store = store
        self._views = views  # a second thread, so that looking never waits behind a start that reads a large package
        # Every operator's first page asks, again and again while it is open, and each looks at files of all plugins.
        self._shared_listing: SingleFlight[Tenant, list[InstalledPlugin]] = SingleFlight(
            lambda tenant: views.run(list_plugins, tenant)
        )
        self._supervisor = supervisor
        self._gate = gate
        self._claims = claims
        self._resources = ResourceReader(views, gate)
        self._reconciler = reconciler
        self._uninstall_cleanup = departures
        self._logs = logs
        self._supervisor_events = news
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
            params: What it is called with.
            principal: Who calls; the person at this machine when left out. See `principal`.
            context: The same with all else that is known of the call's surroundings.
            on_event: Hears what the plugin tells while it works. An MCP server tells nothing where nobody hears: its
                tools then have the ordinary time to answer, however far they are.
            ask: Puts the plugin's questions to a person; without it they are declined.
            approval_token: The `token` that came with a NeedsApproval: comes back for that call, once, instead of
                making another. It is for the same caller, name and parameters.
            idempotency_key: What has an effect has it once under one key: the same call again gives the same answer,
                and other parameters are a Conflict.

        Raises:
            NeedsApproval: a person is asked first; the call is found among `calls`, and goes on once they said yes.
            PaddockError: whatever stood in the way.
        """
        if context is None:
            context = self.operator_context(None) if principal is None else self.call_context(principal)
        if idempotency_key is not None:
            context = replace(context, idempotency_key=validate_idempotency_key(idempotency_key))
        target = self._gate.catalogue(context.tenant).find(name)
        if approval_token is not None:
            return await (await self.claim_approved_call(approval_token, name, params, context)).wait()
        try:
            return await self._gate.call(target, params, context, on_event=on_event, ask=ask)
        except NeedsApproval as held:
            self.calls.restore_held(CallId(held.details["call_id"]), target, context, held)
            raise
        except PaddockError as error:
            plugin = target.manifest.name
            if context.tenant == DEFAULT_TENANT and plugin in self._reconciler.embedded:
                replace_log_hint(error, plugin)
            raise

    async def claim_approved_call(
        self, token: str, name: str, params: Mapping[str, Any], context: CallContext
    ) -> CallHandle:
        """The call that waited for a person and that this token was given out for. See `Claims.claim`."""
        return await self._claims.redeem(token, self._gate.catalogue(context.tenant).find(name), params, context)

    async def describe_call(self, live: CallHandle) -> dict[str, Any]:
        """A call as data; of one in progress also what its operator said last, and when it is asked next."""
        following = self._gate.long_running
        told = live.to_json()
        if live.status == "in_progress" and following is not None:
            told["in_progress"] = await following.progress(live.context.tenant, live.id)
        return told

    def operator_context(self, operator: str | None, tenant: Tenant = DEFAULT_TENANT) -> CallContext:
        """The context of a call that the person at this machine makes, in a tenant that there is (see `tenant`)."""
        return self.call_context(local_principal(operator, tenant), operator=operator)

    def call_context(
        self,
        principal: Principal,
        *,
        operator: str | None = None,
        trace: str | None = None,
        idempotency_key: str | None = None,
    ) -> CallContext:
        """The context of a call that somebody makes; `operator` is who made it in their name, if anybody did."""
        request = RequestId(new_id("req", self._clock, self._random))
        return build_call_context(principal, request, operator, trace=trace, idempotency_key=idempotency_key)

    async def tenant(self, name: str) -> Tenant:
        """A tenant by name.

        Raises:
            NotFound: there is none.
        """
        if name == DEFAULT_TENANT:
            return DEFAULT_TENANT
        row = await self._views.run(lambda store: store.database.read(lambda tx: require_tenant(tx, name)))
        return row.name

    async def principal(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Principal:
        """Somebody by name, as in `user:ann`, with the roles, scopes and groups that they have right now.

        A name proves nothing: let only whoever operates the host name others. `acme/user:ann` is Ann of another tenant;
        `tenant` is whose she is where the name does not say.

        Raises:
            OperatorError: that names nobody who can act.
            NotFound: nobody has that name.
            Denied: they may not act any more.
        """
        now = self._clock.now()
        return await self._views.run(
            lambda store: store.database.read(lambda tx: resolve_principal(tx, name, tenant, now))
        )

    async def embed(self, manifest: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        """Serve functions of this program to the default tenant as a plugin, behind the same door as all others.

        They run in this process, without a cage, and are marked so wherever calls are recorded. A function gets its
        parameters by name, and the call itself as `call` where it has a parameter of that name.

        Args:
            manifest: As in `paddock.yaml`, without a runtime.
            functions: One for each callable that the manifest declares, by name.

        Raises:
            Invalid: the two do not fit each other; carries every mistake.
            Conflict: another plugin has that name.
            Busy: another plugin had that name, and is still leaving.
        """
        one = build_embedded(manifest, functions)
        name = str(one.deployment.name)
        installed = {listed.plugin.name for listed in await self._views.run(list_plugins)}
        if name in installed or name in self._reconciler.embedded:
            raise Conflict(f"there is a plugin {name!r} already", code="plugin.name_taken", hint="choose another name")
        await self._store.run(lambda store: check_no_pending_purge(store, name))
        self._reconciler.embedded[name] = one
        await self._reconciler.reconcile()
        await self.approvals.restore_waiting_calls(name)

    def callables(self, tenant: Tenant = DEFAULT_TENANT) -> tuple[str, ...]:
        """The full names of everything that a tenant can call."""
        return self._gate.catalogue(tenant).names()

    # --- tools, documents and prompts ---------------------------------------------------------------------------------

    async def tools(self, plugin: str, *, tenant: Tenant = DEFAULT_TENANT, meet: bool = False) -> dict[str, Any]:
        """What a plugin can be asked to do: `tools`, each with what it says, takes and changes, and how it stands.

        Args:
            plugin: Its name or an alias.
            tenant: Whose it is: each tenant meets a server by itself.
            meet: Start a server that never ran, of which nothing is `known` otherwise.

        Raises:
            NotFound: it is not installed; or not enabled, where it has to be started.
            PaddockError: it has to be started, and does not run.
        """
        return await self._resources.tools(plugin, tenant, meet=meet)

    async def resources(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """What a plugin has to read: `resources`, `templates` of such, and what is `withheld` from use.

        Nothing is `known` of a server that never ran.

        Raises:
            NotFound: it is not installed.
        """
        return await self._resources.resources(plugin, tenant)

    async def read_resource(self, plugin: str, uri: str, *, context: CallContext | None = None) -> dict[str, Any]:
        """One document of a plugin, as `contents`: only one that its server lists, or that a template of it fits.

        Raises:
            NotFound: the plugin is not enabled, or offers nothing there.
            PaddockError: see `call`.
        """
        return await self._resources.read_resource(plugin, uri, context or self.operator_context(None))

    async def prompts(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """The `prompts` that a plugin has, with their arguments. See `resources`."""
        return await self._resources.prompts(plugin, tenant)

    async def get_prompt(
        self, plugin: str, name: str, arguments: Mapping[str, Any] | None = None, *, context: CallContext | None = None
    ) -> dict[str, Any]:
        """A prompt with its arguments filled in, as `messages`: by its server, or here where the manifest has its text.

        Raises:
            NotFound: the plugin is not enabled, or has no such prompt.
            Invalid: the arguments are not those that it declares; carries every mistake.
            PaddockError: see `call`.
        """
        return await self._resources.get_prompt(plugin, name, arguments or {}, context or self.operator_context(None))

    # --- plugins ------------------------------------------------------------------------------------------------------

    async def plugins(self, tenant: Tenant = DEFAULT_TENANT) -> list[dict[str, Any]]:
        """Every installed plugin, with how it is doing for a tenant. One whose files changed is ended.

        For whoever operates the host: plugins are installed for all, and this names those too that the tenant has not.
        What the tenant's own people may know of is `callables`.
        """
        listed = await self._shared_listing.run(tenant)
        for one in listed:
            if one.version is not None:
                self._restart_if_modified(one.plugin.name, one.version.digest, one.state)
        return [self._plugin_summary(one, tenant) for one in listed]

    async def plugin(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """Everything about one installed plugin; it is ended where its files changed. See `plugins`.

        Raises:
            NotFound: it is not installed.
        """
        details = await self._views.run(lambda store: load_details(store, name), tenant)
        facts = await asyncio.to_thread(details.to_value)  # a server may say a great deal
        self._restart_if_modified(facts["name"], facts["digest"], facts["state"])
        return facts | {"runtime": self.runtime_status(facts["name"], tenant)}

    async def knobs(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """What a person may tune of a plugin. See `knobs_of`; they are turned by `turning`."""
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
        """Let a plugin run for a tenant, and wait until it does or is known not to.

        Args:
            name: Its name or an alias.
            tenant: For whom. Installing a plugin grants what it asks for to the default tenant alone.
            acknowledged: What somebody just said yes to for this tenant.
            anew: In a new process, however it is doing.
            by: Who wants it, for the record; the operator where nobody is named.

        Raises:
            NeedsConsent: the plugin asks for more than the tenant granted; nothing has changed.
            PaddockError: it must not be enabled; see `plugins/manage/enable.py`.
        """
        said_yes = tuple(acknowledged)
        doer = by or local_principal(None).id
        row = await self._store.run(lambda store: enable(store, name, said_yes), tenant, by=doer)
        await self._reconciler.reconcile()
        unfit = self._reconciler.blocked.get((tenant, row.plugin))
        if unfit is not None:
            raise unfit.error
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
        """End a plugin and let it run no more for a tenant. What the tenant granted stays granted. `by` as above."""
        plugin = await self._store.run(lambda store: disable(store, name), tenant, by=by or local_principal(None).id)
        await self._reconciler.reconcile()
        await self._reconciler.stop_unwanted(plugin.name, tenant)
        return {"name": plugin.name, "version": plugin.current_version, "state": "disabled"}

    async def logs(self, name: str, *, tenant: Tenant = DEFAULT_TENANT, lines: int = 50) -> list[dict[str, Any]]:
        """The last lines that a tenant's plugin wrote to its standard error, oldest first.

        Raises:
            NotFound: it is not installed.
            HostError: the disk with the log files does not answer.
        """
        return await self._logs.read_last(log_name(tenant, await self._resolve_name(name)), lines)

    async def follow_logs(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Subscription[dict[str, Any]]:
        """Its lines from now on: from when this was awaited, not from when the first is asked for."""
        return self._logs.follow(log_name(tenant, await self._resolve_name(name)))

    async def follow_notifications(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Subscription[dict[str, Any]]:
        """What it announces from now on."""
        return self._supervisor_events.follow_notifications(tenant, await self._resolve_name(name))

    def follow_states(self) -> Subscription[PluginStatus]:
        """Every change of any plugin's state from now on, for whoever operates the host: of all tenants."""
        return self._supervisor_events.follow_states()

    def statuses(self) -> tuple[PluginStatus, ...]:
        """How every plugin that is known to the supervisor is doing, of all tenants."""
        return self._supervisor.statuses()

    def starts_on_demand(self, status: PluginStatus) -> bool:
        """Whether it is a plugin that has no process right now because its next call starts one."""
        idle = status.state in (PluginState.DISABLED, PluginState.STOPPED)
        return idle and self._reconciler.current_keys.get(tenant_plugin_of(status.key)) == status.key

    async def wait_settled(self, within: float | None = None) -> tuple[PluginStatus, ...]:
        """The same, once each of them runs or is known not to; some are still starting where that takes longer."""
        with anyio.move_on_after(within):
            for status in self._supervisor.statuses():
                if (
                    status.state in (PluginState.SPAWNING, PluginState.DISABLED)
                    and self._reconciler.current_keys.get(tenant_plugin_of(status.key)) == status.key
                ):
                    await self._supervisor.wait_settled(status.key)
        return self._supervisor.statuses()

    # --- the daemon's own ---------------------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Look at the rows again: a command changed them. What it asks for is in effect when this returns."""
        await self._reconciler.reconcile()
        self._reconciler.retry_modified()
        await self._reconciler.wait_applied()
        await self._uninstall_cleanup.start_pending()
        await self._uninstall_cleanup.wait_finished()

    async def _apply_version_change(self, name: str) -> None:
        """The same for a plugin that has another version now, once its processes run or are known not to."""
        await self.reconcile()
        with anyio.move_on_after(VERSION_START_TIMEOUT_S):
            for status in self._supervisor.statuses():
                if status.key.plugin == name and status.state is PluginState.SPAWNING:
                    await self._supervisor.wait_settled(status.key)

    async def drain(self) -> None:
        """Take no new calls and wait for those under way, for a while."""
        await asyncio.gather(self.calls.drain(DRAIN_TIMEOUT_S), self.callable_access.drain(DRAIN_TIMEOUT_S))

    async def _resolve_name(self, name: str) -> str:
        plugin = await self._views.run(lambda store: store.database.read(lambda tx: require_plugin(tx, name)))
        return plugin.name

    def _restart_if_modified(self, name: str, digest: str, state: str) -> None:
        """What was just seen of a plugin's files counts for its processes too, whichever tenant's they are."""
        if state == Seen.MODIFIED:
            for key in self._reconciler.current_keys.values():
                if key.plugin == name and key.digest == digest:
                    self._reconciler.restart_modified(key)

    def _plugin_summary(self, one: InstalledPlugin, tenant: Tenant) -> dict[str, Any]:
        return {
            "name": one.plugin.name,
            "version": one.version.version if one.version else one.plugin.current_version,
            "state": one.state.value,
            "given_up": one.given_up,
            "kind": one.kind,
            "description": one.description,
            "waiting": one.waiting,
            "runtime": self.runtime_status(one.plugin.name, tenant),
        }

    def runtime_status(self, name: str, tenant: Tenant) -> dict[str, Any] | None:
        """How a plugin's process is doing for a tenant, by the plugin's own name; None where there is none."""
        unfit = self._reconciler.blocked.get((tenant, name))
        if unfit is not None:
            return runtime_to_json(unfit.status())
        found = self._supervisor.statuses_of(tenant, PluginName(name))
        current = self._reconciler.current_keys.get((tenant, name))
        shown = next((one for one in found if one.key == current), found[-1] if found else None)
        if shown is None:
            return None
        unused = self._reconciler.unused_config_reasons.get(shown.key, "")
        return runtime_to_json(shown, on_demand=self.starts_on_demand(shown), unused_config=unused)


def runtime_to_json(status: PluginStatus, *, on_demand: bool = False, unused_config: str = "") -> dict[str, Any]:
    """How a plugin is doing, as data; see `Host.on_demand`, and `Reconciler.unused_config`."""
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
