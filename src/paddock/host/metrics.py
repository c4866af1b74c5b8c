"""What is counted around the one door, for whoever watches over a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from paddock.gate.calls import Calls
from paddock.gate.course import Course
from paddock.host.exposition import Labels, Spread, counter_lines, gauge_lines, histogram_lines
from paddock.ledger.writer import LedgerWriter
from paddock.plugins.supervision.deployment import Status
from paddock.plugins.supervision.lifecycle import State

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
MOST_SERIES = 10_000  # plugins choose names, and must not fill the memory with them
_DOWN = frozenset({State.CRASHED, State.FAILED})


class _Kind(NamedTuple):
    """Calls that count as one and the same."""

    tenant: str
    plugin: str
    callable: str
    status: str
    decision: str | None
    code: str | None
    ran: bool


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
        self._ended: dict[_Kind, Spread] = {}

    def call_ended(self, course: Course) -> None:
        """Count one call, in one place: every number is added up from these when somebody asks for it."""
        target, decision = course.target, course.decision
        kind = _Kind(
            course.context.tenant,
            target.key.plugin,
            target.spec.name,
            course.status,
            decision.word if decision else None,
            course.error_code,
            course.ran,
        )
        spread = self._ended.get(kind)
        if spread is None:
            if len(self._ended) >= MOST_SERIES:
                return
            spread = self._ended[kind] = Spread(_SECONDS)
        spread.add(course.duration_ms / 1000)

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        return "".join(f"{line}\n" for line in (*self._of_calls(), *self._looked_up()))

    def _of_calls(self) -> Iterable[str]:
        ended, decisions, errors = Counter[Labels](), Counter[Labels](), Counter[Labels]()
        seconds: dict[Labels, Spread] = {}
        for kind, spread in self._ended.items():
            ended[kind.tenant, kind.plugin, kind.callable, kind.status] += spread.count
            if kind.decision is not None:
                decisions[kind.tenant, kind.decision] += spread.count
            if kind.code is not None:
                errors[kind.tenant, kind.plugin, kind.code] += spread.count
            if kind.ran:
                seconds.setdefault((kind.tenant, kind.plugin), Spread(_SECONDS)).merge(spread)
        yield from counter_lines(
            "paddock_calls_total",
            "Calls, by what became of them.",
            ("tenant", "plugin", "callable", "status"),
            ended,
        )
        yield from histogram_lines(
            "paddock_call_seconds", "How long calls took that reached their plugin.", ("tenant", "plugin"), seconds
        )
        yield from counter_lines(
            "paddock_decisions_total", "What the rules said to calls.", ("tenant", "decision"), decisions
        )
        yield from counter_lines(
            "paddock_call_errors_total", "Calls that failed, by code.", ("tenant", "plugin", "code"), errors
        )

    def _looked_up(self) -> Iterable[str]:
        statuses = list(self._statuses())

        def each(name: str, words: str, value: Callable[[Status], float]) -> Iterable[str]:
            # Two builds may claim one version while one of them leaves, and no line may stand there twice.
            found: dict[Labels, float] = {(one.key.tenant, one.key.plugin, one.version): value(one) for one in statuses}
            return gauge_lines(name, words, ("tenant", "plugin", "version"), found)

        yield from each(
            "paddock_plugin_up",
            "0 while a plugin has crashed or was given up; one that starts when it is needed is up.",
            lambda one: one.state not in _DOWN,
        )
        yield from each("paddock_plugin_running", "Whether it has a process.", lambda one: one.state is State.RUNNING)
        yield from each("paddock_plugin_restarts", "How often it was started again.", lambda one: one.restarts)
        yield from each("paddock_plugin_in_flight", "Calls that it works on.", lambda one: one.in_flight)
        for name, words, value in (
            ("paddock_calls_running", "Calls under way.", self._calls.running),
            ("paddock_calls_held", "Calls that wait for a person.", self._calls.waiting),
            ("paddock_ledger_waiting", "Entries that wait to be written.", self._ledger.waiting),
            ("paddock_ledger_lost", "Entries that could not be kept.", self._ledger.lost),
            ("paddock_recording", "Whether what happens can be recorded.", self._ledger.failing is None),
            ("paddock_checkpointing", "Whether checkpoints of the ledger can be made.", self._ledger.unsigned is None),
        ):
            yield from gauge_lines(name, words, (), {(): value})
