"""The name of a caller for people: a person by name, a key by its owner and its label. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.principals.display_names import find_name

ERASED_CALLER: Final = "an erased person"
_KINDS: Final = {"agent": "agent {}", "adapter": "adapter {}", "plugin": "plugin {}", "local": "local user {}"}


def caller_text(principal: str | None, owner: str | None, names: Mapping[str, str]) -> str:
    """Return the name of who made a call: `Ann Lee`, `Ann’s assistant` for her key of that label, `agent planner`.

    Args:
        principal: The principal; None if it was erased.
        owner: The owner of the key, if it is one.
        names: What people and API keys are called; see `read_names`.
    """
    if principal is None:
        return ERASED_CALLER
    tenant, _, local_name = principal.rpartition("/")
    if not tenant and (known := find_name(local_name, names)):
        return known
    kind, _, name = local_name.partition(":")
    if kind == "key":
        person = "" if owner is None else find_name(owner, names) or owner.rpartition(":")[2]
        return f"{person}’s key {name}" if person else f"key {name}"
    if not name:
        return kind
    return _KINDS.get(kind, "{}").format(name)
