"""What is odd about the words of a plugin, on a terminal: hints with the words themselves, for a person to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.cli.output import say, styled
from paddock.plugins.definitions.flagging.hints import in_words, varied

MOST = 20


def tell_odd_words(hints: Sequence[Mapping[str, Any]], more: str) -> None:
    """Each on a line of stderr; nothing where nothing is odd.

    Args:
        hints: As `Hint.to_value` gives them, which is also what the daemon answers.
        more: What to type to see what the words belong to.
    """
    for hint in varied(hints, MOST, lambda hint: hint["flag"]):
        say(f"{styled('!', 'yellow')} odd words: {in_words(hint)}")
    if len(hints) > MOST:
        say(f"{styled('!', 'yellow')} and {len(hints) - MOST} more")
    if hints:
        say(f"  {styled('→', 'dim')} these are hints and no verdict; look at the words: {more}")
