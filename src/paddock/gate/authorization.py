"""Who may call what: decisions of the policy, with caches for consents and decisions, and agents' allowlists.

Calls that only read come thousands a second, so a decision about them is usually made without reading the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.call import CallContext, PolicySnapshot, Principal
from paddock.core.clock import Clock
from paddock.core.errors import Denied, PaddockError
from paddock.core.ids import CallId, Tenant
from paddock.core.printable import printable
from paddock.core.single_flight import SharedRuns
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.idempotency.hints import InvalidIdempotencyHint, fill_idempotency_hints
from paddock.manifest.model import Manifest, PluginKind
from paddock.plugins.dialects.proposals import proposed_callables
from paddock.policy.decision import Allow, Decision, Deny
from paddock.policy.engine import Policy, PolicySource
from paddock.policy.principal import PolicyPrincipal, to_policy_principal
from paddock.policy.request import CallEnvironment, build_call_request, build_propose_request
from paddock.policy.target import CallableTarget
from paddock.principals.consents import consented_names
from paddock.store.database import Database
from paddock.store.transaction import Transaction

CONSENT_TTL_S = 1.0  # seconds
_REFRESH_AFTER_S = CONSENT_TTL_S / 2  # so that while calls come, none has to wait for it
_MAX_CACHED_PEOPLE = 10_000


class ConsentCache:
    """Caches people's consents for a moment. Concurrent readers of the same person share one read.

    Args:
        database: Holds the consents.
        clock: Tells the age of an entry.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}
        # A read that began longer ago may give consents that are older than they may be.
        self._reads: SharedRuns[tuple[str, str], frozenset[str]] = SharedRuns(clock.monotonic, CONSENT_TTL_S)

    def get_cached(self, principal: Principal) -> frozenset[str] | None:
        """The cached consents of a principal's person; None where they have to be read."""
        person = (principal.tenant, principal.person)
        known = self._known.get(person)
        if known is None:
            return None
        age = self._clock.monotonic() - known[0]
        if age >= _REFRESH_AFTER_S:
            self._reads.start(person, lambda: self._read(person))
        return known[1] if age < CONSENT_TTL_S else None

    async def read_shared(self, principal: Principal) -> frozenset[str]:
        """The consents of a principal's person, read once for all who need them at this time."""
        person = (principal.tenant, principal.person)
        return await self._reads.join(person, lambda: self._read(person))

    async def read_now(self, principal: Principal) -> frozenset[str]:
        """The consents of a principal's person, read now and not a moment ago."""
        return await self._read((principal.tenant, principal.person))

    async def _read(self, person: tuple[str, str]) -> frozenset[str]:
        asked = self._clock.monotonic()
        return self._store(person, asked, await self._database.read(lambda tx: consented_names(tx, *person)))

    def _store(self, person: tuple[str, str], asked: float, found: frozenset[str]) -> frozenset[str]:
        if len(self._known) >= _MAX_CACHED_PEOPLE:
            self._known.clear()
        known = self._known.get(person)
        if known is None or known[0] <= asked:
            self._known[person] = (asked, found)
        return found


_MAX_CACHED_DECISIONS = 10_000


class MadeDecision(NamedTuple):
    """A decision about a call that is about to start."""

    target: CallTarget
    context: CallContext
    decision: Decision


class Authorizer(Protocol):
    """Decides about calls."""

    def decide_cached(self, target: CallTarget, context: CallContext) -> Decision | None:
        """The decision where nothing has to be read for it, which is nearly always; None otherwise."""
        ...

    async def decide(self, target: CallTarget, context: CallContext, *, anew: bool = False) -> Decision:
        """The policy's decision about a call. One that allows an effect is checked with `still_hold` as it starts.

        `anew`: by the consents as they are right now, not as they were a moment ago.
        """
        ...

    def still_hold(self, tx: Transaction, decisions: Sequence[MadeDecision]) -> bool:
        """Whether all decisions are still the same, by the consents within this transaction."""
        ...

    def rule_pins(self, decision: Decision) -> tuple[str, ...]:
        """The deciding rules, each as `id@hash of the rule`."""
        ...


_EnvironmentKey: TypeAlias = tuple[bool, bool, str | None, str | None]
"""The fields of a `CallEnvironment`, in their order; a tuple is hashed faster."""


