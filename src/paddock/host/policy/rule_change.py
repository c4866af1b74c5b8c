"""What a change of the rules would do: tests that fail then, recent decisions that differ, and tools that are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, TypedDict

from msgspec import Struct

from paddock.core.errors import MistakeJson, PaddockError, Problem
from paddock.core.schema_annotations import NonNegativeInt
from paddock.host.policy.recorded_request import RecordedCall, RequestBuilder
from paddock.ledger.entry import LedgerEntry
from paddock.manifest.names import full_name
from paddock.policy.cases import PolicyCase, find_failed_cases, read_case_file, read_cases
from paddock.policy.decision import Ask, Decision, DecisionWord, Deny
from paddock.policy.engine import Policy
from paddock.policy.explain import decision_word
from paddock.policy.request import PolicyRequest, build_call_request
from paddock.policy.rules import RuleSet

MAX_RECENT_CALLS: Final = 1_000  # ledger entries that are decided again
MAX_DISTINCT_CALLS: Final = 300
MAX_CHANGED_DECISIONS: Final = 50  # listed; all are counted
MAX_TRIED_CALLABLES: Final = 500


class FailedPolicyCaseJson(TypedDict):
    """A policy test that the change makes fail."""

    name: str
    why: str


class ChangedDecisionJson(TypedDict):
    """Recent calls of one principal to one callable, about which the new rules decide otherwise."""

    who: str
    name: str
    before: DecisionWord
    after: DecisionWord
    rules: Annotated[list[str], "The ids of the rules that decide then."]
    reason: str
    calls: Annotated[NonNegativeInt, "How many of the recent calls."]
    call: Annotated[str, "The latest of them."]


class RuleChangeJson(TypedDict):
    """What a change of a rule file does."""

    file: str
    version: Annotated[str, "The version of the rules with the change. Accept the change by this version."]
    current_version: Annotated[str, "The version in force."]
    added: Annotated[list[str], "The ids of new rules."]
    changed: Annotated[list[str], "The ids of rules that change."]
    removed: Annotated[list[str], "The ids of rules that are gone."]
    warnings: Annotated[list[MistakeJson], "Names in the rules that do not exist here."]
    failed_tests: Annotated[list[FailedPolicyCaseJson], "Policy tests that pass now and fail then."]
    tests: Annotated[NonNegativeInt, "How many tests ran."]
    examined: Annotated[NonNegativeInt, "How many recent calls were decided again."]
    changed_decisions: Annotated[
        list[ChangedDecisionJson], f"Recent decisions that differ, at most {MAX_CHANGED_DECISIONS}."
    ]
    more_changed_decisions: Annotated[NonNegativeInt, "How many more of them there are."]
    lost: Annotated[list[str], "Callables that you may call now and could not call then."]
    needs_acceptance: Annotated[bool, "Whether it is saved only if its version is accepted."]


class FailedPolicyCase(Struct, frozen=True):
    """A policy test that the change makes fail, and how."""

    name: str
    why: str


class ChangedDecision(Struct, frozen=True):
    """Equal recent calls about which the new rules decide otherwise; `call` is the latest of them."""

    who: str
    name: str
    before: DecisionWord
    after: DecisionWord
    rules: tuple[str, ...]
    reason: str
    calls: int
    call: str


class RuleChange(Struct, frozen=True):
    """What a change of a rule file does; see `RuleChangeJson`."""

    file: str
    version: str
    current_version: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    warnings: tuple[Problem, ...]
    failed_tests: tuple[FailedPolicyCase, ...]
    tests: int
    examined: int
    changed_decisions: tuple[ChangedDecision, ...]
    lost: tuple[str, ...]

    @property
    def needs_acceptance(self) -> bool:
        """Whether a person has to accept what it does: tests fail, decisions differ, or its author loses tools."""
        return bool(self.failed_tests or self.changed_decisions or self.lost)

    def to_json(self) -> RuleChangeJson:
        listed = self.changed_decisions[:MAX_CHANGED_DECISIONS]
        return {
            "file": self.file,
            "version": self.version,
            "current_version": self.current_version,
            "added": list(self.added),
            "changed": list(self.changed),
            "removed": list(self.removed),
            "warnings": [problem.to_dict() for problem in self.warnings],
            "failed_tests": [{"name": case.name, "why": case.why} for case in self.failed_tests],
            "tests": self.tests,
            "examined": self.examined,
            "changed_decisions": [
                {
                    "who": one.who,
                    "name": one.name,
                    "before": one.before,
                    "after": one.after,
                    "rules": list(one.rules),
                    "reason": one.reason,
                    "calls": one.calls,
                    "call": one.call,
                }
                for one in listed
            ],
            "more_changed_decisions": len(self.changed_decisions) - len(listed),
            "lost": list(self.lost),
            "needs_acceptance": self.needs_acceptance,
        }


def changed_rule_ids(before: RuleSet, after: RuleSet) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the ids of rules that are new, that change, and that are gone."""
    old, new = before.by_id, after.by_id
    return (
        tuple(name for name in new if name not in old),
        tuple(name for name in new if name in old and new[name].source != old[name].source),
        tuple(name for name in old if name not in new),
    )


