"""What a tool says of itself that does not fit together: its hints, its declared effects and its name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paddock.manifest.effects import HARMLESS, Effect

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DESTROYS = frozenset({"delete", "destroy", "drop", "erase", "purge", "remove", "truncate", "wipe"})
_CHANGES = _DESTROYS | {
    *("add", "append", "commit", "create", "edit", "insert", "install", "kill", "merge", "move", "overwrite", "patch"),
    *("post", "publish", "push", "rename", "reset", "save", "send", "set", "store", "uninstall", "update", "upload"),
    "write",
}


def contradictions(name: str, annotations: Mapping[str, Any], effects: Sequence[Effect] | None) -> Iterator[str]:
    """Each in words.

    Args:
        name: The tool's.
        annotations: A server's own hints about it.
        effects: What a manifest declares; None where none does.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    verb = words[0] if words else ""
    reads = annotations.get("readOnlyHint") is True
    if reads and annotations.get("destructiveHint") is True:
        yield "says that it only reads, and that it destroys"
    elif reads and effects is not None and not HARMLESS.issuperset(effects):
        yield "says to clients that it only reads, and its package declares that it changes something"
    elif reads and verb in _CHANGES:
        yield f"says that it only reads, and is called {verb!r}"
    elif effects is not None and HARMLESS.issuperset(effects) and verb in _CHANGES:
        yield f"declares that it changes nothing, and is called {verb!r}"
    elif annotations.get("destructiveHint") is False and verb in _DESTROYS:
        yield f"says that it destroys nothing, and is called {verb!r}"
