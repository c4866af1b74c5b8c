"""Which entries count as failures. Pure.

The same table decides which entries a page lists and which it marks. Facts that it looks at are among `LISTED_FACTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
"""Outcomes by which calls can be listed."""


def is_failure(kind: str, facts: Mapping[str, Any]) -> bool:
    """Whether an entry of this type with these facts is a failure."""
    return kind in FAILURE_TYPES or any(one.matches(facts) for one in CONDITIONAL_FAILURES.get(kind, ()))


def has_outcome(outcome: str, kind: str, facts: Mapping[str, Any]) -> bool:
    """Whether an entry of this type with these facts is a call that ended with one of `CALL_OUTCOMES`."""
    return kind == "call.ended" and facts.get("status") == outcome
