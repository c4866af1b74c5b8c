"""What the rules say to a call: who makes it, as the rules see them, and the rules that are in force now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paddock.core.call import CallContext, Principal
from paddock.core.errors import Denied
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.catalogue import Target
from paddock.gate.remembered_consents import RememberedConsents
from paddock.policy.decision import Allow, Decision, Deny
from paddock.policy.engine import Policy
from paddock.policy.request import CallCircumstances, to_call
from paddock.policy.subject import subject_of

_MOST_KEPT = 10_000


class Decides(Protocol):
    """Who decides about calls."""

    async def about(self, target: Target, context: CallContext) -> Decision:
        """What the rules say to this call."""
        ...

    def pins(self, decision: Decision) -> tuple[str, ...]:
        """The deciding rules, each as `id@hash of the rule`."""
        ...


class InForce(Protocol):
    """Where the rules that are in force are found."""

    @property
    def policy(self) -> Policy: ...


class ByTheRules:
    """Asks the rules that are in force.

    Args:
        rules: Where they are found.
        consents: What people consented to.
    """

    def __init__(self, rules: InForce, consents: RememberedConsents) -> None:
        self._rules = rules
        self._consents = consents
        # By who asks for what where, under one version of the rules: making the whole question costs more than this.
        self._kept: dict[tuple[Target, Principal, frozenset[str], str | None, str | None], Decision] = {}
        self._kept_of: Policy | None = None

    async def about(self, target: Target, context: CallContext) -> Decision:
        principal = context.principal
        if not target.only_reads:  # an effect is never decided on what was true a moment ago
            consents = await self._consents.right_now(principal)
        else:
            consents = self._consents.known(principal)
            if consents is None:
                consents = await self._consents.lately(principal)
        policy = self._rules.policy
        if policy is not self._kept_of or len(self._kept) >= _MOST_KEPT:
            self._kept, self._kept_of = {}, policy
        question = (target, principal, consents, context.project, context.agent_path)
        decision = self._kept.get(question)
        if decision is None:
            circumstances = CallCircumstances(project=context.project, agent_path=context.agent_path)
            decision = policy.decide(to_call(subject_of(principal, consents=consents), target.ruled, circumstances))
            if not (isinstance(decision, Deny) and decision.cause == "error"):
                self._kept[question] = decision
        return decision

    def pins(self, decision: Decision) -> tuple[str, ...]:
        return self._rules.policy.pins(decision)


@dataclass(frozen=True, slots=True)
class TheirOwn:
    """For an author at work on a plugin of theirs: it runs caged, nobody else is there, and they ask themselves."""

    reason: str = "an author tries a plugin of theirs"

    async def about(self, target: Target, context: CallContext) -> Decision:
        del target, context
        return Allow((), self.reason, "")

    def pins(self, decision: Decision) -> tuple[str, ...]:
        del decision
        return ()


def refusal(decision: Deny, target: Target, call: CallId, *, proposed: str | None = None) -> Denied:
    """The error for whoever made the call; what a rule keeps from people is not in it.

    `proposed` is what the decision is about, where it is about what an agent's answer proposes and not about the call.
    """
    about = "is denied" if proposed is None else f"proposes {printable(proposed, 128)}"
    return Denied(
        f"{target.title} {about}: {decision.told}",
        code="policy_denied",
        hint=f"paddock explain {call}",
        details={
            "plugin": target.key.plugin,
            "call_id": call,
            **({} if proposed is None else {"proposed": proposed}),
            "policies": [] if decision.public_reason else list(decision.policies),
            "policy_version": decision.version,
        },
    )
