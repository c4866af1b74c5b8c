"""For how long probes have found nothing of calls, by the time that only ever grows: a calendar may be moved meanwhile,
and a host that dies over it begins anew."""

from __future__ import annotations

from paddock.core.ids import CallId

KEPT = 3600.0  # seconds after it lasts for long enough


class InVain:
    """When a probe first found nothing, by call.

    Whoever asks no more about a call need not say so: a person may have said what became of it, or another host.
    """

    def __init__(self) -> None:
        self._since: dict[CallId, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def lasts_for(self, seconds: float, call: CallId, now: float) -> bool:
        """Whether nothing was found of a call for that long; it begins now where it never was looked for."""
        for old in [one for one, since in self._since.items() if now - since > seconds + KEPT]:
            del self._since[old]
        return now - self._since.setdefault(call, now) >= seconds

    def forget(self, call: CallId) -> None:
        """It is known what became of it."""
        self._since.pop(call, None)
