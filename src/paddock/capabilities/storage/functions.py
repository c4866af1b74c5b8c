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

from paddock.capabilities.storage.limits import LARGEST_VALUE

_MOST_STEPS = 200_000_000  # a fifth of a second
_SHORT = 64

# By number of arguments; the second one is what is looked for.
_BOUNDED = {"instr": (2,), "replace": (3,), "trim": (2,), "ltrim": (2,), "rtrim": (2,)}


class TooMuchText(Exception):
    """The arguments of a text function are too long together."""


def bound_functions(connection: apsw.Connection) -> None:
    """Let bounded functions stand in for the built-in ones of a connection.

    No result of theirs, and nothing on the way to one, is larger than a value may be at all. Where a statement may hold
    less than that, the connection itself refuses the result.
    """
    originals = apsw.Connection(":memory:")
    originals.limit(apsw.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    for name, counts in _BOUNDED.items():
        for count in counts:
            marks = ", ".join("?" * count)
            connection.create_scalar_function(
                name,
                partial(_bounded, partial(originals.execute, f"SELECT {name}({marks})"), name),
                count,
                deterministic=True,
                flags=apsw.SQLITE_INNOCUOUS,
            )


def _bounded(original: Callable[[tuple[Any, ...]], apsw.Cursor], name: str, *arguments: Any) -> Any:
    searched, wanted = _length(arguments[0]), _length(arguments[1])
    if wanted > _SHORT and searched * wanted > _MOST_STEPS:
        raise TooMuchText(f"{name}() of {searched} and {wanted} characters would take too long")
    return original(arguments).get


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else _SHORT
