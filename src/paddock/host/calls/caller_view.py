"""The callables and plugins a caller may use: permitted listings, and calls made directly by target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict

from paddock.core.call import CallContext
from paddock.core.errors import NotFound, PluginError
from paddock.core.ids import Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.documents import READ_RESOURCE
from paddock.gate.catalogue.entry import CatalogueEntry
from paddock.gate.dry_run import DryRun, dry_run
from paddock.gate.gate import Gate
from paddock.gate.permitted_targets import PermittedTarget, PermittedTargetJson, permitted_targets
from paddock.host.policy.active_policy import ActivePolicy
from paddock.manifest.model import PluginKind
from paddock.runtime.calls import AskCaller, OnEvent


class CallableAccess:
    """The callables that policy permits a caller, for adapters that expose them in another protocol.

    Args:
        gate: The gate that every call passes.
        calls: The registry of calls that wait for approval.
        approval_tokens: Redeems the token of an approved call.
        active_policy: The policy in force.
    """

    def __init__(
        self,
        gate: Gate,
        calls: CallRegistry,
        approval_tokens: ApprovalTokens,
        active_policy: ActivePolicy,
    ) -> None:
        self._gate = gate
        self._calls = calls
        self._approval_tokens = approval_tokens
        self._active_policy = active_policy

    def catalogue(self, tenant: Tenant) -> Catalogue:
        """Return a tenant's current catalogue. A change replaces it with a new one."""
        return self._gate.catalogue(tenant)

    @property
    def active_policy(self) -> object:
        """The policy in force. A change replaces it with a new object."""
        return self._active_policy.policy

    def add_change_listener(self, listener: Callable[[], None]) -> None:
        """Call a function whenever a catalogue or the policy is replaced."""
        self._gate.catalogues.add_listener(listener)
        self._active_policy.add_listener(listener)

    async def permitted(self, context: CallContext, targets: Iterable[CallTarget]) -> list[PermittedTarget]:
        """Return the targets that the caller may call or read."""
        return await permitted_targets(context, targets, self._gate.authorizer)

    async def call(
        self,
        target: CallTarget,
        params: Mapping[str, Any],
        context: CallContext,
        *,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
    ) -> Any:
        """Call or read something and wait for the result. See `CallRegistry.call`."""
        return await self._calls.call(target, params, context, on_event=on_event, ask=ask)

    async def dry_run(self, target: CallTarget, params: Mapping[str, Any], context: CallContext) -> DryRun:
        """Find out what would happen to a call, without making it. See `paddock.gate.dry_run`."""
        return await dry_run(self._gate, target, params, context)

    async def claim_approved_call(
        self, token: str, target: CallTarget, params: Mapping[str, Any], context: CallContext
    ) -> CallHandle:
        """Redeem an approval token for the call that waited for it. See `ApprovalTokens.redeem`."""
        return await self._approval_tokens.redeem(token, target, params, context)


class PluginSummaryJson(TypedDict):
    """A plugin in a list, for callers who are not operators."""

    name: str
    version: str
    state: Literal["enabled"]
    kind: PluginKind
    description: str


class OfferedPluginJson(PluginSummaryJson):
    """A plugin, for callers who are not operators."""

    callables: Annotated[list[PermittedTargetJson], "The callables that the caller may use."]


class PermittedPlugins:
    """The plugins that a tenant's people may see.

    Args:
        gate: Resolves and authorizes callables.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def plugins(self, context: CallContext) -> list[PluginSummaryJson]:
        """List the plugins, by name, that offer the caller something."""
        entries = sorted(self._gate.catalogue(context.tenant).entries(), key=lambda entry: entry.manifest.name)
        return [
            _plugin_summary(entry) for entry in entries if not entry.discovered or await self._callables(entry, context)
        ]

    async def plugin(self, name: str, context: CallContext) -> OfferedPluginJson:
        """Describe one plugin, with the `callables` that the caller may use.

        Raises:
            NotFound: the caller's tenant has not enabled it.
        """
        entry = self._gate.catalogue(context.tenant).entry(name)
        callables = await self._callables(entry, context)
        return {**_plugin_summary(entry), "callables": [target.to_json() for target in callables]}

    async def callable_names(self, name: str, context: CallContext) -> frozenset[str]:
        """Return the names of the plugin's callables that the caller may use. Raises as `plugin` does."""
        entry = self._gate.catalogue(context.tenant).entry(name)
        return frozenset(one.target.spec.name for one in await self._callables(entry, context))

    async def may_read_documents(self, name: str, context: CallContext) -> bool:
        """Return whether the caller may read a plugin's documents: all or none. Raises as `plugin` does."""
        entry = self._gate.catalogue(context.tenant).entry(name)
        return bool(await permitted_targets(context, (CallTarget(entry, READ_RESOURCE),), self._gate.authorizer))

    async def may_get_prompt(self, name: str, prompt: str, context: CallContext) -> bool:
        """Return whether the caller may use a plugin's prompt. Raises as `plugin` does."""
        try:
            found = self._gate.catalogue(context.tenant).find_prompt(name, prompt)
        except NotFound:
            return False  # it was removed in the meantime
        except PluginError:
            return True  # no server provides it, so no rule restricts it
        return not isinstance(found, CallTarget) or bool(
            await permitted_targets(context, (found,), self._gate.authorizer)
        )

    async def _callables(self, entry: CatalogueEntry, context: CallContext) -> list[PermittedTarget]:
        targets = self._gate.catalogue(context.tenant).targets_of(entry.manifest.name)
        return await permitted_targets(context, targets, self._gate.authorizer)


def _plugin_summary(entry: CatalogueEntry) -> PluginSummaryJson:
    manifest = entry.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "state": "enabled",
        "kind": manifest.kind,
        "description": manifest.description,
    }
