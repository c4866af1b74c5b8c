"""The name of a caller for people: a person by name, a key by its owner and its label. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

ERASED_CALLER: Final = "an erased person"
_KINDS: Final = {"agent": "agent {}", "adapter": "adapter {}", "plugin": "plugin {}"}


def caller_text(principal: str | None, owner: str | None, labels: Mapping[str, str]) -> str:
    """Return the name of who made a call: `ann`, `ann’s assistant` for her key of that label, `agent planner`.

    Args:
        principal: The principal; None if it was erased.
        owner: The owner of the key, if it is one.
        labels: The labels of API keys, by principal.
    """
    if principal is None:
        return ERASED_CALLER
    kind, _, name = principal.rpartition("/")[2].partition(":")
    if kind == "key":
        label = labels.get(f"key:{name}")
        person = "" if owner is None else owner.rpartition(":")[2]
        if label and person and re.match(rf"{re.escape(person)}\b", label, re.IGNORECASE):
            return label  # it names its owner already: “Robin’s assistant”
        if label and person:
            return f"{person}’s {label}"
        return f"{person}’s key {name}" if person else f"key “{label}”" if label else f"key {name}"
    if not name:
        return kind
    return _KINDS.get(kind, "{}").format(name)
