"""When an operator that is still at work is asked again, and when nobody asks any more: pure arithmetic over times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from paddock.core.call import SoFar
from paddock.core.errors import TimedOut
from paddock.gate.effects.records import Effect
from paddock.plugins.runtimes.envelopes import InProgress
from paddock.queue.schedule import Pauses, pause

A_DAY = 86_400.0
MOST_ASKED = 10_000
SHORTEST_PAUSE = 0.2  # seconds, whatever an operator says
LONGEST_PAUSE = 3600.0
_DOUBLING = Pauses(longest=60.0)  # where it says nothing


@dataclass(frozen=True, slots=True)
class Progress:
    """What is kept of work in progress, beside what its call was made with."""

    until: str
    asked: int
    result: Any

    @staticmethod
    def begun(going: InProgress, now: datetime, longest: float) -> Progress:
        return Progress((now + timedelta(seconds=longest)).isoformat(), 1, going.result)

    @staticmethod
    def of(effect: Effect) -> Progress | None:
        """What a record has of it; None where its plugin was uninstalled since, and all of that with it."""
        kept = (effect.context or {}).get("in_progress")
        return None if kept is None else Progress(**kept)

    def kept_in(self, context: Mapping[str, Any]) -> dict[str, Any]:
        return {**context, "in_progress": asdict(self)}

    @property
    def so_far(self) -> SoFar:
        """What the operator is told."""
        return SoFar(self.asked, self.result)

    def too_long(self, now: datetime) -> bool:
        return now >= datetime.fromisoformat(self.until) or self.asked >= MOST_ASKED

    def after_a_look(self, going: InProgress | None) -> Progress:
        """With what the operator said, where it was reached."""
        said = self if going is None else replace(self, result=going.result)
        return replace(said, asked=self.asked + 1)

    def due(self, now: datetime, retry_after: float | None) -> datetime:
        """When to look next."""
        return min(now + timedelta(seconds=pause_before(self.asked, retry_after)), datetime.fromisoformat(self.until))


def pause_before(asked: int, retry_after: float | None) -> float:
    """Seconds until an operator is asked for this time: as it says, within bounds, else twice as long each time."""
    if retry_after is None:
        return pause(asked, _DOUBLING)
    return min(max(retry_after, SHORTEST_PAUSE), LONGEST_PAUSE)


def too_long(plugin: str, longest: float) -> TimedOut:
    """What whoever waits for it is told then."""
    return TimedOut(
        f"{plugin} was not through with it after {longest:g} s, and is not asked any more",
        code="call.in_progress_too_long",
        hint="whoever operates the host can give such work more time: limits.in_progress_s",
        details={"plugin": plugin},
    )
