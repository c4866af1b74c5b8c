"""Any decision explained by an id: of a call, of the request that made it, of an approval, or of a ledger entry.

What happened is told by the ledger, and by the rules of that day. What would have changed it is found by asking the
rules of today about who and what is there today; where those come to something else, that is said instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PaddockError
from paddock.core.events_capabilities import PluginCapabilityDenied
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue import Catalogue
from paddock.host.explained import DECIDED, Explained, ExplainedUse
from paddock.host.rulebook import Rulebook
from paddock.host.seen_by_rules import callable_now, subject_now
from paddock.host.story import Story, story_of
from paddock.ledger.entry import Entry
from paddock.ledger.feed import course_of, told_of
from paddock.ledger.spot_check import require_unaltered
from paddock.ledger.writer import LedgerWriter
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread
from paddock.policy.approvals.rows import find as find_approval
from paddock.policy.approvals.standing import find as find_standing
from paddock.policy.engine import NOTHING_ALLOWS, Policy
from paddock.policy.explain import Explanation, explain, rules_that_decided
from paddock.policy.request import CallCircumstances, to_call, to_propose
from paddock.policy.rules import Rule
from paddock.policy.subject import Subject
from paddock.policy.target import CallableTarget
from paddock.policy.versions import rules_of
from paddock.store.database import Transaction

Decided: TypeAlias = Explained | ExplainedUse


class Explaining:
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
        rules: Rulebook,
        ledger: LedgerWriter,
        catalogue: Callable[[Tenant], Catalogue],
        clock: Clock,
    ) -> None:
        self._views = views
        self._rules = rules
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock

    async def explain(self, name: str, by: Principal) -> list[Decided]:
        """See `Explainer.explain`."""
        await self._ledger.flushed()
        policy, now, catalogue = self._rules.policy, self._clock.now(), self._catalogue(by.tenant)

        def served(full_name: str) -> CallableTarget | None:
            try:
                return catalogue.find(full_name).ruled
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


def _nothing_is_served(name: str) -> None:
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
    served: Callable[[str], CallableTarget | None] = _nothing_is_served
    whitelist: Callable[[str], tuple[str, ...] | None] = _nothing_is_served

    def explain(self, name: str, by: Principal) -> list[Decided]:
        """Everything that was decided and that the id names, explained to somebody: of a request there may be several.

        The operator is told everything. Others are told of their own calls and those of their keys, without what a
        rule keeps from people; a key of its own alone.

        Raises:
            NotFound: nothing that was decided goes by this id, or it is not theirs to know.
            HostError: what was recorded of it is not what the ledger had.
        """
        to_all = OPERATOR not in by.roles
        entries = self.store.database.read(lambda tx: _told_of(tx, name, by.tenant))
        stories = self.store.database.read(lambda tx: _stories(tx, entries, by.tenant))
        found: list[Decided] = [
            self._explained(story, to_all=to_all, tenant=by.tenant)
            for story in stories
            if not to_all or by.id in (story.who, story.owner)
        ]
        if not to_all and not found:
            found += [self._denied(entry) for entry in entries if entry.type == PluginCapabilityDenied.type]
        if found:
            return found
        raise NotFound(
            f"nothing that was decided goes by {printable(name, 100)!r}",
            code="explain.unknown",
            hint=f"look at it: paddock ledger show {entries[0].id}"
            if entries and not to_all
            else "give the id of a call, a request, an approval or an entry: paddock ledger tail --type 'call.*'",
        )

    def _explained(self, story: Story, *, to_all: bool, tenant: str) -> Explained:
        changed = self._changed(story.policy_version)
        rules = self._rules_then(story.policy_version, story.policies)
        hidden = [rule.public_text for rule in rules if rule.public_text]
        if len(rules) < len(story.policies):
            # Of a rule whose text is not known nobody can say that it keeps nothing back.
            hidden.append(DECIDED[story.decision or "deny"])
        if to_all and story.decision in ("deny", "ask") and hidden:
            return Explained(story, hidden[0], (), True, changed, None)
        because = _because(story, rules)
        if story.decision is None:
            return Explained(story, because, (), False, changed, None)
        try:
            now = self._today(story, to_all=to_all, tenant=tenant)
        except PaddockError as error:
            return Explained(story, because, rules, False, changed, None, error.message)
        return Explained(story, because, rules, False, changed, now)

    def _denied(self, entry: Entry) -> ExplainedUse:
        told = entry.data
        version, policies = told.get("policy_version"), tuple(told.get("policies") or ())
        rules = self._rules_then(version, policies)
        capability = told["capability"] or told["method"]
        because = "The rules forbade it." if policies else f"Nobody granted it {capability}."
        return ExplainedUse(
            entry.id,
            told["name"],
            told["method"],
            told["capability"],
            entry.request,
            entry.at,
            because,
            rules,
            version,
            self._changed(version),
        )

    def _changed(self, version: str | None) -> bool:
        return version is not None and version != self.policy.version

    def _rules_then(self, version: str | None, ids: tuple[str, ...]) -> tuple[Rule, ...]:
        if version is None:
            return ()
        if version == self.policy.version:
            return rules_that_decided(self.policy.rules, ids)
        kept = self.store.database.read(lambda tx: rules_of(tx, version))
        return rules_that_decided(kept, ids) if kept is not None else ()

    def _today(self, story: Story, *, to_all: bool, tenant: str) -> Explanation:
        if story.proposed is not None:
            agent = self._subject(f"agent:{story.plugin}", tenant)
            return explain(self.policy, to_propose(agent, self._proposed(story.proposed)), to_all=to_all)
        who = story.who
        if who is None:
            raise NotFound("who made the call was erased", code="person.not_found")
        target = self.served(story.name) or callable_now(self.store, story.name)
        if target is None:
            raise NotFound(f"{story.plugin} is not installed", code="plugin.not_found")
        around = CallCircumstances(project=story.project, agent_path=story.agent_path)
        return explain(self.policy, to_call(self._subject(who, tenant), target, around), to_all=to_all)

    def _subject(self, name: str, tenant: str) -> Subject:
        subject = self.store.database.read(lambda tx: subject_now(tx, name, tenant, self.now))
        listed = self.whitelist(name.partition(":")[2]) if subject.type == "Agent" else None
        return subject if listed is None else replace(subject, may_call=frozenset(listed))

    def _proposed(self, name: str) -> CallableTarget:
        """What was proposed, which need not be anything that can be called."""
        nothing = CallableTarget(name, name)
        try:
            return self.served(name) or callable_now(self.store, name) or nothing
        except PaddockError:
            return nothing


def to_value(name: str, found: Iterable[Decided]) -> dict[str, Any]:
    """Explanations as JSON: the calls, and what plugins asked of the host."""
    calls = [one.to_value() for one in found if isinstance(one, Explained)]
    return {"id": name, "calls": calls, "uses": [one.to_value() for one in found if isinstance(one, ExplainedUse)]}


def _because(story: Story, rules: tuple[Rule, ...]) -> str:
    if story.decision is None:
        return "The rules were not asked: it ended before that."
    if story.policies and not rules:
        return f"{DECIDED[story.decision]} Their text is not known here: {', '.join(story.policies)}."
    if rules or story.decision != "deny":
        return DECIDED[story.decision]
    said = str((story.error or {}).get("message") or NOTHING_ALLOWS)
    return "No rule allowed it, and what no rule allows does not happen." if said.endswith(NOTHING_ALLOWS) else said


def _told_of(tx: Transaction, name: str, tenant: str) -> list[Entry]:
    entries = told_of(tx, _call_of(tx, name, tenant), tenant)
    require_unaltered(tx, entries)
    return entries


def _stories(tx: Transaction, entries: Iterable[Entry], tenant: str) -> list[Story]:
    """The whole stories of the calls that these entries belong to."""
    calls = dict.fromkeys(entry.call for entry in entries if entry.call)
    found = [story_of(call, _whole(tx, call, tenant)) for call in calls]
    return [story for story in found if story is not None]


def _whole(tx: Transaction, call: str, tenant: str) -> list[Entry]:
    whole = course_of(tx, call, tenant)
    require_unaltered(tx, whole)
    return whole


def _call_of(tx: Transaction, name: str, tenant: str) -> str:
    """The call that an approval is about, or a standing one came out of; the name itself where it is of neither."""
    try:
        approval = find_standing(tx, tenant, name).approval if name.startswith("sta_") else name
        return find_approval(tx, tenant, approval).call
    except NotFound:
        return name
