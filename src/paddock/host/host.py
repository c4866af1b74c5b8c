"""The running host: the object that the HTTP API, the command line and embedding programs use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from paddock.config.directories import Directories
from paddock.config.resolve import LoadedSettings
from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import NeedsApproval, PaddockError
from paddock.core.ids import DEFAULT_TENANT, RequestId, Tenant, new_id
from paddock.gate.gate import Gate
from paddock.gate.idempotency.key_verdict import validate_idempotency_key
from paddock.host.calls.approvals import ApprovalService
from paddock.host.identity.caller import build_call_context, local_principal
from paddock.host.inbox.inbox import InboxService
from paddock.host.plugins.embedded_plugin import NO_LOG_HINT
from paddock.host.repairs.repair_service import RepairService
from paddock.host.services import (
    CallServices,
    IdentityServices,
    LedgerServices,
    ObservabilityServices,
    PluginServices,
    PolicyServices,
    SecretServices,
)
from paddock.plugins.store.thread import StoreThread
from paddock.principals.principal_name import resolve_principal
from paddock.principals.tenants import require_tenant
from paddock.runtime.calls import AskCaller, OnEvent
from paddock.runtime.supervisor import DRAIN_TIMEOUT_S


class Host:
    """A running host: calls, and its services by subject. Built by `open_host`."""

    def __init__(
        self,
        *,
        directories: Directories,
        loaded_settings: LoadedSettings,
        plugins: PluginServices,
        calls: CallServices,
        approvals: ApprovalService,
        identity: IdentityServices,
        policy: PolicyServices,
        secrets: SecretServices,
        ledger: LedgerServices,
        repairs: RepairService,
        inbox: InboxService,
        observability: ObservabilityServices,
        gate: Gate,
        views: StoreThread,
        clock: Clock,
        random: Random,
    ) -> None:
        self.directories = directories
        self.loaded_settings = loaded_settings  # each setting with where it came from
        self.settings = loaded_settings.settings
        self.plugins = plugins
        self.calls = calls
        self.approvals = approvals
        self.identity = identity
        self.policy = policy
        self.secrets = secrets
        self.ledger = ledger
        self.repairs = repairs
        self.inbox = inbox
        self.observability = observability
        self._gate = gate
        self._views = views
        self._clock = clock
        self._random = random

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
            NeedsApproval: a person has to approve first; the call is found in `calls.registry` and continues once
                approved.
            PaddockError: the call was denied or failed.
        """
        if context is None:
            context = self.operator_context(None) if principal is None else self.call_context(principal)
        if idempotency_key is not None:
            context = replace(context, idempotency_key=validate_idempotency_key(idempotency_key))
        target = self._gate.catalogue(context.tenant).find(name)
        if approval_token is not None:
            resumed = await self.calls.callable_access.claim_approved_call(approval_token, target, params, context)
            return await resumed.wait()
        try:
            return await self.calls.registry.call(target, params, context, on_event=on_event, ask=ask)
        except NeedsApproval:
            raise
        except PaddockError as error:
            if not self.plugins.embedded.points_to_missing_log(error, target.key):
                raise
            raise error.with_remedy(hint=NO_LOG_HINT) from error

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
        await self.plugins.embedded.embed(manifest, functions)

    def callables(self, tenant: Tenant = DEFAULT_TENANT) -> tuple[str, ...]:
        """Return the full names of everything that a tenant can call."""
        return self._gate.catalogue(tenant).names()

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
        origin: str | None = None,
    ) -> CallContext:
        """Build the context of a call; `operator` is the operator who made it on the principal's behalf, if any.

        `origin` is where it is made, see `CallContext`.
        """
        request = RequestId(new_id("req", self._clock, self._random))
        return build_call_context(
            principal, request, operator, trace=trace, idempotency_key=idempotency_key, origin=origin
        )

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

    async def drain(self) -> None:
        """Stop taking calls and wait, bounded, for those in flight."""
        await self.calls.registry.drain(DRAIN_TIMEOUT_S)
