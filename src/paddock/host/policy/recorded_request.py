"""Rebuilds the policy request of a recorded call, with today's principal and callable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import NotFound, PaddockError
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.policy.entities import current_callable, current_principal
from paddock.plugins.store.store import PluginStore
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import CallEnvironment, PolicyRequest, build_call_request, build_propose_request
from paddock.policy.target import CallableTarget


class RecordedCall(Struct, frozen=True):
    """What the rules saw of a call.

    Attributes:
        who: The principal.
        plugin: The plugin that was called.
        name: The full name of what was called.
        proposed: The proposal of an agent, if the rules decided about that.
    """

    who: str | None
    plugin: str
    name: str
    background: bool = False
    project: str | None = None
    agent_path: str | None = None
    proposed: str | None = None


def _serve_nothing(name: str) -> None:
    del name


class RequestBuilder(Struct, frozen=True):
    """Builds the requests of recorded calls.

    Args:
        store: The plugin store with its database.
        now: The time.
        served: Returns the served callable of a full name; None falls back to the installed one.
        allowlist: Returns the allowlist of a served agent; None falls back to the installed one's.
    """

    store: PluginStore
    now: datetime
    served: Callable[[str], CallableTarget | None] = _serve_nothing
    allowlist: Callable[[str], tuple[str, ...] | None] = _serve_nothing

    def build(self, call: RecordedCall, tenant: str) -> PolicyRequest:
        """Build the request that the same call would be today.

        Raises:
            NotFound: its principal, plugin or callable is gone, or was erased.
            PaddockError: the principal may no longer act.
        """
        if call.proposed is not None:
            agent = self.principal(f"agent:{call.plugin}", tenant)
            return build_propose_request(agent, self._proposed_target(call.proposed))
        if call.who is None:
            raise NotFound("who made the call was erased", code="person.not_found")
        target = self.served(call.name) or current_callable(self.store, call.name)
        if target is None:
            raise NotFound(f"{call.plugin} is not installed", code="plugin.not_found")
        environment = CallEnvironment(call.background, project=call.project, agent_path=call.agent_path)
        return build_call_request(self.principal(call.who, tenant), target, environment)

    def principal(self, name: str, tenant: str) -> PolicyPrincipal:
        """Return a principal as it is today; raises as `current_principal` does."""
        principal = self.store.database.read(lambda tx: current_principal(tx, name, tenant, self.now))
        allowlist = self.allowlist(name.partition(":")[2]) if principal.type == "Agent" else None
        return principal if allowlist is None else replace(principal, may_call=frozenset(allowlist))

    def _proposed_target(self, name: str) -> CallableTarget:
        """Resolve what was proposed, which may be nothing that can be called."""
        placeholder = CallableTarget(name, name)
        try:
            return self.served(name) or current_callable(self.store, name) or placeholder
        except PaddockError:
            return placeholder


def served_targets(catalogue: Catalogue) -> Callable[[str], CallableTarget | None]:
    """Return a lookup of served callables by full name, for `RequestBuilder.served`."""

    def find(full_name: str) -> CallableTarget | None:
        try:
            return catalogue.find(full_name).policy_resource
        except PaddockError:
            return None

    return find


def served_allowlists(catalogue: Catalogue) -> Callable[[str], tuple[str, ...] | None]:
    """Return a lookup of served agents' allowlists by plugin, for `RequestBuilder.allowlist`."""

    def find(plugin: str) -> tuple[str, ...] | None:
        try:
            return catalogue.entry(plugin).manifest.allowed_actions
        except PaddockError:
            return None

    return find
