"""What the rules say to a call: who makes it, as the rules see them, and the rules that are in force now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from paddock.core.call import CallContext, PolicySnapshot, Principal
from paddock.core.errors import Denied
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.catalogue import Target
from paddock.gate.remembered_consents import RememberedConsents
from paddock.policy.decision import Allow, Decision, Deny
from paddock.policy.engine import Policy
from paddock.policy.request import CallCircumstances, to_call
from paddock.policy.subject import subject_of
from paddock.principals.consents import consented_names
from paddock.store.transaction import Transaction

_MOST_KEPT = 10_000


class Decides(Protocol):
    """Who decides about calls."""

    def at_once(self, target: Target, context: CallContext) -> Decision | None:
        """The same as `about` where nothing has to be read for it, which is nearly always; None otherwise."""
        ...

    async def about(self, target: Target, context: CallContext, *, anew: bool = False) -> Decision:
        """What the rules say to this call; where they allow an effect, to be seen to with `holds` as it starts.

        `anew`: by what is true right now, and not a moment ago.
        """
        ...

    def holds(self, tx: Transaction, target: Target, context: CallContext, decision: Decision) -> bool:
        """Whether they still say so, by what stands in the store in this unit of work."""
        ...

    def pins(self, decision: Decision) -> tuple[str, ...]:
        """The deciding rules, each as `id@hash of the rule`."""
        ...


class InForce(Protocol):
    """Where the rules that are in force are found."""

    @property
    def policy(self) -> Policy: ...


class _Kept(NamedTuple):
    """What one version of the rules said, by who asks for what where: making the whole question costs more than this.

    One value, so that no thread finds the decisions of another version in it.
    """

    policy: Policy
    decisions: dict[tuple[Target, Principal, frozenset[str], str | None, str | None], Decision]


class ByTheRules:
    """Asks the rules that are in force.

    Args:
        rules: Where they are found.
        consents: What people consented to.
    """

    def __init__(self, rules: InForce, consents: RememberedConsents) -> None:
        self._rules = rules
        self._consents = consents
        self._kept: _Kept | None = None

    def at_once(self, target: Target, context: CallContext) -> Decision | None:
        consents = self._consents.known(context.principal)
        if consents is None:
            return None
        decision = self._decided(target, context, consents)
        return decision if target.only_reads or isinstance(decision, Allow) else None

    async def about(self, target: Target, context: CallContext, *, anew: bool = False) -> Decision:
        principal = context.principal
        if not anew:
            decision = self.at_once(target, context)
            if decision is None:
                decision = self._decided(target, context, await self._consents.lately(principal))
            if target.only_reads or isinstance(decision, Allow):
                return decision
        # Whoever has said yes a moment ago is not refused, nor asked, once more.
        return self._decided(target, context, await self._consents.right_now(principal))

    def holds(self, tx: Transaction, target: Target, context: CallContext, decision: Decision) -> bool:
        return self._decided(target, context, consented_names(tx, context.tenant, context.principal.person)) == decision

    def _decided(self, target: Target, context: CallContext, consents: frozenset[str]) -> Decision:
        """May be called from any thread."""
        policy, kept = self._rules.policy, self._kept
        if kept is None or policy is not kept.policy or len(kept.decisions) >= _MOST_KEPT:
            kept = self._kept = _Kept(policy, {})
        question = (target, context.principal, consents, context.project, context.agent_path)
        decision = kept.decisions.get(question)
        if decision is None:
            circumstances = CallCircumstances(project=context.project, agent_path=context.agent_path)
            subject = subject_of(context.principal, consents=consents)
            decision = policy.decide(to_call(subject, target.ruled, circumstances))
            if not (isinstance(decision, Deny) and decision.cause == "error"):
                kept.decisions[question] = decision
        return decision

    def pins(self, decision: Decision) -> tuple[str, ...]:
        return self._rules.policy.pins(decision)


@dataclass(frozen=True, slots=True)
class TheirOwn:
    """For an author at work on a plugin of theirs: it runs caged, nobody else is there, and they ask themselves."""

    reason: str = "an author tries a plugin of theirs"

    def at_once(self, target: Target, context: CallContext) -> Decision:
        del target, context
        return Allow((), self.reason, "")

    async def about(self, target: Target, context: CallContext, *, anew: bool = False) -> Decision:
        del anew
        return self.at_once(target, context)

    def holds(self, tx: Transaction, target: Target, context: CallContext, decision: Decision) -> bool:
        del tx, target, context, decision
        return True

    def pins(self, decision: Decision) -> tuple[str, ...]:
        del decision
        return ()


def snapshot(decision: Decision | None, approval: str | None) -> PolicySnapshot:
    """What the rules said of a call, for its operator; `approval` is the yes that it is made with."""
    if decision is None:
        return PolicySnapshot("allow")
    return PolicySnapshot(decision.word, tuple(decision.policies), decision.version, approval)


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
