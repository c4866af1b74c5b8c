"""Which sentences of a conversation a person wants kept: those that begin with "remember"."""

from __future__ import annotations

import re
from typing import Any, cast

_REMEMBER = re.compile(r"^\s*(?:please\s+)?remember(?:\s*:|\s+that\b)\s*(.+)$", re.IGNORECASE | re.MULTILINE)
LONGEST = 2000


def worth_keeping(messages: Any) -> list[str]:
    """What the user asked to remember, each once, in the order in which it was said."""
    said = [str(message.get("content", "")) for message in _objects(messages) if message.get("role") == "user"]
    found = [match.strip()[:LONGEST] for text in said for match in _REMEMBER.findall(text)]
    return list(dict.fromkeys(remark for remark in found if remark))


def _objects(messages: Any) -> list[dict[str, Any]]:
    entries = cast("list[Any]", messages) if isinstance(messages, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
