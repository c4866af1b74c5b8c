"""What the rules say to a call: who makes it, as the rules see them, and the rules that are in force now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock
from paddock.core.errors import Denied
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.catalogue import Target
from paddock.policy.decision import Allow, Decision, Deny
from paddock.policy.engine import Policy
from paddock.policy.request import CallCircumstances, to_call
from paddock.policy.subject import subject_of
from paddock.principals.consents import consented_names
from paddock.store.database import Database

GOOD_FOR = 1.0  # seconds for which what a person consented to is remembered, for calls that only read
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
        database: Where people's consents are.
        clock: Tells how old what is remembered of them is.
    """

    def __init__(self, rules: InForce, database: Database, clock: Clock) -> None:
        self._rules = rules
        self._database = database
        self._clock = clock
        self._consents: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}
        # By who asks for what where, under one version of the rules: making the whole question costs more than this.
        self._kept: dict[tuple[Target, Principal, frozenset[str], str | None, str | None], Decision] = {}
        self._kept_of: Policy | None = None

    async def about(self, target: Target, context: CallContext) -> Decision:
        principal = context.principal
        consents = self._remembered(principal) if target.only_reads else None
        if consents is None:  # an effect is never decided on what was true a moment ago
            consents = await self._consented(principal)
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

    def _remembered(self, principal: Principal) -> frozenset[str] | None:
        known = self._consents.get((principal.tenant, principal.person))
        return known[1] if known is not None and self._clock.monotonic() - known[0] < GOOD_FOR else None

    async def _consented(self, principal: Principal) -> frozenset[str]:
        """What their person consented to."""
        now = self._clock.monotonic()
        found = await self._database.read(lambda tx: consented_names(tx, principal.tenant, principal.person))
        if len(self._consents) >= _MOST_KEPT:
            self._consents.clear()
        self._consents[principal.tenant, principal.person] = (now, found)
        return found


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
