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
_HASHED: Final = 8  # digits
JOINED: Final = "__"


def exposed(owned: Iterable[tuple[str, str]], chosen: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """A name for each, by plugin and own name.

    Args:
        owned: Plugin and name of each; the name is empty for a plugin that is its own only callable.
        chosen: Names that the operator chose, by the full name as in `web.search`.
    """
    names: dict[tuple[str, str], str] = {}
    simple: dict[tuple[str, str], str] = {}
    for one in owned:
        own = chosen.get(_full(one))
        if own is None:
            simple[one] = _simple(one)
        else:
            names[one] = own
    taken = Counter([*names.values(), *simple.values()])
    for one, name in simple.items():
        names[one] = name if taken[name] == 1 and len(name) <= LONGEST else _hashed(one, name)
    return names


def is_exposable(name: str) -> bool:
    """Whether providers take a name."""
    return 0 < len(name) <= LONGEST and not _REFUSED.search(name)


def _full(one: tuple[str, str]) -> str:
    return ".".join(part for part in one if part)


def _simple(one: tuple[str, str]) -> str:
    return _REFUSED.sub("_", JOINED.join(part for part in one if part))


def _hashed(one: tuple[str, str], name: str) -> str:
    # A separator that stands in no name: `a` + `b.c` and `a.b` + `c` are two.
    told = hashlib.sha256("\0".join(one).encode()).hexdigest()[:_HASHED]
    return f"{name[: LONGEST - _HASHED - 1]}-{told}"
