"""Pre-encoded ledger entries: the constant facts of calls to one target are encoded once and reused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from paddock.ledger.entry import PreEncoded
from paddock.policy.decision import Decision

_PLACEHOLDER = orjson.Fragment(b"\0")  # valid JSON never contains this byte


class EntryTemplate(NamedTuple):
    """The facts of a call as canonical JSON, with gaps for what differs from call to call."""

    decision: Decision
    pieces: tuple[bytes, ...] | None
    """The JSON around the gaps; None if the facts cannot be encoded this way."""

    @classmethod
    def from_facts(cls, decision: Decision, facts: Mapping[str, Any], gaps: tuple[str, ...]) -> EntryTemplate:
        """Build the template from the facts of one call, which are strings, booleans and lists of strings.

        Args:
            decision: The decision that the facts tell; a template is good for calls with the same one.
            facts: The facts.
            gaps: The names of the facts that differ, in the order of the alphabet.
        """
        try:
            encoded = orjson.dumps({**facts, **dict.fromkeys(gaps, _PLACEHOLDER)}, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # a lone surrogate, which canonical JSON encodes differently
            return cls(decision, None)
        return cls(decision, tuple(encoded.split(b"\0")))

    def render_start(self, request: str, plugin: str) -> PreEncoded | None:
        """Render the facts of a call that starts, with its `request_id`; None if they cannot be encoded this way."""
        if self.pieces is None or not request.isascii():
            return None
        first, second = self.pieces
        return PreEncoded(b"%b%b%b" % (first, orjson.dumps(request), second), plugin)

    def render_end(self, duration_ms: float, request: str, plugin: str) -> PreEncoded | None:
        """Render the facts of a call that ended, with its `duration_ms` and `request_id`; None as above."""
        if self.pieces is None or not request.isascii():
            return None
        first, second, third = self.pieces
        # Canonical JSON writes 2.0 as 2. Durations so short or so long that they need an exponent do not occur.
        duration = int(duration_ms) if duration_ms.is_integer() else duration_ms
        return PreEncoded(b"%b%b%b%b%b" % (first, b"%a" % duration, second, orjson.dumps(request), third), plugin)
