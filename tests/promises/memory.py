"""What the last runs of the tests said, kept in a small file beside the checkout.

A run of a few tests updates those few; the others keep what they last did. A run of everything, slow set included,
also leaves its date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Recollection:
    """Outcome by node id, and when the whole set last ran."""

    outcomes: Mapping[str, str] = field(default_factory=dict[str, str])
    whole_set_at: str | None = None
    whole_set_passed: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """The file that holds it."""

    path: Path

    def recall(self) -> Recollection:
        """What is known; nothing if there is no file or it cannot be read, since it can always be made again."""
        try:
            data: Any = json.loads(self.path.read_text(encoding="utf-8"))
            whole: Any = data["whole_set"] or {"at": None, "passed": False}
            return Recollection(dict(data["outcomes"]), whole["at"], whole["passed"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Recollection()

    def remember(self, outcomes: Mapping[str, str], *, whole_set: bool, exit_status: int) -> None:
        """Add a run to what is known."""
        if not outcomes:
            return
        before = self.recall()
        at, passed = before.whole_set_at, before.whole_set_passed
        if whole_set:
            at, passed = datetime.now(UTC).isoformat(timespec="seconds"), exit_status == 0
        kept = {} if whole_set else dict(before.outcomes)
        document = {"outcomes": kept | dict(outcomes), "whole_set": {"at": at, "passed": passed} if at else None}
        self.path.parent.mkdir(exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")
        scratch.replace(self.path)
