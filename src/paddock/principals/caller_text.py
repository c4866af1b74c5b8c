"""The name of a caller for people: a person by name, a key by its owner and its label. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

ERASED_CALLER: Final = "an erased person"
_KINDS: Final = {"agent": "agent {}", "adapter": "adapter {}", "plugin": "plugin {}"}


def label_with_owner(label: str, owner: str) -> str:
    """Return the label of a key with its owner, as in `ann’s assistant`: people choose labels, also misleading ones.

    A label that begins with the owner’s name stays as it is: “Ann's assistant”.
    """
    return label if re.match(rf"{re.escape(owner)}\b", label, re.IGNORECASE) else f"{owner}’s {label}"


def caller_text(principal: str | None, owner: str | None, labels: Mapping[str, str]) -> str:
    """Return the name of who made a call: `ann`, `ann’s assistant` for her key of that label, `agent planner`.

    Args:
        principal: The principal; None if it was erased.
        owner: The owner of the key, if it is one.
        labels: The labels of API keys with their owners, by principal.
    """
    if principal is None:
        return ERASED_CALLER
    kind, _, name = principal.rpartition("/")[2].partition(":")
    if kind == "key":
        person = "" if owner is None else owner.rpartition(":")[2]
        return labels.get(f"key:{name}") or (f"{person}’s key {name}" if person else f"key {name}")
    if not name:
        return kind
    return _KINDS.get(kind, "{}").format(name)