class _DecisionCache(NamedTuple):
    """Decisions of one version of the policy. Building a policy request costs more than looking one up.

    One value, so that no thread finds the decisions of another version in it.
    """

    policy: Policy
    decisions: dict[tuple[CallTarget, Principal, frozenset[str], _EnvironmentKey], Decision]


class PolicyAuthorizer:
    """Decides by the active policy.

    Args:
        rules: Gives the active policy.
        consents: People's consents.
    """

    def __init__(self, rules: PolicySource, consents: ConsentCache) -> None:
        self._policy_source = rules
        self._consents = consents
        self._cache: _DecisionCache | None = None

    def decide_cached(self, target: CallTarget, context: CallContext) -> Decision | None:
        consents = self._consents.get_cached(context.principal)
        if consents is None:
            return None
        decision = self._decide_with(target, context, consents)
        return decision if target.read_only or isinstance(decision, Allow) else None

    async def decide(self, target: CallTarget, context: CallContext, *, anew: bool = False) -> Decision:
        principal = context.principal
        if not anew:
            decision = self.decide_cached(target, context)
            if decision is None:
                decision = self._decide_with(target, context, await self._consents.read_shared(principal))
            if target.read_only or isinstance(decision, Allow):
                return decision
        # A person who consented a moment ago is neither refused nor asked again.
        return self._decide_with(target, context, await self._consents.read_now(principal))

    def still_hold(self, tx: Transaction, decisions: Sequence[MadeDecision]) -> bool:
        people = {(context.tenant, context.principal.person) for _, context, _ in decisions}
        consents = {person: consented_names(tx, *person) for person in people}
        return all(
            self._decide_with(target, context, consents[context.tenant, context.principal.person]) == decision
            for target, context, decision in decisions
        )

    def _decide_with(self, target: CallTarget, context: CallContext, consents: frozenset[str]) -> Decision:
        """May be called from any thread."""
        policy, kept = self._policy_source.policy, self._cache
        if kept is None or policy is not kept.policy or len(kept.decisions) >= _MAX_CACHED_DECISIONS:
            kept = self._cache = _DecisionCache(policy, {})
        environment = (context.background, context.dry_run, context.project, context.agent_path)
        question = (target, context.principal, consents, environment)
        decision = kept.decisions.get(question)
        if decision is None:
            subject = to_policy_principal(context.principal, consents=consents)
            decision = policy.decide(build_call_request(subject, target.policy_resource, CallEnvironment(*environment)))
            if not (isinstance(decision, Deny) and decision.cause == "error"):
                kept.decisions[question] = decision
        return decision

    def rule_pins(self, decision: Decision) -> tuple[str, ...]:
        return self._policy_source.policy.rule_pins(decision)


def _environment_of(context: CallContext) -> CallEnvironment:
    return CallEnvironment(context.background, context.dry_run, context.project, context.agent_path)


class AllowAll(Struct, frozen=True):
    """Allows everything, for an author who develops a plugin: it runs caged, and they are its only caller."""

    reason: str = "an author tries a plugin of theirs"

    def decide_cached(self, target: CallTarget, context: CallContext) -> Decision:
        del target, context
        return Allow((), self.reason, "")

    async def decide(self, target: CallTarget, context: CallContext, *, anew: bool = False) -> Decision:
        del anew
        return self.decide_cached(target, context)

    def still_hold(self, tx: Transaction, decisions: Sequence[MadeDecision]) -> bool:
        del tx, decisions
        return True

    def rule_pins(self, decision: Decision) -> tuple[str, ...]:
        del decision
        return ()


def policy_snapshot(decision: Decision | None, approval: str | None) -> PolicySnapshot:
    """The policy's decision about a call, for its operator; `approval` is the one that the call is made with."""
    if decision is None:
        return PolicySnapshot("allow")
    return PolicySnapshot(decision.word, tuple(decision.policies), decision.version, approval)


def denied_error(decision: Deny, target: CallTarget, call: CallId, *, proposed: str | None = None) -> Denied:
    """The error for the caller, without reasons that a rule keeps from people.

    `proposed` is what the decision is about, where it is about what an agent's answer proposes and not about the call.
    """
    about = "is denied" if proposed is None else f"proposes {printable(proposed, 128)}"
    return Denied(
        f"{target.title} {about}: {decision.caller_reason}",
        code="policy_denied",
        action=Action.of("call.explain", call=call, tenant=target.key.tenant),
        details={
            "plugin": target.key.plugin,
            "call_id": call,
            **({} if proposed is None else {"proposed": proposed}),
            "policies": [] if decision.public_reason else list(decision.policies),
            "policy_version": decision.version,
        },
    )


