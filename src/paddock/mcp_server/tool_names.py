"""The names under which callables and prompts are offered to MCP clients. Pure.

Model providers take letters, digits, `_` and `-`, and 64 of them. So the tool `search` of the plugin `web` is
`web__search`; what they do not take becomes `_`, and what is longer is cut. Where that makes one name of two, each of
the two gets a piece of the hash of what it is really called: which came first does not matter, and the name stays the
same when the other one goes.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

MAX_TOOL_NAME_CHARS: Final = 64
_INVALID_CHARS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_DIGITS: Final = (0, 8, 16, 48)  # digits, and what follows where those are not enough
SEPARATOR: Final = "__"


def assign_names(owned: Iterable[tuple[str, str]], chosen: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """A name for each, by plugin and own name.

    Args:
        owned: Plugin and name of each; the name is empty for a plugin that is its own only callable.
        chosen: Names that the operator chose, by the full name as in `web.search`.
    """
    names: dict[tuple[str, str], str] = {}
    lengths: dict[tuple[str, str], int] = {}  # how much of its hash each has; none where a name was chosen for it
    for one in owned:
        own = chosen.get(_full_name(one))
        if own is None:
            name = names[one] = _plain_name(one)
            if len(name) > MAX_TOOL_NAME_CHARS:
                names[one] = _hashed_name(one, _HASH_DIGITS[1])
            lengths[one] = int(len(name) > MAX_TOOL_NAME_CHARS)
        else:
            names[one] = own
    while clashing := _clashing_names(names, lengths):
        for one in clashing:
            lengths[one] += 1
            names[one] = _hashed_name(one, _HASH_DIGITS[lengths[one]])
    return names


def _clashing_names(
    names: Mapping[tuple[str, str], str], lengths: Mapping[tuple[str, str], int]
) -> list[tuple[str, str]]:
    """Those that have somebody else's name, and of them the ones with the least of a hash: whoever is called after
    another's hash, on purpose, gives way and takes nothing from it."""
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    least: dict[str, int] = {}
    for one, length in lengths.items():
        if names[one] in shared:
            least[names[one]] = min(length, least.get(names[one], length))
    return [one for one, length in lengths.items() if least.get(names[one]) == length]


def is_valid_tool_name(name: str) -> bool:
    """Whether providers take a name."""
    return 0 < len(name) <= MAX_TOOL_NAME_CHARS and not _INVALID_CHARS.search(name)


def _full_name(one: tuple[str, str]) -> str:
    return ".".join(part for part in one if part)


def _plain_name(one: tuple[str, str]) -> str:
    return _INVALID_CHARS.sub("_", SEPARATOR.join(part for part in one if part))


def _hashed_name(one: tuple[str, str], digits: int) -> str:
    # A separator that stands in no name: `a` + `b.c` and `a.b` + `c` are two.
    told = hashlib.sha256("\0".join(one).encode()).hexdigest()[:digits]
    return f"{_plain_name(one)[: MAX_TOOL_NAME_CHARS - digits - 1]}-{told}"
