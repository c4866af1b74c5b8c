"""Who asks the host for something."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from paddock.capabilities.pipes.channel import PipeChannel
from paddock.core.call import CallContext
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.manifest.capability import Capability
from paddock.manifest.model import Manifest
from paddock.net.http_client import HttpOrigin
from paddock.policy.principal import PolicyPrincipal

EarlyAnswer: TypeAlias = Callable[[Any], bool]
CallEndHook: TypeAlias = Callable[[Callable[[], None]], AbstractContextManager[object]]
MethodCounts: TypeAlias = dict[str, int]
"""How often each method was asked for in one call."""


@dataclass(frozen=True, slots=True)
class CapabilityRequest:
    """A plugin, what it was granted, and the call it asks for where it said which.

    Attributes:
        granted: What a person granted; not what the manifest asks for.
        call: None when the plugin acts for itself: no user's secret, no user's identity.
        instance: Which of the plugin's processes asks, where several versions run side by side. What belongs to a
            process, such as an open transaction, belongs to this one.
        channel: The pipes on which that process sends and gets artifacts, where it has any.
        handed: The hashes of the artifacts that the call's payload names.
        early: Answers from whichever thread has the result; see `rpc.peer.Asked`.
        effects: What the call may do to the world; None where no callable was called that could declare it: the
            plugin acts of its own accord, or was told of a moment in a session.
        underway: Where it names no call: what the calls that its process works on may do, all together. None where it
            works on none, or was told of a moment in a session.
        used_network: Notes the use of the network in every call that its process works on.
        until_over: For as long as the block runs, the end of the call calls what it is given.
        tally: Where that call counts what is asked for in it; None where there is no such call.
        callable: What was called, as the plugin declares it; empty where there is no such call.
        operation: Which of the plugin's operations the call runs, where that is known.
        call_id: Of that call, for whoever gets requests that are made for it.
        atomic: Whether what that call changes in the plugin's tables is noted there, as its recovery wants it.
        sends_to: Where the host itself sends what is asked for, in headers that the plugin does not see.
        sends_in: Which headers these are, in lower case.
        subject: The plugin, as the rules see it.
    """

    tenant: Tenant
    plugin: PluginName
    manifest: Manifest
    granted: tuple[Capability, ...]
    call: CallContext | None
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
    principal: PolicyPrincipal = field(kw_only=True)
