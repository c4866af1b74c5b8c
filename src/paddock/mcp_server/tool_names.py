"""Client-facing names of callables and prompts. Pure.

Model providers accept up to 64 letters, digits, `_` and `-`. So the tool `search` of the plugin `web` is
`web__search`; other characters become `_`, and longer names are cut. If two names collide, each gets a part of the
hash of its full name: the order does not matter, and a name stays the same when the other one is removed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

MAX_TOOL_NAME_CHARS: Final = 64
_INVALID_CHARS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_DIGITS: Final = (0, 8, 16, 48)  # used in turn until names are unique
SEPARATOR: Final = "__"


def assign_names(keys: Iterable[tuple[str, str]], chosen: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Assign a unique name to each (plugin, own name) key.

    Args:
        keys: Plugin and own name; the own name is empty for a plugin that is a single callable.
        chosen: Names that the operator chose, by full name as in `web.search`.
    """
    names: dict[tuple[str, str], str] = {}
    lengths: dict[tuple[str, str], int] = {}  # index into _HASH_DIGITS; absent for chosen names
    for key in keys:
        chosen_name = chosen.get(_full_name(key))
        if chosen_name is None:
            name = names[key] = _plain_name(key)
            if len(name) > MAX_TOOL_NAME_CHARS:
                names[key] = _hashed_name(key, _HASH_DIGITS[1])
            lengths[key] = int(len(name) > MAX_TOOL_NAME_CHARS)
        else:
            names[key] = chosen_name
    while clashing := _clashing_names(names, lengths):
        for key in clashing:
            lengths[key] += 1
            names[key] = _hashed_name(key, _HASH_DIGITS[lengths[key]])
    return names


def _clashing_names(
    names: Mapping[tuple[str, str], str], lengths: Mapping[tuple[str, str], int]
) -> list[tuple[str, str]]:
    """Return the keys with a name that another key has too, and of them those with the shortest hash.

    A name that imitates another's hash on purpose gives way and takes nothing from it.
    """
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    least: dict[str, int] = {}
    for key, length in lengths.items():
        if names[key] in shared:
            least[names[key]] = min(length, least.get(names[key], length))
    return [key for key, length in lengths.items() if least.get(names[key]) == length]


def _full_name(key: tuple[str, str]) -> str:
    return ".".join(part for part in key if part)


def _plain_name(key: tuple[str, str]) -> str:
    return _INVALID_CHARS.sub("_", SEPARATOR.join(part for part in key if part))


def _hashed_name(key: tuple[str, str], digits: int) -> str:
    # Joined with a character that no name contains: `a` + `b.c` and `a.b` + `c` are distinct.
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:digits]
    return f"{_plain_name(key)[: MAX_TOOL_NAME_CHARS - digits - 1]}-{digest}"
