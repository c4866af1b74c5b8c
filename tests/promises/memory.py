"""Outcomes and costs of the last runs of the tests, kept in a small file beside the checkout.

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
    costs: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )  # wall, CPU seconds


@dataclass(frozen=True, slots=True)
class Memory:
    """The file that holds it."""

    path: Path

    def recall(self) -> Recollection:
        """What is known; nothing if there is no file or it cannot be read, since it can always be made again."""
        try:
            data: Any = json.loads(self.path.read_text(encoding="utf-8"))
            whole: Any = data["whole_set"] or {"at": None, "passed": False}
            return Recollection(dict(data["outcomes"]), whole["at"], whole["passed"], dict(data["seconds"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Recollection()

    def remember(self, outcomes: Mapping[str, str], costs: Mapping[str, tuple[float, float]]) -> None:
        """Add a run to what is known; `costs` are wall and CPU seconds by node id."""
        if not outcomes:
            return
        before = self.recall()
        self._write(
            Recollection(
                dict(before.outcomes) | dict(outcomes),
                before.whole_set_at,
                before.whole_set_passed,
                dict(before.costs) | dict(costs),
            )
        )

    def remember_whole_set(self, *, passed: bool = True) -> None:
        """Every test there is has run, slow set included."""
        before = self.recall()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write(Recollection(before.outcomes, now, passed, before.costs))

    def _write(self, known: Recollection) -> None:
        document = {
            "outcomes": dict(known.outcomes),
            "seconds": dict(known.costs),
            "whole_set": {"at": known.whole_set_at, "passed": known.whole_set_passed} if known.whole_set_at else None,
        }
        self.path.parent.mkdir(exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")
        scratch.replace(self.path)
