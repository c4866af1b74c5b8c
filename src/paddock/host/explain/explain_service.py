"""Any decision explained by an id: of a call, of the request that made it, of an approval, or of a ledger entry.

What happened is told by the ledger, and by the rules of that day. What would have changed it is found by asking the
rules of today about who and what is there today; where those come to something else, that is said instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from paddock.approvals.standing import find_standing
from paddock.approvals.store import find_request as find_approval
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PaddockError
from paddock.core.events.capabilities import PluginCapabilityDenied
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.explain.call_explanation import DECISION_TEXT, CallExplanation, DenialExplanation
from paddock.host.explain.call_timeline import CallTimeline, build_timeline
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.entities import current_callable, current_principal
from paddock.ledger.chain.verify import require_unaltered
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import call_history, find_entries
from paddock.ledger.write.writer import LedgerWriter
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.policy.engine import NO_PERMIT_REASON, Policy
from paddock.policy.explain import Explanation, deciding_rules, explain
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import CallEnvironment, build_call_request, build_propose_request
from paddock.policy.rules import Rule
from paddock.policy.target import CallableTarget
from paddock.policy.versions import load_version
from paddock.store.database import Transaction

DecisionExplanation: TypeAlias = CallExplanation | DenialExplanation


class ExplainService:
    """Explains what a running host decided.

    Args:
        views: Where its plugins and its database are looked at.
        rules: The rules that hold.
        ledger: Has to be on disk before it is read.
        catalogue: Gives what is served to a tenant right now.
        clock: The time.
    """

    def __init__(
        self,
        views: StoreThread,
        rules: ActivePolicy,
        ledger: LedgerWriter,
        catalogue: Callable[[Tenant], Catalogue],
        clock: Clock,
    ) -> None:
        self._views = views
        self._rules = rules
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock

    async def explain(self, name: str, by: Principal) -> list[DecisionExplanation]:
        """See `Explainer.explain`."""
        await self._ledger.flush()
        policy, now, catalogue = self._rules.policy, self._clock.now(), self._catalogue(by.tenant)

        def served(full_name: str) -> CallableTarget | None:
            try:
                return catalogue.find(full_name).policy_resource
            except PaddockError:
                return None

        def whitelist(agent: str) -> tuple[str, ...] | None:
            try:
                return catalogue.entry(agent).manifest.allowed_actions
            except PaddockError:
                return None

        return await self._views.run(
            lambda store: Explainer(store, policy, now, served, whitelist).explain(name, by), by.tenant
        )


def _serve_nothing(name: str) -> None:
    del name


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains what was decided on one store.

    Args:
        store: Its plugins and its database.
        policy: The rules that hold now.
        now: The time.
        served: The callable of a full name that is served right now; the installed one is taken where it gives none.
        whitelist: The whitelist of an agent that is served right now; the installed one's where it gives none.
    """

    store: PluginStore
    policy: Policy
    now: datetime
    served: Callable[[str], CallableTarget | None] = _serve_nothing
    whitelist: Callable[[str], tuple[str, ...] | None] = _serve_nothing

    def explain(self, name: str, by: Principal) -> list[DecisionExplanation]:
        """Everything that was decided and that the id names, explained to somebody: of a request there may be several.

        The operator is told everything. Others are told of their own calls and those of their keys, without what a
        rule keeps from people; a key of its own alone.

        Raises:
            NotFound: nothing that was decided goes by this id, or it is not theirs to know.
            HostError: what was recorded of it is not what the ledger had.
        """
        to_all = OPERATOR not in by.roles
        entries = self.store.database.read(lambda tx: _entries_by_id(tx, name, by.tenant))
        stories = self.store.database.read(lambda tx: _build_timelines(tx, entries, by.tenant))
        found: list[DecisionExplanation] = [
            self._explain_call(story, to_all=to_all, tenant=by.tenant)
            for story in stories
            if not to_all or by.id in (story.who, story.owner)
        ]
        if not to_all and not found:
            found += [self._explain_denial(entry) for entry in entries if entry.type == PluginCapabilityDenied.type]
        if found:
            return found
        raise NotFound(
            f"nothing that was decided goes by {printable(name, 100)!r}",
            code="explain.unknown",
            hint=f"look at it: paddock ledger show {entries[0].id}"
            if entries and not to_all
            else "give the id of a call, a request, an approval or an entry: paddock ledger tail --type 'call.*'",
        )

    def _explain_call(self, story: CallTimeline, *, to_all: bool, tenant: str) -> CallExplanation:
        changed = self._rules_changed(story.policy_version)
        rules = self._rules_of_version(story.policy_version, story.policies)
        hidden = [rule.public_text for rule in rules if rule.public_text]
        if len(rules) < len(story.policies):
            # Of a rule whose text is not known nobody can say that it keeps nothing back.
            hidden.append(DECISION_TEXT[story.decision or "deny"])
        if to_all and story.decision in ("deny", "ask") and hidden:
            return CallExplanation(story, hidden[0], (), True, changed, None)
        because = _reason_text(story, rules)
        if story.decision is None:
            return CallExplanation(story, because, (), False, changed, None)
        try:
            now = self._explain_today(story, to_all=to_all, tenant=tenant)
        except PaddockError as error:
            return CallExplanation(story, because, rules, False, changed, None, error.message)
        return CallExplanation(story, because, rules, False, changed, now)

    def _explain_denial(self, entry: LedgerEntry) -> DenialExplanation:
        told = entry.data
        version, policies = told.get("policy_version"), tuple(told.get("policies") or ())
        rules = self._rules_of_version(version, policies)
        capability = told["capability"] or told["method"]
        because = "The rules forbade it." if policies else f"Nobody granted it {capability}."
        return DenialExplanation(
            entry.id,
            told["name"],
            told["method"],
            told["capability"],
            entry.request,
            entry.at,
            because,
            rules,
            version,
            self._rules_changed(version),
        )

    def _rules_changed(self, version: str | None) -> bool:
        return version is not None and version != self.policy.version

    def _rules_of_version(self, version: str | None, ids: tuple[str, ...]) -> tuple[Rule, ...]:
        if version is None:
            return ()
        if version == self.policy.version:
            return deciding_rules(self.policy.rules, ids)
        kept = self.store.database.read(lambda tx: load_version(tx, version))
        return deciding_rules(kept, ids) if kept is not None else ()

    def _explain_today(self, story: CallTimeline, *, to_all: bool, tenant: str) -> Explanation:
        if story.proposed is not None:
            agent = self._current_principal(f"agent:{story.plugin}", tenant)
            return explain(
                self.policy, build_propose_request(agent, self._proposed_target(story.proposed)), to_all=to_all
            )
        who = story.who
        if who is None:
            raise NotFound("who made the call was erased", code="person.not_found")
        target = self.served(story.name) or current_callable(self.store, story.name)
        if target is None:
            raise NotFound(f"{story.plugin} is not installed", code="plugin.not_found")
        around = CallEnvironment(project=story.project, agent_path=story.agent_path)
        return explain(
            self.policy, build_call_request(self._current_principal(who, tenant), target, around), to_all=to_all
        )

    def _current_principal(self, name: str, tenant: str) -> PolicyPrincipal:
        subject = self.store.database.read(lambda tx: current_principal(tx, name, tenant, self.now))
        listed = self.whitelist(name.partition(":")[2]) if subject.type == "Agent" else None
        return subject if listed is None else replace(subject, may_call=frozenset(listed))

    def _proposed_target(self, name: str) -> CallableTarget:
        """What was proposed, which need not be anything that can be called."""
        nothing = CallableTarget(name, name)
        try:
            return self.served(name) or current_callable(self.store, name) or nothing
        except PaddockError:
            return nothing


