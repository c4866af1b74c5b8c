"""Which entries tell of something that went wrong: what somebody looks for first. Pure.

The same table decides in a query and in Python, so that what a page marks is what the query finds.
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
"""Types of which every entry does."""


class FactCondition(NamedTuple):
    """Facts that an entry must have, and facts that it must not have."""

    has: tuple[tuple[str, Any], ...]
    lacks: tuple[tuple[str, Any], ...] = ()

    def matches(self, facts: Mapping[str, Any]) -> bool:
        """Whether these facts are such."""
        return all(facts.get(name) == value for name, value in self.has) and not any(
            facts.get(name) == value for name, value in self.lacks
        )

    def sql(self) -> str:
        """The same of the column. Facts are canonical, so this is how each stands there.

        An index can be kept for it on both engines, which is not so of `LIKE` with a value that is bound. The column
        comes first: SQLite turns the other way round about, and then takes it for another condition.
        """
        parts = [f"facts <> replace(facts, '{_json_fragment(*one)}', '')" for one in self.has]
        parts += [f"facts = replace(facts, '{_json_fragment(*one)}', '')" for one in self.lacks]
        return " AND ".join(parts)


CONDITIONAL_FAILURES: Final[Mapping[str, tuple[FactCondition, ...]]] = MappingProxyType(
    {
        # Whoever waits for a person, or did not want it any more, has nothing to mend.
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
"""Types of which some do: those that fit one of these."""

FailureQuery: TypeAlias = tuple[str, str]
"""A type, and the condition that its rows must fit beside it; empty where all do."""


def is_failure(kind: str, facts: Mapping[str, Any]) -> bool:
    """Whether an entry of this type with these facts tells of something that went wrong."""
    return kind in FAILURE_TYPES or any(one.matches(facts) for one in CONDITIONAL_FAILURES.get(kind, ()))


def failure_queries() -> list[FailureQuery]:
    """All of them, as queries look for them."""
    always: list[FailureQuery] = [(kind, "") for kind in sorted(FAILURE_TYPES)]
    return always + [(kind, one.sql()) for kind, several in CONDITIONAL_FAILURES.items() for one in several]


def _json_fragment(name: str, value: Any) -> str:
    return f'"{name}":{json.dumps(value)}'
