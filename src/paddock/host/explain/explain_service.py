"""Explains a decision by id: of a call, of the request that made it, of an approval, or of a ledger entry.

What happened comes from the ledger and from the rules in force at that time. What would have changed the decision comes
from evaluating today's rules for today's principal and callable; if those decide otherwise, that is reported instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Annotated, TypeAlias, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from paddock.approvals.standing_approval import find_standing
from paddock.approvals.store import find_request as find_approval
from paddock.core.action import Action
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PaddockError
from paddock.core.events.capabilities import PluginCapabilityDenied
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.explain.call_explanation import (
    DECISION_TEXT,
    CallExplanation,
    CallExplanationJson,
    DenialExplanation,
    DenialExplanationJson,
)
from paddock.host.explain.call_timeline import CallTimeline, build_timeline
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.recorded_request import RecordedCall, RequestBuilder, served_allowlists, served_targets
from paddock.ledger.chain.verify import require_unaltered
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import call_history, find_entries
from paddock.ledger.write.writer import LedgerWriter
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.policy.engine import NO_PERMIT_REASON, Policy
from paddock.policy.explain import Explanation, deciding_rules, explain
from paddock.policy.rules import Rule
from paddock.policy.target import CallableTarget
from paddock.policy.versions import load_version
from paddock.principals.display_names import read_names
from paddock.store.database import Transaction

DecisionExplanation: TypeAlias = CallExplanation | DenialExplanation


class ExplainService:
    """Explains decisions of a running host.

    Args:
        views: The plugin store and database, for reads.
        active_policy: The policy in force.
        ledger: Flushed before each read.
        catalogue: Returns a tenant's current catalogue.
        clock: The time.
    """

    def __init__(
        self,
        views: StoreThread,
        active_policy: ActivePolicy,
        ledger: LedgerWriter,
        catalogue: Callable[[Tenant], Catalogue],
        clock: Clock,
    ) -> None:
        self._views = views
        self._active_policy = active_policy
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock

    async def explain(self, name: str, by: Principal) -> list[DecisionExplanation]:
        """See `Explainer.explain`."""
        with suppress(PaddockError):  # what is recorded can still be explained
            await self._ledger.flush()
        policy, now, catalogue = self._active_policy.policy, self._clock.now(), self._catalogue(by.tenant)

        requests = (served_targets(catalogue), served_allowlists(catalogue))
        return await self._views.run(
            lambda store: Explainer(store, policy, now, *requests).explain(name, by), by.tenant
        )


def _serve_nothing(name: str) -> None:
    del name


class Explainer(Struct, frozen=True):
    """Explains decisions recorded in one store.

    Args:
        store: The plugin store with its database.
        policy: The rules in force now.
        now: The time.
        served: Returns the served callable of a full name; None falls back to the installed one.
        allowlist: Returns the allowlist of a served agent; None falls back to the installed one's.
    """

    store: PluginStore
    policy: Policy
    now: datetime
    served: Callable[[str], CallableTarget | None] = _serve_nothing
    allowlist: Callable[[str], tuple[str, ...] | None] = _serve_nothing

    def explain(self, name: str, by: Principal) -> list[DecisionExplanation]:
        """Explain every decision that the id names: a request may have several.

        Operators see everything. Other principals see their own calls and those of their keys, without what a rule
        withholds from them; a key sees its own calls alone.

        Raises:
            NotFound: no decision has this id, or the principal may not see it.
            HostError: the recorded entries were altered.
        """
        withhold = OPERATOR not in by.roles
        entries = self.store.database.read(lambda tx: _entries_by_id(tx, name, by.tenant))
        timelines = self.store.database.read(lambda tx: _build_timelines(tx, entries, by.tenant))
        names = self.store.database.read(lambda tx: read_names(tx, by.tenant))
        explanations: list[DecisionExplanation] = [
            replace(self._explain_call(timeline, withhold=withhold, tenant=by.tenant), names=names)
            for timeline in timelines
            if not withhold or by.id in (timeline.who, timeline.owner)
        ]
        if not withhold and not explanations:
            explanations += [
                self._explain_denial(entry) for entry in entries if entry.type == PluginCapabilityDenied.type
            ]
        if explanations:
            return explanations
        if entries and not withhold:
            raise no_decision_error(name, entries[0].id)
        raise no_decision_error(name)

    def _explain_call(self, timeline: CallTimeline, *, withhold: bool, tenant: str) -> CallExplanation:
        changed = self._rules_changed(timeline.policy_version)
        rules = self._rules_of_version(timeline.policy_version, timeline.policies)
        public_texts = [rule.public_text for rule in rules if rule.public_text]
        if len(rules) < len(timeline.policies):
            # A rule whose text is unknown may withhold its reason, so assume it does.
            public_texts.append(DECISION_TEXT[timeline.decision or "deny"])
        if withhold and timeline.decision in ("deny", "ask") and public_texts:
            return CallExplanation(timeline, public_texts[0], (), True, changed, None)
        because = _reason_text(timeline, rules)
        if timeline.decision is None:
            return CallExplanation(timeline, because, (), False, changed, None)
        try:
            now = self._explain_today(timeline, withhold=withhold, tenant=tenant)
        except PaddockError as error:
            return CallExplanation(timeline, because, rules, False, changed, None, error.message)
        return CallExplanation(timeline, because, rules, False, changed, now)

    def _explain_denial(self, entry: LedgerEntry) -> DenialExplanation:
        event = entry.data
        version, policies = event.get("policy_version"), tuple(event.get("policies") or ())
        rules = self._rules_of_version(version, policies)
        capability = event["capability"] or event["method"]
        because = "The rules forbade it." if policies else f"It was not granted {capability}."
        return DenialExplanation(
            entry.id,
            event["name"],
            event["method"],
            event["capability"],
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
        recorded = self.store.database.read(lambda tx: load_version(tx, version))
        return deciding_rules(recorded, ids) if recorded is not None else ()

    def _explain_today(self, timeline: CallTimeline, *, withhold: bool, tenant: str) -> Explanation:
        call = RecordedCall(
            timeline.who,
            timeline.plugin,
            timeline.name,
            timeline.background,
            timeline.project,
            timeline.agent_path,
            timeline.proposed,
        )
        builder = RequestBuilder(self.store, self.now, self.served, self.allowlist)
        return explain(self.policy, builder.build(call, tenant), withhold=withhold)


def no_decision_error(name: str, entry: str | None = None) -> NotFound:
    """Build the error for an id without a decision; `entry` is a ledger entry that has the id all the same."""
    if entry is not None:
        hint, action = "the ledger has entries of it", Action.of("ledger.show", entry=entry)
    else:
        hint = "give the id of a call, a request, an approval or a ledger entry"
        action = Action.of("ledger.tail", type="call.*")
    return NotFound(
        f"no decision has the id {printable(name, 100)!r}", code="explain.unknown", hint=hint, action=action
    )


class ExplanationJson(TypedDict):
    """The explanations of one id."""

    id: str
    calls: list[CallExplanationJson]
    uses: Annotated[list[DenialExplanationJson], "Denied capability requests of plugins."]


def explanations_to_json(name: str, explanations: Iterable[DecisionExplanation]) -> ExplanationJson:
    """Serialize explanations: calls, and denied capability requests."""
    calls = [explanation.to_value() for explanation in explanations if isinstance(explanation, CallExplanation)]
    denials = [explanation.to_value() for explanation in explanations if isinstance(explanation, DenialExplanation)]
    return {"id": name, "calls": calls, "uses": denials}


def _reason_text(timeline: CallTimeline, rules: tuple[Rule, ...]) -> str:
    if timeline.decision is None:
        return "The rules were not asked: it ended before that."
    if timeline.policies and not rules:
        return f"{DECISION_TEXT[timeline.decision]} Their text is not known here: {', '.join(timeline.policies)}."
    if rules or timeline.decision != "deny":
        return DECISION_TEXT[timeline.decision]
    message = str((timeline.error or {}).get("message") or NO_PERMIT_REASON)
    return (
        "No rule allowed it, and what no rule allows does not happen."
        if message.endswith(NO_PERMIT_REASON)
        else message
    )


def _entries_by_id(tx: Transaction, name: str, tenant: str) -> list[LedgerEntry]:
    entries = find_entries(tx, _resolve_call_id(tx, name, tenant), tenant)
    require_unaltered(tx, entries)
    return entries


def _build_timelines(tx: Transaction, entries: Iterable[LedgerEntry], tenant: str) -> list[CallTimeline]:
    """Build the complete timelines of the calls that these entries belong to."""
    calls = dict.fromkeys(entry.call for entry in entries if entry.call)
    timelines = [build_timeline(call, _entries_of_call(tx, call, tenant)) for call in calls]
    return [timeline for timeline in timelines if timeline is not None]


def _entries_of_call(tx: Transaction, call: str, tenant: str) -> list[LedgerEntry]:
    entries = call_history(tx, call, tenant)
    require_unaltered(tx, entries)
    return entries


def _resolve_call_id(tx: Transaction, identifier: str, tenant: str) -> str:
    """Return the call of an approval, or of the approval behind a standing one; other ids are returned unchanged."""
    try:
        approval = find_standing(tx, tenant, identifier).approval if identifier.startswith("sta_") else identifier
        return find_approval(tx, tenant, approval).call
    except NotFound:
        return identifier
