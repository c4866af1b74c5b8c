"""The adapter: a pipe. It translates what happened outside into an intent, and never writes anywhere itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def map_external_event_to_intent(event: Mapping[str, Any]) -> dict[str, Any]:
    """Who that user is, and what they may do, is decided by the host and not here."""
    return {
        "intent": {"intent_type": "Support.QA.Answer", "question": event["text"]},
        "principal": {"external_id": f"chat:{event['user']}"},
    }
