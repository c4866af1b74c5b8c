"""Agents keep to their whitelists: what they call, and what they propose that others should.

An agent's whitelist is `allowed_actions` of its manifest. Whether something stands on it is a rule like any other, so a
denial is recorded and explained as others are. Under which keys it is to be done, where an agent hints at that, is
filled in on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.catalogue import Catalogue, Target
from paddock.gate.deciding import Decides, InForce
from paddock.gate.proposed_keys import BadHint, with_keys
from paddock.manifest.model import Kind, Manifest
from paddock.plugins.runtimes.proposals import proposed
from paddock.policy.decision import Decision, Deny
from paddock.policy.request import CallCircumstances, to_call, to_propose
from paddock.policy.subject import Subject, subject_of
from paddock.policy.target import CallableTarget
from paddock.store.transaction import Transaction

Offers: TypeAlias = Callable[[Tenant], Catalogue]
"""What a tenant can call."""


@dataclass(frozen=True, slots=True)
class OnTheirWhitelists:
    """See `Decides`. Calls that agents make are decided with their whitelists; all others as ever.

    Args:
        inside: Decides about those of others.
        rules: Where the rules that are in force are found.
        offers: Where agents are found, with what their manifests say.
    """

    inside: Decides
    rules: InForce
    offers: Offers

    def at_once(self, target: Target, context: CallContext) -> Decision | None:
        agents = context.principal.kind == "agent"
        return self._of_agent(target, context) if agents else self.inside.at_once(target, context)

    async def about(self, target: Target, context: CallContext, *, anew: bool = False) -> Decision:
        if context.principal.kind == "agent":
            return self._of_agent(target, context)
        return await self.inside.about(target, context, anew=anew)

    def _of_agent(self, target: Target, context: CallContext) -> Decision:
        principal = context.principal
        agent = subject_of(principal, may_call=self._whitelist(principal.id.partition(":")[2], context.tenant))
        circumstances = CallCircumstances(project=context.project, agent_path=context.agent_path)
        return self.rules.policy.decide(to_call(agent, target.ruled, circumstances))

    def holds(self, tx: Transaction, target: Target, context: CallContext, decision: Decision) -> bool:
        if context.principal.kind == "agent":
            return self._of_agent(target, context) == decision
        return self.inside.holds(tx, target, context, decision)

    def pins(self, decision: Decision) -> tuple[str, ...]:
        return self.inside.pins(decision)

    def _whitelist(self, agent: str, tenant: Tenant) -> tuple[str, ...]:
        try:
            manifest = self.offers(tenant).entry(agent).manifest
        except PaddockError:
            return ()  # nobody knows it, so it may call nothing
        return manifest.allowed_actions if manifest.kind is Kind.AGENT else ()


@dataclass(frozen=True, slots=True)
class Proposals:
    """Looks at what agents propose, and fills in under which keys.

    Args:
        rules: Where the rules that are in force are found.
        offers: Where that is found what they propose to call.
    """

    rules: InForce
    offers: Offers

    def denied(self, agent: Target, result: Any) -> tuple[str, Deny] | None:
        """The first that the agent may not propose, and why; None where its answer proposes nothing beyond its
        whitelist."""
        manifest = agent.manifest
        subject = _as_agent(manifest, agent.key.tenant)
        for name in dict.fromkeys(proposed(manifest, result)):
            decision = self.rules.policy.decide(to_propose(subject, self._target(name, agent.key.tenant)))
            if isinstance(decision, Deny):
                return name, decision
        return None

    def with_keys(self, agent: Target, result: Any) -> Any:
        """Its answer, with the keys filled in that it hints at.

        Raises:
            BadHint: one of them comes to no key.
        """
        answer, problems = with_keys(agent.manifest, result)
        if problems:
            raise BadHint(agent.key.plugin, agent.spec.name, problems)
        return answer

    def _target(self, name: str, tenant: Tenant) -> CallableTarget:
        try:
            return self.offers(tenant).find(name).ruled
        except PaddockError:
            return CallableTarget(name, name)  # nothing that could be called; the whitelist counts all the same


def _as_agent(manifest: Manifest, tenant: Tenant) -> Subject:
    return Subject("Agent", f"agent:{manifest.name}", tenant, may_call=frozenset(manifest.allowed_actions))