def explanations_to_json(name: str, found: Iterable[DecisionExplanation]) -> dict[str, Any]:
    """Explanations as JSON: the calls, and what plugins asked of the host."""
    calls = [one.to_value() for one in found if isinstance(one, CallExplanation)]
    return {"id": name, "calls": calls, "uses": [one.to_value() for one in found if isinstance(one, DenialExplanation)]}


def _reason_text(story: CallTimeline, rules: tuple[Rule, ...]) -> str:
    if story.decision is None:
        return "The rules were not asked: it ended before that."
    if story.policies and not rules:
        return f"{DECISION_TEXT[story.decision]} Their text is not known here: {', '.join(story.policies)}."
    if rules or story.decision != "deny":
        return DECISION_TEXT[story.decision]
    said = str((story.error or {}).get("message") or NO_PERMIT_REASON)
    return "No rule allowed it, and what no rule allows does not happen." if said.endswith(NO_PERMIT_REASON) else said


def _entries_by_id(tx: Transaction, name: str, tenant: str) -> list[LedgerEntry]:
    entries = find_entries(tx, _resolve_call_id(tx, name, tenant), tenant)
    require_unaltered(tx, entries)
    return entries


def _build_timelines(tx: Transaction, entries: Iterable[LedgerEntry], tenant: str) -> list[CallTimeline]:
    """The whole stories of the calls that these entries belong to."""
    calls = dict.fromkeys(entry.call for entry in entries if entry.call)
    found = [build_timeline(call, _entries_of_call(tx, call, tenant)) for call in calls]
    return [story for story in found if story is not None]


def _entries_of_call(tx: Transaction, call: str, tenant: str) -> list[LedgerEntry]:
    whole = call_history(tx, call, tenant)
    require_unaltered(tx, whole)
    return whole


def _resolve_call_id(tx: Transaction, name: str, tenant: str) -> str:
    """The call that an approval is about, or a standing one came out of; the name itself where it is of neither."""
    try:
        approval = find_standing(tx, tenant, name).approval if name.startswith("sta_") else name
        return find_approval(tx, tenant, approval).call
    except NotFound:
        return name
