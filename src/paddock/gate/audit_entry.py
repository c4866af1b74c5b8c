"""Pre-encoded ledger entries: the constant facts of calls to one target are encoded once and reused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from paddock.ledger.entry import PreEncoded
from paddock.policy.decision import Decision


class EntryTemplate(NamedTuple):
    """The facts of a call as canonical JSON, with gaps for what differs from call to call."""

    decision: Decision
    template: bytes | None
    """As in `ledger/stored_row.py`; None if the facts cannot be encoded this way."""

    @classmethod
    def from_facts(cls, decision: Decision, facts: Mapping[str, Any], gaps: Mapping[str, bytes]) -> EntryTemplate:
        """Build the template from the facts of one call, which are strings, booleans and lists of strings.

        Args:
            decision: The decision that the facts tell; a template is good for calls with the same one.
            facts: The facts.
            gaps: The facts that differ, each with the kind of its gap.
        """
        filled = {name: orjson.Fragment(gap) for name, gap in gaps.items()}
        try:
            return cls(decision, orjson.dumps({**facts, **filled}, option=orjson.OPT_SORT_KEYS))
        except TypeError:  # a lone surrogate, which canonical JSON encodes differently
            return cls(decision, None)

    def render_start(self, request: str, plugin: str) -> PreEncoded | None:
        """Return the facts of a call that starts; None if they cannot be encoded this way."""
        if self.template is None or not request.isascii():
            return None
        return PreEncoded(self.template, b"", plugin)

    def render_end(self, duration_ms: float, request: str, plugin: str) -> PreEncoded | None:
        """Return the facts of a call that ended, with its `duration_ms`; None as above."""
        if self.template is None or not request.isascii():
            return None
        # Canonical JSON writes 2.0 as 2. Durations so short or so long that they need an exponent do not occur.
        duration = int(duration_ms) if duration_ms.is_integer() else duration_ms
        return PreEncoded(self.template, b"%a" % duration, plugin)
