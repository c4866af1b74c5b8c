"""A plugin's capability request: who makes it, with which grants, in which call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeAlias

from msgspec import Struct

from paddock.capabilities.pipes.channel import PipeChannel
from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.manifest.capability import Capability, InvalidCapability, covers, parse_capability
from paddock.manifest.model import Manifest
from paddock.net.http_client import HttpOrigin
from paddock.policy.principal import PolicyPrincipal

EarlyAnswer: TypeAlias = Callable[[Any], bool]
CallEndHook: TypeAlias = Callable[[Callable[[], None]], AbstractContextManager[object]]
MethodCounts: TypeAlias = dict[str, int]
"""Number of requests per method in one call."""


class CapabilityRequest(Struct, frozen=True):
    """A plugin, its grants, and the call for which it makes the request, if it names one.

    Attributes:
        granted: What a person granted, not what the manifest declares.
        call: None when the plugin acts on its own: no user's secrets, no user's identity.
        principal: The plugin as a policy principal.
        instance: Which of the plugin's processes makes the request, where several versions run side by side. Process
            state, such as an open transaction, belongs to this instance.
        channel: The pipes on which that process transfers artifacts, if it has any.
        artifact_digests: The hashes of the artifacts that the call's payload names.
        answer_early: Sends the response from whichever thread has the result; see `rpc.peer`.
        effects: The effects that the call may have. None where no callable was called that could declare them: the
            plugin acts on its own, or handles a session hook.
        process_effects: For a request without a call: the effects of all calls that its process is working on,
            together. None where it works on none, or handles a session hook.
        used_network: Marks every call that its process is working on as having used the network.
        on_call_end: While the returned block runs, the end of the call invokes the given callback.
        method_counts: The call's counts of its requests; None where there is no such call.
        callable: The callable that was called, as the plugin declares it; empty where there is no such call.
        operation: The plugin's operation that the call runs, where that is known.
        call_id: The call's id, for recipients of outbound requests made for it.
        atomic: Whether the call's changes to the plugin's tables are recorded there, for its recovery.
        sends_to: The origin to which the host itself sends the requested secret, in headers hidden from the plugin.
        sends_in: The names of these headers, in lower case.
    """

    tenant: Tenant
    plugin: PluginName
    manifest: Manifest
    granted: tuple[Capability, ...]
    call: CallContext | None
    principal: PolicyPrincipal
    instance: str = ""
    channel: PipeChannel | None = None
    artifact_digests: frozenset[str] = frozenset()
    answer_early: EarlyAnswer = lambda _result: False
    effects: frozenset[str] | None = None
    process_effects: frozenset[str] | None = None
    used_network: Callable[[], None] = lambda: None
    on_call_end: CallEndHook = nullcontext
    method_counts: MethodCounts | None = None
    callable: str = ""
    operation: str | None = None
    call_id: CallId | None = None
    atomic: bool = False
    sends_to: HttpOrigin | None = None
    sends_in: frozenset[str] = frozenset()

    def grant_action(self, capability: str) -> Action:
        """Return what gives the plugin a capability: a grant if its manifest declares it, else an upgrade."""
        with suppress(InvalidCapability):
            needed = parse_capability(capability)
            if any(covers(declared, needed) for declared in self.manifest.capabilities):
                return Action.of("plugin.grant", plugin=self.plugin, tenant=self.tenant, capabilities=(capability,))
        return Action.of("plugin.upgrade", plugin=self.plugin)
