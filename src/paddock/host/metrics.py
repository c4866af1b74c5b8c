"""What is counted around the one door, for whoever watches over a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from paddock.core.errors import StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.calls import Calls
from paddock.gate.course import Course
from paddock.gate.effects.records import in_doubt_of_each
from paddock.host.exposition import Labels, Measure, Spread
from paddock.ledger.writer import LedgerWriter
from paddock.plugins.supervision.deployment import Status
from paddock.plugins.supervision.lifecycle import State
from paddock.store.database import Database

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
MOST_KINDS = 1_000  # of one plugin, which chooses names: it must neither fill the memory nor hide its neighbours
OTHERS = "(others)"  # the names of all that come after these
_A_PLUGIN = ("tenant", "plugin", "version")
MEASURES = (
    Measure(
        "paddock_calls_total",
        "counter",
        "Calls, by what became of them.",
        ("tenant", "plugin", "callable", "status"),
    ),
    Measure(
        "paddock_call_seconds", "histogram", "How long calls took that reached their plugin.", ("tenant", "plugin")
    ),
    Measure("paddock_decisions_total", "counter", "What the rules said to calls.", ("tenant", "decision")),
    Measure("paddock_call_errors_total", "counter", "Calls that failed, by code.", ("tenant", "plugin", "code")),
    Measure(
        "paddock_plugin_up",
        "gauge",
        "0 while a plugin has crashed or was given up; one that starts when it is needed is up.",
        _A_PLUGIN,
    ),
    Measure("paddock_plugin_running", "gauge", "Whether it has a process.", _A_PLUGIN),
    Measure("paddock_plugin_restarts", "gauge", "How often it was started again.", _A_PLUGIN),
    Measure("paddock_plugin_in_flight", "gauge", "Calls that it works on.", _A_PLUGIN),
    Measure("paddock_calls_running", "gauge", "Calls under way."),
    Measure("paddock_calls_held", "gauge", "Calls that wait for a person."),
    Measure("paddock_calls_in_doubt", "gauge", "Calls that may have happened, and nobody knows.", ("tenant",)),
    Measure("paddock_ledger_waiting", "gauge", "Entries that wait to be written."),
    Measure("paddock_ledger_lost", "gauge", "Entries that could not be kept."),
    Measure("paddock_recording", "gauge", "Whether what happens can be recorded."),
    Measure("paddock_checkpointing", "gauge", "Whether checkpoints of the ledger can be made."),
)
"""All that is told, in this order."""

Values: TypeAlias = Mapping[str, Mapping[Labels, float | Spread]]

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
        database: Where it stands what is in doubt.
    """

    def __init__(
        self, statuses: Callable[[], Iterable[Status]], calls: Calls, ledger: LedgerWriter, database: Database
    ) -> None:
        self._statuses = statuses
        self._calls = calls
        self._ledger = ledger
        self._database = database
        self._ended: dict[tuple[str, str, str, str, str | None, str | None, bool], Spread] = {}  # by `_Kind`
        self._kinds: Counter[tuple[str, str]] = Counter()  # by tenant and plugin

    def call_ended(self, course: Course) -> None:
        """Count one call, in one place: every number is added up from these when somebody asks for it."""
        target, decision = course.target, course.decision
        # A plain tuple, which is as good a key and made in half the time.
        known = (
            course.context.tenant,
            target.key.plugin,
            target.spec.name,
            course.status,
            decision.word if decision else None,
            course.error_code,
            course.ran,
        )
        spread = self._ended.get(known) or self._of_kind(_Kind(*known))
        spread.add(course.duration_ms / 1000)

    def _of_kind(self, kind: _Kind) -> Spread:
        if self._kinds[kind.tenant, kind.plugin] >= MOST_KINDS:
            kind = kind._replace(callable=OTHERS, code=kind.code and OTHERS)
        else:
            self._kinds[kind.tenant, kind.plugin] += 1
        return self._ended.setdefault(kind, Spread(_SECONDS))

    def text(self, in_doubt: Mapping[Tenant, int] | None = None) -> str:
        """Everything, as Prometheus reads it, with what somebody found to be in doubt."""
        doubts: Values = {"paddock_calls_in_doubt": {(tenant,): count for tenant, count in (in_doubt or {}).items()}}
        values = {**self._of_calls(), **self._of_plugins(), **self._of_the_host(), **doubts}
        return "".join(f"{line}\n" for measure in MEASURES for line in measure.lines(values[measure.name]))

    async def in_doubt(self) -> dict[Tenant, int]:
        """Of how many calls nobody knows whether they have happened, by tenant; nothing while the store is away."""
        try:
            return {DEFAULT_TENANT: 0} | await self._database.read(in_doubt_of_each)
        except StoreUnavailable:
            return {}

    def _of_calls(self) -> Values:
        ended, decisions, errors = Counter[Labels](), Counter[Labels](), Counter[Labels]()
        seconds: dict[Labels, Spread] = {}
        for known, spread in self._ended.items():
            kind = _Kind(*known)
            ended[kind.tenant, kind.plugin, kind.callable, kind.status] += spread.count
            if kind.decision is not None:
                decisions[kind.tenant, kind.decision] += spread.count
            if kind.code is not None:
                errors[kind.tenant, kind.plugin, kind.code] += spread.count
            if kind.ran:
                seconds.setdefault((kind.tenant, kind.plugin), Spread(_SECONDS)).merge(spread)
        return {
            "paddock_calls_total": ended,
            "paddock_call_seconds": seconds,
            "paddock_decisions_total": decisions,
            "paddock_call_errors_total": errors,
        }

    def _of_plugins(self) -> Values:
        # Two builds may claim one version while one of them leaves, and no line may stand there twice.
        found = {(one.key.tenant, one.key.plugin, one.version): one for one in self._statuses()}
        return {
            "paddock_plugin_up": {labels: one.state not in _DOWN for labels, one in found.items()},
            "paddock_plugin_running": {labels: one.state is State.RUNNING for labels, one in found.items()},
            "paddock_plugin_restarts": {labels: one.restarts for labels, one in found.items()},
            "paddock_plugin_in_flight": {labels: one.in_flight for labels, one in found.items()},
        }

    def _of_the_host(self) -> Values:
        return {
            "paddock_calls_running": {(): self._calls.running},
            "paddock_calls_held": {(): self._calls.waiting},
            "paddock_ledger_waiting": {(): self._ledger.waiting},
            "paddock_ledger_lost": {(): self._ledger.lost},
            "paddock_recording": {(): self._ledger.failing is None},
            "paddock_checkpointing": {(): self._ledger.unsigned is None},
        }
