"""What callers may use, for whoever exposes it in other words than ours: found, listed and called by its target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paddock.core.call import CallContext
from paddock.core.errors import Busy, NeedsApproval, NotFound, PluginError
from paddock.core.ids import CallId, Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens
from paddock.gate.catalogue.catalogue import CallTarget, Catalogue, CatalogueEntry
from paddock.gate.catalogue.documents import READ_RESOURCE
from paddock.gate.gate import Gate
from paddock.gate.permitted import PermittedTarget, permitted_targets
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.policy.active_policy import ActivePolicy
from paddock.runtime.calls import AskCaller, OnEvent


class CallableAccess:
    """Everything of the catalogues that the rules do not keep from a caller.

    Args:
        gate: The one door.
        calls: Where calls are found that wait for a person.
        claims: Gives such a call to whoever comes back for it.
        rules: What decides.
        reconciler: Replaces the catalogues.
    """

    def __init__(
        self, gate: Gate, calls: CallRegistry, claims: ApprovalTokens, rules: ActivePolicy, reconciler: Reconciler
    ) -> None:
        self._gate = gate
        self._calls = calls
        self._claims = claims
        self._rules = rules
        self._reconciler = reconciler
        self._running_tasks: set[asyncio.Task[Any]] = set()  # what each is made in; a task makes one at a time

    def catalogue(self, tenant: Tenant) -> Catalogue:
        """What there is for a tenant right now. A new one takes its place when that changes."""
        return self._gate.catalogue(tenant)

    @property
    def active_policy(self) -> object:
        """The rules that are in force. Others take their place when they change."""
        return self._rules.policy

    def set_change_listener(self, tell: Callable[[], None]) -> None:
        """Have it told each time that a catalogue or the rules are replaced."""
        self._reconciler.on_catalogue_change = tell
        self._rules.on_change = tell

    async def permitted(self, context: CallContext, targets: Iterable[CallTarget]) -> list[PermittedTarget]:
        """Those that whoever acts in this context may call or read."""
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
        """Call or read something and wait for the result. See `Host.call`.

        Raises:
            Busy: the host is going down.
        """
        if self._calls.is_shutting_down:
            raise Busy("the host is shutting down", code="host.draining", hint="try again when it is back")
        task = asyncio.current_task()
        assert task is not None
        self._running_tasks.add(task)
        try:
            return await self._gate.call(target, params, context, on_event=on_event, ask=ask)
        except NeedsApproval as held:
            self._calls.restore_held(CallId(held.details["call_id"]), target, context, held)
            raise
        finally:
            self._running_tasks.discard(task)

    async def drain(self, seconds: float) -> None:
        """Give those under way this long. No new ones are taken, once `calls` takes none."""
        if self._running_tasks:
            _, late = await asyncio.wait(tuple(self._running_tasks), timeout=seconds)
            for task in late:
                task.cancel()

    async def claim_approved_call(
        self, token: str, target: CallTarget, params: Mapping[str, Any], context: CallContext
    ) -> CallHandle:
        """The call that waited for a person and that this token was given out for. See `Claims.claim`."""
        return await self._claims.redeem(token, target, params, context)


class PermittedPlugins:
    """The plugins of a tenant, for its people.

    Args:
        gate: Where they are known and decided about.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def plugins(self, context: CallContext) -> list[dict[str, Any]]:
        """Each plugin that has something for whoever acts in this context, by name."""
        entries = sorted(self._gate.catalogue(context.tenant).entries(), key=lambda entry: entry.manifest.name)
        return [
            _plugin_summary(entry) for entry in entries if not entry.discovered or await self._callables(entry, context)
        ]

    async def plugin(self, name: str, context: CallContext) -> dict[str, Any]:
        """One plugin, with `callables`: what whoever acts in this context may call of it.

        Raises:
            NotFound: their tenant has not enabled it.
        """
        entry = self._gate.catalogue(context.tenant).entry(name)
        offered = await self._callables(entry, context)
        return _plugin_summary(entry) | {"callables": [one.to_json() for one in offered]}

    async def callable_names(self, name: str, context: CallContext) -> frozenset[str]:
        """The names of what they may call of a plugin. Raises as `plugin` does."""
        entry = self._gate.catalogue(context.tenant).entry(name)
        return frozenset(one.target.spec.name for one in await self._callables(entry, context))

    async def may_read_documents(self, name: str, context: CallContext) -> bool:
        """Whether they may read the documents of a plugin; who may read one may read all. Raises as `plugin` does."""
        entry = self._gate.catalogue(context.tenant).entry(name)
        return bool(await permitted_targets(context, (CallTarget(entry, READ_RESOURCE),), self._gate.authorizer))

    async def may_get_prompt(self, name: str, prompt: str, context: CallContext) -> bool:
        """Whether they may have a prompt of a plugin. Raises as `plugin` does."""
        try:
            found = self._gate.catalogue(context.tenant).find_prompt(name, prompt)
        except NotFound:
            return False  # not any more
        except PluginError:
            return True  # nobody serves it, and the rules keep it from nobody
        return not isinstance(found, CallTarget) or bool(
            await permitted_targets(context, (found,), self._gate.authorizer)
        )

    async def _callables(self, entry: CatalogueEntry, context: CallContext) -> list[PermittedTarget]:
        targets = self._gate.catalogue(context.tenant).targets_of(entry.manifest.name)
        return await permitted_targets(context, targets, self._gate.authorizer)


def _plugin_summary(entry: CatalogueEntry) -> dict[str, Any]:
    manifest = entry.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "state": "enabled",
        "kind": manifest.kind.value,
        "description": manifest.description,
    }