def newly_failed_cases(
    before: Policy, after: Policy, own_cases: Sequence[PolicyCase]
) -> tuple[int, tuple[FailedPolicyCase, ...]]:
    """Run the policy tests; return their number, and those that pass before the change and fail after it."""
    cases = [*read_cases(read_case_file(), after.rules.vocabulary), *own_cases]
    # By the case itself: one of the operator's may have the name of a shipped one.
    failing = {id(failed.case) for failed in find_failed_cases(before, cases)}
    failed = [one for one in find_failed_cases(after, cases) if id(one.case) not in failing]
    return len(cases), tuple(FailedPolicyCase(one.case.name, one.why) for one in failed)


def changed_decisions(
    before: Policy, after: Policy, entries: Iterable[LedgerEntry], builder: RequestBuilder, tenant: str
) -> tuple[int, tuple[ChangedDecision, ...]]:
    """Decide recent calls by both rules; return how many were decided, and those whose answer differs.

    Calls whose caller, plugin or callable is gone are left out.

    Args:
        before, after: The rules.
        entries: Entries of ended calls, newest first.
        builder: Rebuilds their requests.
        tenant: Their tenant.
    """
    counts: Counter[RecordedCall] = Counter()
    latest: dict[RecordedCall, str] = {}
    for entry in entries:
        call = _recorded_call(entry)
        if call is None or (call not in counts and len(counts) >= MAX_DISTINCT_CALLS):
            continue
        counts[call] += 1
        latest.setdefault(call, entry.call or entry.id)
    examined, changed = 0, list[ChangedDecision]()
    for call, count in counts.items():
        try:
            request = builder.build(call, tenant)
        except PaddockError:
            continue
        examined += count
        old, new = before.decide_uncached(request), after.decide_uncached(request)
        if _answer(old) != _answer(new):
            words = decision_word(old), decision_word(new)
            who, name = request.principal.id, call.proposed or call.name
            changed.append(ChangedDecision(who, name, *words, new.policies, new.reason, count, latest[call]))
    return examined, tuple(sorted(changed, key=lambda one: one.after != "deny"))


def lost_callables(before: Policy, after: Policy, requests: Sequence[PolicyRequest]) -> tuple[str, ...]:
    """Return the callables of requests that are not denied now and would be."""
    return tuple(
        request.target.name
        for request in requests
        if isinstance(after.decide_uncached(request), Deny) and not isinstance(before.decide_uncached(request), Deny)
    )


def requests_of(author: str, names: Sequence[str], builder: RequestBuilder, tenant: str) -> list[PolicyRequest]:
    """Return the requests of a principal to callables that are served; none if the principal may no longer act."""
    try:
        principal = builder.principal(author, tenant)
    except PaddockError:
        return []
    targets = [target for name in names[:MAX_TRIED_CALLABLES] if (target := builder.served(name)) is not None]
    return [build_call_request(principal, target) for target in targets]


def _recorded_call(entry: LedgerEntry) -> RecordedCall | None:
    event = entry.data
    if not event["decision"] or event.get("principal") is None:
        return None
    return RecordedCall(
        event["principal"],
        event["name"],
        full_name(event["name"], event["method"]),
        bool(event.get("background")),
        event.get("project_id"),
        event.get("agent_path"),
        event.get("proposed"),
    )


def _answer(decision: Decision) -> tuple[object, ...]:
    """Return what callers notice of a decision: the rules behind it may differ."""
    if isinstance(decision, Ask):
        return ("ask", decision.kind, frozenset(decision.approvers), decision.quorum, decision.four_eyes)
    return (decision_word(decision),)
