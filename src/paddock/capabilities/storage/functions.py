"""Built-in text functions whose cost is the product of their arguments' lengths, with a limit on that product.

SQLite cannot be stopped in the middle of a function: `trim` of a megabyte with a megabyte of other characters runs for
minutes. These stand in for the built-in ones, refuse what would take long, and leave the work to a connection that
still has the originals, so that everything else about them is as it was.
"""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import apsw

_MOST_STEPS = 200_000_000  # a fifth of a second
_SHORT = 64

# By number of arguments; the second one is what is looked for.
_BOUNDED = {"instr": (2,), "replace": (3,), "trim": (2,), "ltrim": (2,), "rtrim": (2,)}


class TooMuchText(Exception):
    """The arguments of a text function are too long together."""


class BoundedFunctions:
    """The functions of one connection that stand in for built-in ones, and the connection that has those."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._originals = apsw.Connection(":memory:")
        for name, counts in _BOUNDED.items():
            for count in counts:
                marks = ", ".join("?" * count)
                connection.create_scalar_function(
                    name,
                    partial(_bounded, partial(self._originals.execute, f"SELECT {name}({marks})"), name),
                    count,
                    deterministic=True,
                    flags=apsw.SQLITE_INNOCUOUS,
                )

    def limit(self, largest_value: int) -> None:
        """Let no result, and nothing on the way to one, be larger than this many bytes."""
        self._originals.limit(apsw.SQLITE_LIMIT_LENGTH, largest_value)


def _bounded(original: Callable[[tuple[Any, ...]], apsw.Cursor], name: str, *arguments: Any) -> Any:
    searched, wanted = _length(arguments[0]), _length(arguments[1])
    if wanted > _SHORT and searched * wanted > _MOST_STEPS:
        raise TooMuchText(f"{name}() of {searched} and {wanted} characters would take too long")
    return original(arguments).get


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else _SHORT
