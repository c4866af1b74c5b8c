"""Pre-encoded ledger entries: the constant facts of calls to one target are encoded once and reused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from paddock.ledger.entry import PreEncoded
from paddock.policy.decision import Decision

_PLACEHOLDER = orjson.Fragment(b"\0")  # valid JSON never contains this byte


class EntryTemplate(NamedTuple):
    """The facts of a call as canonical JSON, with gaps for its duration and its request id."""

    decision: Decision
    pieces: tuple[bytes, bytes, bytes] | None
    """The JSON around the two gaps; None if the facts cannot be encoded this way."""

    @classmethod
    def from_facts(cls, decision: Decision, facts: Mapping[str, Any]) -> EntryTemplate:
        """Build the template from the facts of one call, which are strings, booleans and lists of strings."""
        template_facts = {**facts, "duration_ms": _PLACEHOLDER, "request_id": _PLACEHOLDER}
        try:
            first, second, third = orjson.dumps(template_facts, option=orjson.OPT_SORT_KEYS).split(b"\0")
        except TypeError:  # a lone surrogate, which canonical JSON encodes differently
            return cls(decision, None)
        return cls(decision, (first, second, third))

    def render(self, duration_ms: float, request: str, plugin: str) -> PreEncoded | None:
        """Render the facts of one call; None if they cannot be encoded this way."""
        if self.pieces is None or not request.isascii():
            return None
        first, second, third = self.pieces
        # Canonical JSON writes 2.0 as 2. Durations so short or so long that they need an exponent do not occur.
        duration = int(duration_ms) if duration_ms.is_integer() else duration_ms
        return PreEncoded(b"%b%b%b%b%b" % (first, b"%a" % duration, second, orjson.dumps(request), third), plugin)
