"""What an entry of the ledger looks like outside: an event of CloudEvents 1.0, in its JSON form. Pure.

Facts leave as they stand in the ledger. What it says of people leaves only for who was let have it, since what was
sent cannot be erased any more. Values of secrets, parameters and results are in no entry, and so in no event.

    call.ended  →  dev.paddock.call.ended, and for those who name it also
                   dev.paddock.plugin.tool_invoked, where a callable of the plugin was reached
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from paddock.core.events_calls import CallEnded
from paddock.core.events_contracts import PluginToolInvoked
from paddock.events.patterns import PREFIX, asked_for, wanted
from paddock.ledger.entry import Entry

MEDIA = "application/cloudevents+json"
SOURCE = "urn:paddock"
_REACHED = "plugin.method_called"  # what entries of calls stand for that reached their plugin

CloudEvent = dict[str, Any]


def told(entry: Entry, patterns: Sequence[str], source: str, *, personal: bool) -> list[CloudEvent]:
    """The events that an entry is to whoever wants these; mostly one, or none.

    Args:
        entry: The entry.
        patterns: What is wanted; see `patterns.py`.
        source: How this host is called outside.
        personal: Whether what it says of people is told too.
    """
    events: list[CloudEvent] = []
    if wanted(patterns, entry.type):
        data = entry.facts | (entry.personal if personal else {})
        beside = {"plugin": entry.plugin, "call_id": entry.call, "request_id": entry.request}
        known = {name: value for name, value in beside.items() if value is not None}
        events.append(_event(entry, entry.id, entry.type, source, known | data))
    if entry.type == CallEnded.type and asked_for(patterns, PluginToolInvoked.type) and _reached(entry):
        events.append(_event(entry, f"{entry.id}-tool", PluginToolInvoked.type, source, _tool_invoked(entry)))
    return events


def trial(tenant: str, webhook: str, name: str, at: datetime, source: str) -> CloudEvent:
    """What is sent to try out a webhook; it stands for nothing that happened."""
    return {
        "specversion": "1.0",
        "id": name,
        "source": f"{source}:{tenant}",
        "type": f"{PREFIX}webhook.test",
        "subject": webhook,
        "time": at.isoformat(),
        "datacontenttype": "application/json",
        "tenant": tenant,
        "data": {"webhook": webhook},
    }


def _event(entry: Entry, name: str, kind: str, source: str, data: dict[str, Any]) -> CloudEvent:
    event: CloudEvent = {
        "specversion": "1.0",
        "id": name,
        "source": f"{source}:{entry.tenant}",
        "type": PREFIX + kind,
        "time": entry.at,
        "datacontenttype": "application/json",
        # Extensions: a text each, as their registry has `sequence`.
        "tenant": entry.tenant,
        "sequence": str(entry.seq),
        "data": data,
    }
    subject = entry.call or entry.plugin
    return event | {"subject": subject} if subject else event


def _reached(entry: Entry) -> bool:
    said = entry.facts.get("stands_for")
    return isinstance(said, list) and _REACHED in said


def _tool_invoked(entry: Entry) -> dict[str, Any]:
    facts = entry.facts
    return {
        "plugin_id": facts.get("name"),
        "tool_name": facts.get("method"),
        "duration_ms": facts.get("duration_ms"),
        "success": facts.get("success"),
    }
