"""What the ledger says of one call after another to the same target, written once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from paddock.ledger.entry import PreEncoded
from paddock.policy.decision import Decision

_PLACEHOLDER = orjson.Fragment(b"\0")  # no JSON has such a byte


class EntryTemplate(NamedTuple):
    """The facts of a call as canonical JSON, but for how long it took and which request it belonged to."""

    decision: Decision
    pieces: tuple[bytes, bytes, bytes] | None
    """Around the two; None where the facts cannot be written so."""

    @classmethod
    def from_facts(cls, decision: Decision, facts: Mapping[str, Any]) -> EntryTemplate:
        """The phrase for calls like the one that these are the facts of: all texts, yes and no, and lists of texts."""
        template_facts = {**facts, "duration_ms": _PLACEHOLDER, "request_id": _PLACEHOLDER}
        try:
            first, second, third = orjson.dumps(template_facts, option=orjson.OPT_SORT_KEYS).split(b"\0")
        except TypeError:  # half a character, which is written otherwise
            return cls(decision, None)
        return cls(decision, (first, second, third))

    def render(self, duration_ms: float, request: str, plugin: str) -> PreEncoded | None:
        """The facts of one call; None where they cannot be written so."""
        if self.pieces is None or not request.isascii():
            return None
        first, second, third = self.pieces
        # As the standard has it: 2.0 is written 2. What is so short or so long that it has an exponent does not happen.
        duration = int(duration_ms) if duration_ms.is_integer() else duration_ms
        return PreEncoded(b"%b%b%b%b%b" % (first, b"%a" % duration, second, orjson.dumps(request), third), plugin)
