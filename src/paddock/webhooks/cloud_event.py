"""Ledger entries as CloudEvents 1.0 in JSON, and the patterns that select them. Pure.

Facts leave as they are in the ledger. Personal data leaves only for receivers that were granted it, since it cannot be
erased once sent. Secrets, parameters and results are in no entry, and so in no event.

    call.ended  →  dev.paddock.call.ended, and for patterns that name it also
                   dev.paddock.plugin.tool_invoked, if a callable of the plugin was reached
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from paddock.core.errors import OperatorError
from paddock.core.events.calls import CallEnded
from paddock.core.events.contracts import PluginToolInvoked
from paddock.core.events.event import to_record
from paddock.core.events.index import EVENT_TYPES
from paddock.core.printable import printable
from paddock.ledger.entry import LedgerEntry

ALL_EVENTS = "*"
EVENT_TYPE_PREFIX = "dev.paddock."
"""Prefix of every event type outside; patterns may omit it."""
MAX_PATTERNS = 50
CLOUDEVENTS_MEDIA_TYPE = "application/cloudevents+json"
DEFAULT_SOURCE = "urn:paddock"
_PLUGIN_REACHED = "plugin.method_called"  # in `stands_for` of calls that reached their plugin

CloudEvent = dict[str, Any]


def to_cloud_events(entry: LedgerEntry, patterns: Sequence[str], source: str, *, personal: bool) -> list[CloudEvent]:
    """Convert an entry to the events that the patterns select; mostly one, or none.

    Args:
        entry: The entry.
        patterns: Selected event types; see `parse_patterns`.
        source: The CloudEvents source of this host.
        personal: Whether personal data is included.
    """
    events: list[CloudEvent] = []
    if matches_any(patterns, entry.type):
        data = entry.facts | (entry.personal if personal else {})
        references = {"plugin": entry.plugin, "call_id": entry.call, "request_id": entry.request}
        context = {name: value for name, value in references.items() if value is not None}
        events.append(_build_event(entry, entry.id, entry.type, source, context | data))
    if entry.type == CallEnded.type and matches_explicitly(patterns, PluginToolInvoked.type) and _reached_plugin(entry):
        events.append(_build_event(entry, f"{entry.id}-tool", PluginToolInvoked.type, source, _tool_invoked(entry)))
    return events


def build_test_event(tenant: str, webhook: str, event_id: str, at: datetime, source: str) -> CloudEvent:
    """Build the event that tests a webhook."""
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": f"{source}:{tenant}",
        "type": f"{EVENT_TYPE_PREFIX}webhook.test",
        "subject": webhook,
        "time": at.isoformat(),
        "datacontenttype": "application/json",
        "tenant": tenant,
        "data": {"webhook": webhook},
    }


def parse_patterns(texts: Iterable[str]) -> tuple[str, ...]:
    """Parse event type patterns, without their common prefix. No patterns mean all events.

    Raises:
        OperatorError: `events.type`, a pattern matches no event type, or there are too many.
    """
    patterns = tuple(dict.fromkeys(text.strip().removeprefix(EVENT_TYPE_PREFIX) for text in texts)) or (ALL_EVENTS,)
    if len(patterns) > MAX_PATTERNS:
        raise OperatorError(
            f"no more than {MAX_PATTERNS} types can be named", code="events.type", hint="use plugin.* or *"
        )
    for pattern in patterns:
        if not any(matches_pattern(pattern, event_type) for event_type in EVENT_TYPES):
            raise OperatorError(
                f"no event is called {printable(pattern, 80)!r}",
                code="events.type",
                hint="give a type of the reference of events, such as call.ended, or a family: call.*",
            )
    return patterns


def matches_pattern(pattern: str, event_type: str) -> bool:
    """Return whether a pattern matches an event type."""
    return pattern in (ALL_EVENTS, event_type) or (pattern.endswith(".*") and event_type.startswith(pattern[:-1]))


def matches_any(patterns: Sequence[str], event_type: str) -> bool:
    """Return whether any pattern matches an event type."""
    return any(matches_pattern(pattern, event_type) for pattern in patterns)


def matches_explicitly(patterns: Sequence[str], event_type: str) -> bool:
    """Return whether a pattern other than `*` matches.

    For derived events: receivers of all events would get the same fact twice.
    """
    return any(matches_pattern(pattern, event_type) for pattern in patterns if pattern != ALL_EVENTS)


def _build_event(entry: LedgerEntry, event_id: str, event_type: str, source: str, data: dict[str, Any]) -> CloudEvent:
    event: CloudEvent = {
        "specversion": "1.0",
        "id": event_id,
        "source": f"{source}:{entry.tenant}",
        "type": EVENT_TYPE_PREFIX + event_type,
        "time": entry.at,
        "datacontenttype": "application/json",
        # Extension attributes are strings, as the registry defines `sequence`.
        "tenant": entry.tenant,
        "sequence": str(entry.seq),
        "data": data,
    }
    subject = entry.call or entry.plugin
    return event | {"subject": subject} if subject else event


def _reached_plugin(entry: LedgerEntry) -> bool:
    stands_for = entry.facts.get("stands_for")
    return isinstance(stands_for, list) and _PLUGIN_REACHED in stands_for


def _tool_invoked(entry: LedgerEntry) -> dict[str, Any]:
    facts = entry.facts
    event = PluginToolInvoked(
        plugin_id=facts["name"],
        tool_name=facts["method"],
        duration_ms=facts["duration_ms"],
        success=facts["success"],
    )
    return {name: value for name, value in to_record(event).items() if name != "type"}
