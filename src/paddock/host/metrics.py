"""What is counted around the one door, for whoever watches over a host."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from paddock.core.events_calls import CallEnded
from paddock.gate.calls import Calls
from paddock.gate.course import Course
from paddock.host.exposition import Counter, Gauge, Histogram, gauge_lines
from paddock.ledger.writer import LedgerWriter
from paddock.plugins.supervision.deployment import Status
from paddock.plugins.supervision.lifecycle import State

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """Hears of every call that ended, and looks at the rest when it is asked.

    Args:
        statuses: How the plugins are doing.
        calls: Calls under way, and those that wait for a person.
        ledger: How much waits to be written.
    """

    def __init__(self, statuses: Callable[[], Iterable[Status]], calls: Calls, ledger: LedgerWriter) -> None:
        self._statuses = statuses
        self._calls = calls
        self._ledger = ledger
        self._ended = Counter(
            "paddock_calls_total", "Calls, by what became of them.", ("tenant", "plugin", "callable", "status")
        )
        self._seconds = Histogram("paddock_call_seconds", "How long calls took.", _SECONDS, ("tenant", "plugin"))
        self._decisions = Counter("paddock_decisions_total", "What the rules said to calls.", ("tenant", "decision"))
        self._errors = Counter("paddock_call_errors_total", "Calls that failed, by code.", ("tenant", "plugin", "code"))

    def call_ended(self, course: Course, ended: CallEnded) -> None:
        """Count one call."""
        tenant = course.context.tenant
        self._ended.add(tenant, ended.name, ended.method, ended.status)
        self._seconds.observe(ended.duration_ms / 1000, tenant, ended.name)
        if ended.decision is not None:
            self._decisions.add(tenant, ended.decision)
        if ended.error_code is not None:
            self._errors.add(tenant, ended.name, ended.error_code)

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        statuses = list(self._statuses())
        kept = (self._ended, self._seconds, self._decisions, self._errors)
        lines = chain(*(one.lines() for one in kept), self._looked_up(statuses))
        return "".join(f"{line}\n" for line in lines)

    def _looked_up(self, statuses: list[Status]) -> Iterable[str]:
        by_plugin = ("tenant", "plugin", "version")

        def each(name: str, words: str, value: Callable[[Status], float]) -> Iterable[str]:
            # Two builds may claim one version while one of them leaves, and no line may stand there twice.
            found = {(one.key.tenant, one.key.plugin, one.version): value(one) for one in statuses}
            return gauge_lines(name, words, by_plugin, (Gauge(labels, number) for labels, number in found.items()))

        yield from each("paddock_plugin_up", "Whether a plugin runs.", lambda one: one.state is State.RUNNING)
        yield from each("paddock_plugin_restarts", "How often it was started again.", lambda one: one.restarts)
        yield from each("paddock_plugin_in_flight", "Calls that it works on.", lambda one: one.in_flight)
        yield from _alone("paddock_calls_running", "Calls under way.", self._calls.running)
        yield from _alone("paddock_calls_held", "Calls that wait for a person.", self._calls.waiting)
        yield from _alone("paddock_ledger_waiting", "Entries that wait to be written.", self._ledger.waiting)
        yield from _alone("paddock_ledger_lost", "Entries that could not be kept.", self._ledger.lost)
        yield from _alone(
            "paddock_recording", "Whether what happens can be recorded.", float(self._ledger.failing is None)
        )
        signing = float(self._ledger.unsigned is None)
        yield from _alone("paddock_checkpointing", "Whether checkpoints of the ledger can be made.", signing)


def _alone(name: str, words: str, value: float) -> Iterable[str]:
    return gauge_lines(name, words, (), (Gauge((), value),))
