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

LONGEST: Final = 64
_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASHED: Final = (0, 8, 16, 48)  # digits, and what follows where those are not enough
JOINED: Final = "__"


def exposed(owned: Iterable[tuple[str, str]], chosen: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """A name for each, by plugin and own name.

    Args:
        owned: Plugin and name of each; the name is empty for a plugin that is its own only callable.
        chosen: Names that the operator chose, by the full name as in `web.search`.
    """
    names: dict[tuple[str, str], str] = {}
    lengths: dict[tuple[str, str], int] = {}  # how much of its hash each has; none where a name was chosen for it
    for one in owned:
        own = chosen.get(_full(one))
        if own is None:
            name = names[one] = _simple(one)
            if len(name) > LONGEST:
                names[one] = _hashed(one, _HASHED[1])
            lengths[one] = int(len(name) > LONGEST)
        else:
            names[one] = own
    while clashing := _to_change(names, lengths):
        for one in clashing:
            lengths[one] += 1
            names[one] = _hashed(one, _HASHED[lengths[one]])
    return names


def _to_change(names: Mapping[tuple[str, str], str], lengths: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Those that have somebody else's name, and of them the ones with the least of a hash: whoever is called after
    another's hash, on purpose, gives way and takes nothing from it."""
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    least: dict[str, int] = {}
    for one, length in lengths.items():
        if names[one] in shared:
            least[names[one]] = min(length, least.get(names[one], length))
    return [one for one, length in lengths.items() if least.get(names[one]) == length]


def is_exposable(name: str) -> bool:
    """Whether providers take a name."""
    return 0 < len(name) <= LONGEST and not _REFUSED.search(name)


def _full(one: tuple[str, str]) -> str:
    return ".".join(part for part in one if part)


def _simple(one: tuple[str, str]) -> str:
    return _REFUSED.sub("_", JOINED.join(part for part in one if part))


def _hashed(one: tuple[str, str], digits: int) -> str:
    # A separator that stands in no name: `a` + `b.c` and `a.b` + `c` are two.
    told = hashlib.sha256("\0".join(one).encode()).hexdigest()[:digits]
    return f"{_simple(one)[: LONGEST - digits - 1]}-{told}"
