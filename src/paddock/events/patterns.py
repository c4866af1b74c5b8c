"""Which events somebody wants: `call.ended`, `plugin.*`, or `*` for all that the ledger keeps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paddock.core.errors import OperatorError
from paddock.core.events import EVENT_TYPES
from paddock.core.printable import printable

EVERYTHING = "*"
PREFIX = "dev.paddock."
"""How the type of every event begins outside; patterns may leave it out."""
MOST = 50


def checked(words: Iterable[str]) -> tuple[str, ...]:
    """The patterns, without what all of them begin with. None are all.

    Raises:
        OperatorError: `events.type`, one fits nothing that is ever recorded, or there are too many.
    """
    patterns = tuple(dict.fromkeys(word.strip().removeprefix(PREFIX) for word in words)) or (EVERYTHING,)
    if len(patterns) > MOST:
        raise OperatorError(f"no more than {MOST} types can be named", code="events.type", hint="use plugin.* or *")
    for pattern in patterns:
        if not any(fits(pattern, known) for known in EVENT_TYPES):
            raise OperatorError(
                f"no event is called {printable(pattern, 80)!r}",
                code="events.type",
                hint="give a type of the reference of events, such as call.ended, or a family: call.*",
            )
    return patterns


def fits(pattern: str, name: str) -> bool:
    """Whether one pattern means events of this name."""
    return pattern in (EVERYTHING, name) or (pattern.endswith(".*") and name.startswith(pattern[:-1]))


def wanted(patterns: Sequence[str], name: str) -> bool:
    """Whether any of them does."""
    return any(fits(pattern, name) for pattern in patterns)


def asked_for(patterns: Sequence[str], name: str) -> bool:
    """The same for what is told to those alone who name it, or its family: to whoever wants everything it would say
    the same thing twice."""
    return any(fits(pattern, name) for pattern in patterns if pattern != EVERYTHING)