FindCatalogue: TypeAlias = Callable[[Tenant], Catalogue]
"""What a tenant can call."""


class AgentAllowlistAuthorizer(Struct, frozen=True):
    """Decides about agents' calls with the allowlists of their manifests, and leaves all others to `fallback`.

    Args:
        fallback: Decides about the calls of everybody else.
        policy_source: Gives the active policy.
        catalogue_of: Gives the catalogue of a tenant, in which agents are found.
    """

    fallback: Authorizer
    policy_source: PolicySource
    catalogue_of: FindCatalogue

    def decide_cached(self, target: CallTarget, context: CallContext) -> Decision | None:
        agents = context.principal.kind == "agent"
        return self._decide_for_agent(target, context) if agents else self.fallback.decide_cached(target, context)

    async def decide(self, target: CallTarget, context: CallContext, *, anew: bool = False) -> Decision:
        if context.principal.kind == "agent":
            return self._decide_for_agent(target, context)
        return await self.fallback.decide(target, context, anew=anew)

    def _decide_for_agent(self, target: CallTarget, context: CallContext) -> Decision:
        principal = context.principal
        agent = to_policy_principal(principal, may_call=self._allowlist(principal.id.partition(":")[2], context.tenant))
        environment = _environment_of(context)
        return self.policy_source.policy.decide(build_call_request(agent, target.policy_resource, environment))

    def still_hold(self, tx: Transaction, decisions: Sequence[MadeDecision]) -> bool:
        about_agents = [made for made in decisions if made.context.principal.kind == "agent"]
        about_others = [made for made in decisions if made.context.principal.kind != "agent"]
        return all(
            self._decide_for_agent(target, context) == decision for target, context, decision in about_agents
        ) and self.fallback.still_hold(tx, about_others)

    def rule_pins(self, decision: Decision) -> tuple[str, ...]:
        return self.fallback.rule_pins(decision)

    def _allowlist(self, agent: str, tenant: Tenant) -> tuple[str, ...]:
        try:
            manifest = self.catalogue_of(tenant).entry(agent).manifest
        except PaddockError:
            return ()  # an unknown agent may call nothing
        return manifest.allowed_actions if manifest.kind is PluginKind.AGENT else ()


class ProposalChecker(Struct, frozen=True):
    """Checks the calls that agents propose, and fills in their idempotency keys.

    Args:
        policy_source: Gives the active policy.
        catalogue_of: Gives the catalogue of a tenant, in which the proposed callables are found.
    """

    policy_source: PolicySource
    catalogue_of: FindCatalogue

    def first_denied(self, agent: CallTarget, result: Any) -> tuple[str, Deny] | None:
        """The first that the agent may not propose, and why; None where its answer proposes nothing beyond its
        allowlist."""
        manifest = agent.manifest
        subject = _agent_subject(manifest, agent.key.tenant)
        for name in dict.fromkeys(proposed_callables(manifest, result)):
            decision = self.policy_source.policy.decide(
                build_propose_request(subject, self._policy_resource(name, agent.key.tenant))
            )
            if isinstance(decision, Deny):
                return name, decision
        return None

    def fill_hints(self, agent: CallTarget, result: Any) -> Any:
        """Its answer, with the keys filled in that it hints at.

        Raises:
            BadHint: one of them comes to no key.
        """
        answer, problems = fill_idempotency_hints(agent.manifest, result)
        if problems:
            raise InvalidIdempotencyHint(agent.key.plugin, agent.spec.name, problems)
        return answer

    def _policy_resource(self, name: str, tenant: Tenant) -> CallableTarget:
        try:
            return self.catalogue_of(tenant).find(name).policy_resource
        except PaddockError:
            return CallableTarget(name, name)  # nothing that could be called; the allowlist counts all the same


def _agent_subject(manifest: Manifest, tenant: Tenant) -> PolicyPrincipal:
    return PolicyPrincipal("Agent", f"agent:{manifest.name}", tenant, may_call=frozenset(manifest.allowed_actions))
