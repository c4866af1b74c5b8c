"""A running host, as the HTTP API, the command line and programs that embed it see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import anyio

from paddock.capabilities.artifacts.artifacts import Artifacts
from paddock.config.directories import Directories
from paddock.config.origins import LoadedSettings
from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NeedsApproval, PaddockError
from paddock.core.ids import DEFAULT_TENANT, CallId, PluginName, PrincipalId, RequestId, Tenant, new_id
from paddock.events.live import LiveEvents
from paddock.gate.calls import Calls
from paddock.gate.claiming import Claims
from paddock.gate.effects.keys import checked_key
from paddock.gate.gate import Gate
from paddock.gate.live_call import LiveCall
from paddock.host.accounts import Accounts
from paddock.host.actions import Actions
from paddock.host.activation import Activation
from paddock.host.api_keys import ApiKeys
from paddock.host.approving import Approving
from paddock.host.callers import at_this_machine, context_for
from paddock.host.condition import Condition
from paddock.host.configuring import Configuring
from paddock.host.consents import Consents
from paddock.host.console import Console
from paddock.host.credentials import Credentials
from paddock.host.definitions import Definitions
from paddock.host.departures import Departures
from paddock.host.doubts import Doubts
from paddock.host.embedding import embedded, point_to_the_program
from paddock.host.explaining import Explaining
from paddock.host.exposing import Exposing
from paddock.host.followers import Following
from paddock.host.installing import Installing
from paddock.host.knobs import knobs_of
from paddock.host.ledger_reading import LedgerReading
from paddock.host.log_files import log_name
from paddock.host.metrics import Metrics
from paddock.host.offers import Offers
from paddock.host.people import People
from paddock.host.plugin_activity import PluginActivity
from paddock.host.plugin_logs import PluginLogs
from paddock.host.policy_reading import PolicyReading
from paddock.host.reading import Reading
from paddock.host.reconciling import Reconciler, owned
from paddock.host.repairs.looking import Looking
from paddock.host.repairs.machine import Machine
from paddock.host.repairs.mending import Mending
from paddock.host.repairs.repairs import Repairs
from paddock.host.rulebook import Rulebook
from paddock.host.secret_keeping import SecretKeeping
from paddock.host.secret_overview import SecretOverview
from paddock.host.shared_looks import SharedLooks
from paddock.host.sign_ins import SignIns
from paddock.host.turning import Turning
from paddock.host.uninstalling import Uninstalling
from paddock.host.verifying import Verifying
from paddock.host.versions import Versions
from paddock.host.watching import PluginNews
from paddock.host.webhooks import Webhooks
from paddock.manifest.capability import Capability
from paddock.plugins.details import details_of
from paddock.plugins.enabling import disable, enable
from paddock.plugins.leavings import refuse_leaving
from paddock.plugins.listing import Listed, list_plugins
from paddock.plugins.listing import State as Seen
from paddock.plugins.registry import require_plugin
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.supervision.deployment import Status
from paddock.plugins.supervision.flight import OnEvent
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.questions import Ask
from paddock.plugins.supervision.supervisor import DRAIN, Supervisor
from paddock.principals.subjects import principal_of
from paddock.principals.tenants import require_tenant
from paddock.secrets.keys import Keys

LONGEST_START = 60.0  # seconds for which somebody waits who moved a plugin to another version


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
        calls: Calls,
        claims: Claims,
        approving: Approving,
        credentials: Credentials,
        console: Console,
        people: People,
        api_keys: ApiKeys,
        consents: Consents,
        sign_ins: SignIns,
        explaining: Explaining,
        ledger: LedgerReading,
        verifying: Verifying,
        activation: Activation,
        installing: Installing,
        rules: Rulebook,
        policy: PolicyReading,
        condition: Condition,
        metrics: Metrics,
        reconciler: Reconciler,
        departures: Departures,
        turning: Turning,
        configuring: Configuring,
        activity: PluginActivity,
        artifacts: Artifacts,
        definitions: Definitions,
        live: LiveEvents,
        webhooks: Webhooks,
        doubts: Doubts,
        keys: Keys,
        machine: Machine,
        environ: Mapping[str, str],
        logs: PluginLogs,
        news: PluginNews,
        clock: Clock,
        random: Random,
    ) -> None:
        self.directories = directories
        self.loaded = loaded  # each setting with where it came from
        self.settings = loaded.settings
        self.calls = calls
        self.actions = Actions(gate, calls, claims)
        self.offers = Offers(gate)
        self.exposing = Exposing(gate, calls, claims, rules, reconciler)
        self.approving = approving
        self.credentials = credentials
        self.console = console
        self.people = people
        self.api_keys = api_keys
        self.consents = consents
        self.sign_ins = sign_ins
        self.explaining = explaining
        self.ledger = ledger
        self.verifying = verifying
        self.activation = activation
        self.installing = installing
        self.installing.put_into_effect = self._moved
        self.uninstalling = Uninstalling(store, self.reconcile)
        self.versions = Versions(store, views, self._moved)
        self.turning = turning
        self.configuring = configuring
        self.activity = activity
        self.rules = rules
        self.policy = policy
        self.condition = condition
        self.metrics = metrics
        self.definitions = definitions
        self.artifacts = artifacts
        self.live = live
        self.webhooks = webhooks
        self.doubts = doubts
        self.secrets = SecretKeeping(views, keys, reconciler.reconcile)
        self.secret_overview = SecretOverview(views)
        self.accounts = Accounts(gate.catalogue, self.offers, self.secrets)
        looking = Looking(views, self.runtime, self._judge, gate.catalogue, condition, machine, keys, environ, clock)
        mending = Mending(store, self, self.versions, self._moved, webhooks, self.secrets)
        self.repairs = Repairs(looking, mending, views)
        self._store = store
        self._views = views  # a second thread, so that looking never waits behind a start that reads a large package
        # Every operator's first page asks, again and again while it is open, and each looks at files of all plugins.
        self._listings: SharedLooks[Tenant, list[Listed]] = SharedLooks(lambda tenant: views.run(list_plugins, tenant))
        self._supervisor = supervisor
        self._gate = gate
        self._claims = claims
        self._reading = Reading(views, gate)
        self._reconciler = reconciler
        self._departures = departures
        self._logs = logs
        self._news = news
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
        ask: Ask | None = None,
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
            context = self.operator_context(None) if principal is None else self.context_of(principal)
        if idempotency_key is not None:
            context = replace(context, idempotency_key=checked_key(idempotency_key))
        target = self._gate.catalogue(context.tenant).find(name)
        if approval_token is not None:
            return await (await self.claimed(approval_token, name, params, context)).wait()
        try:
            return await self._gate.call(target, params, context, on_event=on_event, ask=ask)
        except NeedsApproval as held:
            self.calls.held(CallId(held.details["call_id"]), target, context, held)
            raise
        except PaddockError as error:
            plugin = target.manifest.name
            if context.tenant == DEFAULT_TENANT and plugin in self._reconciler.embedded:
                point_to_the_program(error, plugin)
            raise

    async def claimed(self, token: str, name: str, params: Mapping[str, Any], context: CallContext) -> LiveCall:
        """The call that waited for a person and that this token was given out for. See `Claims.claim`."""
        return await self._claims.claim(token, self._gate.catalogue(context.tenant).find(name), params, context)

    async def shown(self, live: LiveCall) -> dict[str, Any]:
        """A call as data; of one in progress also what its operator said last, and when it is asked next."""
        following = self._gate.following
        told = live.to_json()
        if live.status == "in_progress" and following is not None:
            told["in_progress"] = await following.so_far(live.context.tenant, live.id)
        return told

    def operator_context(self, operator: str | None, tenant: Tenant = DEFAULT_TENANT) -> CallContext:
        """The context of a call that the person at this machine makes, in a tenant that there is (see `tenant`)."""
        return self.context_of(at_this_machine(operator, tenant), operator=operator)

    def context_of(
        self,
        principal: Principal,
        *,
        operator: str | None = None,
        trace: str | None = None,
        idempotency_key: str | None = None,
    ) -> CallContext:
        """The context of a call that somebody makes; `operator` is who made it in their name, if anybody did."""
        request = RequestId(new_id("req", self._clock, self._random))
        return context_for(principal, request, operator, trace=trace, idempotency_key=idempotency_key)

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
        return await self._views.run(lambda store: store.database.read(lambda tx: principal_of(tx, name, tenant, now)))

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
        one = embedded(manifest, functions)
        name = str(one.deployment.name)
        installed = {listed.plugin.name for listed in await self._views.run(list_plugins)}
        if name in installed or name in self._reconciler.embedded:
            raise Conflict(f"there is a plugin {name!r} already", code="plugin.name_taken", hint="choose another name")
        await self._store.run(lambda store: refuse_leaving(store, name))
        self._reconciler.embedded[name] = one
        await self._reconciler.reconcile()
        await self.approving.come_back(name)

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
        return await self._reading.tools(plugin, tenant, meet=meet)

    async def resources(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """What a plugin has to read: `resources`, `templates` of such, and what is `withheld` from use.

        Nothing is `known` of a server that never ran.

        Raises:
            NotFound: it is not installed.
        """
        return await self._reading.resources(plugin, tenant)

    async def read_resource(self, plugin: str, uri: str, *, context: CallContext | None = None) -> dict[str, Any]:
        """One document of a plugin, as `contents`: only one that its server lists, or that a template of it fits.

        Raises:
            NotFound: the plugin is not enabled, or offers nothing there.
            PaddockError: see `call`.
        """
        return await self._reading.read_resource(plugin, uri, context or self.operator_context(None))

    async def prompts(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """The `prompts` that a plugin has, with their arguments. See `resources`."""
        return await self._reading.prompts(plugin, tenant)

    async def get_prompt(
        self, plugin: str, name: str, arguments: Mapping[str, Any] | None = None, *, context: CallContext | None = None
    ) -> dict[str, Any]:
        """A prompt with its arguments filled in, as `messages`: by its server, or here where the manifest has its text.

        Raises:
            NotFound: the plugin is not enabled, or has no such prompt.
            Invalid: the arguments are not those that it declares; carries every mistake.
            PaddockError: see `call`.
        """
        return await self._reading.get_prompt(plugin, name, arguments or {}, context or self.operator_context(None))

    # --- plugins ------------------------------------------------------------------------------------------------------

    async def plugins(self, tenant: Tenant = DEFAULT_TENANT) -> list[dict[str, Any]]:
        """Every installed plugin, with how it is doing for a tenant. One whose files changed is ended.

        For whoever operates the host: plugins are installed for all, and this names those too that the tenant has not.
        What the tenant's own people may know of is `callables`.
        """
        listed = await self._listings.take(tenant)
        for one in listed:
            if one.version is not None:
                self._judge(one.plugin.name, one.version.digest, one.state)
        return [self._listed(one, tenant) for one in listed]

    async def plugin(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """Everything about one installed plugin; it is ended where its files changed. See `plugins`.

        Raises:
            NotFound: it is not installed.
        """
        details = await self._views.run(lambda store: details_of(store, name), tenant)
        facts = await asyncio.to_thread(details.to_value)  # a server may say a great deal
        self._judge(facts["name"], facts["digest"], facts["state"])
        return facts | {"runtime": self.runtime(facts["name"], tenant)}

    async def knobs(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> dict[str, Any]:
        """What a person may tune of a plugin. See `knobs_of`; they are turned by `turning`."""
        return await self._views.run(lambda store: knobs_of(store, name), tenant)

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
            PaddockError: it must not be enabled; see `plugins/enabling.py`.
        """
        said_yes = tuple(acknowledged)
        doer = by or at_this_machine(None).id
        row = await self._store.run(lambda store: enable(store, name, said_yes), tenant, by=doer)
        await self._reconciler.reconcile()
        unfit = self._reconciler.unfit.get((tenant, row.plugin))
        if unfit is not None:
            raise unfit.error
        key = self._reconciler.keys.get((tenant, row.plugin))
        if key is None:
            raise Conflict(
                f"{row.plugin} was disabled while it was being enabled",
                code="plugin.changed_meanwhile",
                hint="run the command again",
            )
        status = await (self._reconciler.restart(key) if anew else self._reconciler.enable(key))
        unused = await self._reconciler.unused_config(key)
        return {"name": row.plugin, "version": row.version, **runtime_value(status, unused_config=unused)}

    async def disable(
        self, name: str, tenant: Tenant = DEFAULT_TENANT, *, by: PrincipalId | None = None
    ) -> dict[str, Any]:
        """End a plugin and let it run no more for a tenant. What the tenant granted stays granted. `by` as above."""
        plugin = await self._store.run(lambda store: disable(store, name), tenant, by=by or at_this_machine(None).id)
        await self._reconciler.reconcile()
        await self._reconciler.forget(plugin.name, tenant)
        return {"name": plugin.name, "version": plugin.current_version, "state": "disabled"}

    async def logs(self, name: str, *, tenant: Tenant = DEFAULT_TENANT, lines: int = 50) -> list[dict[str, Any]]:
        """The last lines that a tenant's plugin wrote to its standard error, oldest first.

        Raises:
            NotFound: it is not installed.
            HostError: the disk with the log files does not answer.
        """
        return await self._logs.last(log_name(tenant, await self._name(name)), lines)

    async def follow_logs(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Following[dict[str, Any]]:
        """Its lines from now on: from when this was awaited, not from when the first is asked for."""
        return self._logs.follow(log_name(tenant, await self._name(name)))

    async def follow_notifications(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Following[dict[str, Any]]:
        """What it announces from now on."""
        return self._news.notifications(tenant, await self._name(name))

    def follow_states(self) -> Following[Status]:
        """Every change of any plugin's state from now on, for whoever operates the host: of all tenants."""
        return self._news.states()

    def statuses(self) -> tuple[Status, ...]:
        """How every plugin that is known to the supervisor is doing, of all tenants."""
        return self._supervisor.statuses()

    def on_demand(self, status: Status) -> bool:
        """Whether it is a plugin that has no process right now because its next call starts one."""
        idle = status.state in (State.DISABLED, State.STOPPED)
        return idle and self._reconciler.keys.get(owned(status.key)) == status.key

    async def settled(self, within: float | None = None) -> tuple[Status, ...]:
        """The same, once each of them runs or is known not to; some are still starting where that takes longer."""
        with anyio.move_on_after(within):
            for status in self._supervisor.statuses():
                if (
                    status.state in (State.SPAWNING, State.DISABLED)
                    and self._reconciler.keys.get(owned(status.key)) == status.key
                ):
                    await self._supervisor.settled(status.key)
        return self._supervisor.statuses()

    # --- the daemon's own ---------------------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Look at the rows again: a command changed them. What it asks for is in effect when this returns."""
        await self._reconciler.reconcile()
        self._reconciler.try_again()
        await self._reconciler.carried_out()
        await self._departures.look()
        await self._departures.over()

    async def _moved(self, name: str) -> None:
        """The same for a plugin that has another version now, once its processes run or are known not to."""
        await self.reconcile()
        with anyio.move_on_after(LONGEST_START):
            for status in self._supervisor.statuses():
                if status.key.plugin == name and status.state is State.SPAWNING:
                    await self._supervisor.settled(status.key)

    async def drain(self) -> None:
        """Take no new calls and wait for those under way, for a while."""
        await asyncio.gather(self.calls.drain(DRAIN), self.exposing.drain(DRAIN))

    async def _name(self, name: str) -> str:
        plugin = await self._views.run(lambda store: store.database.read(lambda tx: require_plugin(tx, name)))
        return plugin.name

    def _judge(self, name: str, digest: str, state: str) -> None:
        """What was just seen of a plugin's files counts for its processes too, whichever tenant's they are."""
        if state == Seen.MODIFIED:
            for key in self._reconciler.keys.values():
                if key.plugin == name and key.digest == digest:
                    self._reconciler.distrust(key)

    def _listed(self, one: Listed, tenant: Tenant) -> dict[str, Any]:
        return {
            "name": one.plugin.name,
            "version": one.version.version if one.version else one.plugin.current_version,
            "state": one.state.value,
            "given_up": one.given_up,
            "kind": one.kind,
            "description": one.description,
            "waiting": one.waiting,
            "runtime": self.runtime(one.plugin.name, tenant),
        }

    def runtime(self, name: str, tenant: Tenant) -> dict[str, Any] | None:
        """How a plugin's process is doing for a tenant, by the plugin's own name; None where there is none."""
        unfit = self._reconciler.unfit.get((tenant, name))
        if unfit is not None:
            return runtime_value(unfit.status())
        found = self._supervisor.statuses_of(tenant, PluginName(name))
        current = self._reconciler.keys.get((tenant, name))
        shown = next((one for one in found if one.key == current), found[-1] if found else None)
        if shown is None:
            return None
        unused = self._reconciler.unused.get(shown.key, "")
        return runtime_value(shown, on_demand=self.on_demand(shown), unused_config=unused)


def runtime_value(status: Status, *, on_demand: bool = False, unused_config: str = "") -> dict[str, Any]:
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
