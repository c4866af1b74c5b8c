"""Which entries count as failures. Pure.

The same table decides in SQL and in Python, so that a page marks exactly what the query finds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

FAILURE_TYPES: Final = frozenset(
    """
    effect.in_doubt
    plugin.crashed plugin.failed plugin.killed plugin.health_fail plugin.initialize_timeout
    plugin.api_mismatch plugin.name_mismatch plugin.version_mismatch plugin.methods_differ
    plugin.protocol_violation protocol.oversize_message plugin.notification_flood plugin.denial_flood
    plugin.capability_denied plugin.capability_overreach plugin.storage_denied plugin.net_denied
    plugin.modified_detected plugin.config_validation_failed
    plugin.hook.timeout plugin.hook.failed plugin.hook.illegal
    plugin.tool_name_collision plugin.role_violation
    compaction.failed compaction.flagged compactor_dropped_always_keep
    sign_in.refused login_link.refused
    queue.given_up webhook.gave_up ledger.undescribed
    """.split()  # noqa: SIM905 - a table of words
)
"""Types of which every entry is a failure."""


class FactCondition(NamedTuple):
    """Facts that an entry must have, and facts that it must not have."""

    has: tuple[tuple[str, Any], ...]
    lacks: tuple[tuple[str, Any], ...] = ()

    def matches(self, facts: Mapping[str, Any]) -> bool:
        """Whether these facts meet the condition."""
        return all(facts.get(name) == value for name, value in self.has) and not any(
            facts.get(name) == value for name, value in self.lacks
        )

    def sql(self) -> str:
        """Return the condition on the `facts` column. Facts are canonical JSON, so a substring test is exact.

        Both engines can index this expression, unlike `LIKE` with a bound value. The column comes first: SQLite swaps
        the operands otherwise, and then does not match the expression with the index.
        """
        parts = [f"facts <> replace(facts, '{_json_fragment(*one)}', '')" for one in self.has]
        parts += [f"facts = replace(facts, '{_json_fragment(*one)}', '')" for one in self.lacks]
        return " AND ".join(parts)


CONDITIONAL_FAILURES: Final[Mapping[str, tuple[FactCondition, ...]]] = MappingProxyType(
    {
        # A call that waits for approval or was cancelled needs no repair.
        "call.ended": (
            FactCondition((("success", False),), (("status", "pending_approval"), ("status", "cancelled"))),
        ),
        "approval.answered": (FactCondition((("approved", False),)),),
        "approval.ended": (FactCondition((("state", "expired"),)), FactCondition((("state", "voided"),))),
        "plugin.definition_changed": (
            FactCondition((("standing", "quarantined"),)),
            FactCondition((("standing", "bad"),)),
        ),
    }
)
"""Types of which only entries that meet one of the conditions are failures."""

CALL_OUTCOMES: Final = ("succeeded", "failed", "denied", "refused", "timed_out", "in_doubt")
"""Outcomes by which calls can be listed quickly: all but the first are among the few that failed."""

FailureQuery: TypeAlias = tuple[str, str]
"""A type, and the extra SQL condition for its rows; empty where all rows match."""


def is_failure(kind: str, facts: Mapping[str, Any]) -> bool:
    """Whether an entry of this type with these facts is a failure."""
    return kind in FAILURE_TYPES or any(one.matches(facts) for one in CONDITIONAL_FAILURES.get(kind, ()))


def failure_queries() -> list[FailureQuery]:
    """Return the failure table as query conditions."""
    always: list[FailureQuery] = [(kind, "") for kind in sorted(FAILURE_TYPES)]
    return always + [
        (kind, condition.sql()) for kind, conditions in CONDITIONAL_FAILURES.items() for condition in conditions
    ]


def outcome_query(outcome: str) -> str:
    """Return the condition for calls that ended with one of `CALL_OUTCOMES`, so that an index serves it."""
    assert outcome in CALL_OUTCOMES
    status = FactCondition((("status", outcome),)).sql()
    failed = "" if outcome in ("succeeded", "denied") else f"{CONDITIONAL_FAILURES['call.ended'][0].sql()} AND "
    return f"type = 'call.ended' AND {failed}{status}"


def _json_fragment(name: str, value: Any) -> str:
    return f'"{name}":{json.dumps(value)}'
