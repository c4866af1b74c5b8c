"""What an entry of the ledger looks like outside: an event of CloudEvents 1.0, in its JSON form. Pure.

Facts leave as they stand in the ledger. What it says of people leaves only for who was let have it, since what was
sent cannot be erased any more. Values of secrets, parameters and results are in no entry, and so in no event.

    call.ended  →  dev.paddock.call.ended, and for those who name it also
                   dev.paddock.plugin.tool_invoked, where a callable of the plugin was reached
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from paddock.core.errors import OperatorError
from paddock.core.events.calls import CallEnded
from paddock.core.events.contracts import PluginToolInvoked
from paddock.core.events.index import EVENT_TYPES
from paddock.core.printable import printable
from paddock.ledger.entry import LedgerEntry

ALL_EVENTS = "*"
EVENT_TYPE_PREFIX = "dev.paddock."
"""How the type of every event begins outside; patterns may leave it out."""
MAX_PATTERNS = 50


def parse_patterns(words: Iterable[str]) -> tuple[str, ...]:
    """The patterns, without what all of them begin with. None are all.

    Raises:
        OperatorError: `events.type`, one fits nothing that is ever recorded, or there are too many.
    """
    patterns = tuple(dict.fromkeys(word.strip().removeprefix(EVENT_TYPE_PREFIX) for word in words)) or (ALL_EVENTS,)
    if len(patterns) > MAX_PATTERNS:
        raise OperatorError(
            f"no more than {MAX_PATTERNS} types can be named", code="events.type", hint="use plugin.* or *"
        )
    for pattern in patterns:
        if not any(matches_pattern(pattern, known) for known in EVENT_TYPES):
            raise OperatorError(
                f"no event is called {printable(pattern, 80)!r}",
                code="events.type",
                hint="give a type of the reference of events, such as call.ended, or a family: call.*",
            )
    return patterns


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether one pattern means events of this name."""
    return pattern in (ALL_EVENTS, name) or (pattern.endswith(".*") and name.startswith(pattern[:-1]))


def matches_any(patterns: Sequence[str], name: str) -> bool:
    """Whether any of them does."""
    return any(matches_pattern(pattern, name) for pattern in patterns)


def matches_explicitly(patterns: Sequence[str], name: str) -> bool:
    """The same for what is told to those alone who name it, or its family: to whoever wants everything it would say
    the same thing twice."""
    return any(matches_pattern(pattern, name) for pattern in patterns if pattern != ALL_EVENTS)


CLOUDEVENTS_MEDIA_TYPE = "application/cloudevents+json"
DEFAULT_SOURCE = "urn:paddock"
_PLUGIN_REACHED = "plugin.method_called"  # what entries of calls stand for that reached their plugin

CloudEvent = dict[str, Any]


def to_cloud_events(entry: LedgerEntry, patterns: Sequence[str], source: str, *, personal: bool) -> list[CloudEvent]:
    """The events that an entry is to whoever wants these; mostly one, or none.

    Args:
        entry: The entry.
        patterns: What is wanted; see `patterns.py`.
        source: How this host is called outside.
        personal: Whether what it says of people is told too.
    """
    events: list[CloudEvent] = []
    if matches_any(patterns, entry.type):
        data = entry.facts | (entry.personal if personal else {})
        beside = {"plugin": entry.plugin, "call_id": entry.call, "request_id": entry.request}
        known = {name: value for name, value in beside.items() if value is not None}
        events.append(_build_event(entry, entry.id, entry.type, source, known | data))
    if entry.type == CallEnded.type and matches_explicitly(patterns, PluginToolInvoked.type) and _reached_plugin(entry):
        events.append(_build_event(entry, f"{entry.id}-tool", PluginToolInvoked.type, source, _tool_invoked(entry)))
    return events


def build_test_event(tenant: str, webhook: str, name: str, at: datetime, source: str) -> CloudEvent:
    """What is sent to try out a webhook; it stands for nothing that happened."""
    return {
        "specversion": "1.0",
        "id": name,
        "source": f"{source}:{tenant}",
        "type": f"{EVENT_TYPE_PREFIX}webhook.test",
        "subject": webhook,
        "time": at.isoformat(),
        "datacontenttype": "application/json",
        "tenant": tenant,
        "data": {"webhook": webhook},
    }


def _build_event(entry: LedgerEntry, name: str, kind: str, source: str, data: dict[str, Any]) -> CloudEvent:
    event: CloudEvent = {
        "specversion": "1.0",
        "id": name,
        "source": f"{source}:{entry.tenant}",
        "type": EVENT_TYPE_PREFIX + kind,
        "time": entry.at,
        "datacontenttype": "application/json",
        # Extensions: a text each, as their registry has `sequence`.
        "tenant": entry.tenant,
        "sequence": str(entry.seq),
        "data": data,
    }
    subject = entry.call or entry.plugin
    return event | {"subject": subject} if subject else event


def _reached_plugin(entry: LedgerEntry) -> bool:
    said = entry.facts.get("stands_for")
    return isinstance(said, list) and _PLUGIN_REACHED in said


def _tool_invoked(entry: LedgerEntry) -> dict[str, Any]:
    facts = entry.facts
    return {
        "plugin_id": facts.get("name"),
        "tool_name": facts.get("method"),
        "duration_ms": facts.get("duration_ms"),
        "success": facts.get("success"),
    }
