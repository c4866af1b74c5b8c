"""What is counted around the one door, for whoever watches over a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from paddock.core.errors import StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.idempotency.records import count_in_doubt_by_tenant
from paddock.gate.invocation import Invocation
from paddock.host.observability.prometheus import Histogram, LabelValues, MetricFamily
from paddock.ledger.write.writer import LedgerWriter
from paddock.runtime.deployment import PluginStatus
from paddock.runtime.lifecycle import PluginState
from paddock.store.database import Database

_DURATION_BUCKETS_S = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    120.0,
)
MAX_SERIES_PER_PLUGIN = (
    1_000  # of one plugin, which chooses names: it must neither fill the memory nor hide its neighbours
)
OVERFLOW_LABEL = "(others)"  # the names of all that come after these
_PLUGIN_LABELS = ("tenant", "plugin", "version")
METRIC_FAMILIES = (
    MetricFamily(
        "paddock_calls_total",
        "counter",
        "Calls, by what became of them.",
        ("tenant", "plugin", "callable", "status"),
    ),
    MetricFamily(
        "paddock_call_seconds", "histogram", "How long calls took that reached their plugin.", ("tenant", "plugin")
    ),
    MetricFamily("paddock_decisions_total", "counter", "What the rules said to calls.", ("tenant", "decision")),
    MetricFamily("paddock_call_errors_total", "counter", "Calls that failed, by code.", ("tenant", "plugin", "code")),
    MetricFamily(
        "paddock_plugin_up",
        "gauge",
        "0 while a plugin has crashed or was given up; one that starts when it is needed is up.",
        _PLUGIN_LABELS,
    ),
    MetricFamily("paddock_plugin_running", "gauge", "Whether it has a process.", _PLUGIN_LABELS),
    MetricFamily("paddock_plugin_restarts", "gauge", "How often it was started again.", _PLUGIN_LABELS),
    MetricFamily("paddock_plugin_in_flight", "gauge", "Calls that it works on.", _PLUGIN_LABELS),
    MetricFamily("paddock_calls_running", "gauge", "Calls under way."),
    MetricFamily("paddock_calls_held", "gauge", "Calls that wait for a person."),
    MetricFamily("paddock_calls_in_doubt", "gauge", "Calls that may have happened, and nobody knows.", ("tenant",)),
    MetricFamily("paddock_ledger_waiting", "gauge", "Entries that wait to be written."),
    MetricFamily("paddock_ledger_lost", "gauge", "Entries that could not be kept."),
    MetricFamily("paddock_recording", "gauge", "Whether what happens can be recorded."),
    MetricFamily("paddock_checkpointing", "gauge", "Whether checkpoints of the ledger can be made."),
)
"""All that is told, in this order."""

MetricValues: TypeAlias = Mapping[str, Mapping[LabelValues, float | Histogram]]

_DOWN_STATES = frozenset({PluginState.CRASHED, PluginState.FAILED})


class _CallSeries(NamedTuple):
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
        self,
        statuses: Callable[[], Iterable[PluginStatus]],
        calls: CallRegistry,
        ledger: LedgerWriter,
        database: Database,
    ) -> None:
        self._statuses = statuses
        self._calls = calls
        self._ledger = ledger
        self._database = database
        self._histograms: dict[tuple[str, str, str, str, str | None, str | None, bool], Histogram] = {}  # by `_Kind`
        self._series_counts: Counter[tuple[str, str]] = Counter()  # by tenant and plugin

    def call_ended(self, course: Invocation) -> None:
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
        spread = self._histograms.get(known) or self._histogram_for(_CallSeries(*known))
        spread.observe(course.duration_ms / 1000)

    def _histogram_for(self, kind: _CallSeries) -> Histogram:
        if self._series_counts[kind.tenant, kind.plugin] >= MAX_SERIES_PER_PLUGIN:
            kind = kind._replace(callable=OVERFLOW_LABEL, code=kind.code and OVERFLOW_LABEL)
        else:
            self._series_counts[kind.tenant, kind.plugin] += 1
        return self._histograms.setdefault(kind, Histogram(_DURATION_BUCKETS_S))

    def render(self, in_doubt: Mapping[Tenant, int] | None = None) -> str:
        """Everything, as Prometheus reads it, with what somebody found to be in doubt."""
        doubts: MetricValues = {
            "paddock_calls_in_doubt": {(tenant,): count for tenant, count in (in_doubt or {}).items()}
        }
        values = {**self._call_values(), **self._plugin_values(), **self._host_values(), **doubts}
        return "".join(f"{line}\n" for measure in METRIC_FAMILIES for line in measure.lines(values[measure.name]))

    async def count_unknown_outcomes(self) -> dict[Tenant, int]:
        """Of how many calls nobody knows whether they have happened, by tenant; nothing while the store is away."""
        try:
            return {DEFAULT_TENANT: 0} | await self._database.read(count_in_doubt_by_tenant)
        except StoreUnavailable:
            return {}

    def _call_values(self) -> MetricValues:
        ended, decisions, errors = Counter[LabelValues](), Counter[LabelValues](), Counter[LabelValues]()
        seconds: dict[LabelValues, Histogram] = {}
        for known, spread in self._histograms.items():
            kind = _CallSeries(*known)
            ended[kind.tenant, kind.plugin, kind.callable, kind.status] += spread.count
            if kind.decision is not None:
                decisions[kind.tenant, kind.decision] += spread.count
            if kind.code is not None:
                errors[kind.tenant, kind.plugin, kind.code] += spread.count
            if kind.ran:
                seconds.setdefault((kind.tenant, kind.plugin), Histogram(_DURATION_BUCKETS_S)).merge(spread)
        return {
            "paddock_calls_total": ended,
            "paddock_call_seconds": seconds,
            "paddock_decisions_total": decisions,
            "paddock_call_errors_total": errors,
        }

    def _plugin_values(self) -> MetricValues:
        # Two builds may claim one version while one of them leaves, and no line may stand there twice.
        found = {(one.key.tenant, one.key.plugin, one.version): one for one in self._statuses()}
        return {
            "paddock_plugin_up": {labels: one.state not in _DOWN_STATES for labels, one in found.items()},
            "paddock_plugin_running": {labels: one.state is PluginState.RUNNING for labels, one in found.items()},
            "paddock_plugin_restarts": {labels: one.restarts for labels, one in found.items()},
            "paddock_plugin_in_flight": {labels: one.in_flight for labels, one in found.items()},
        }

    def _host_values(self) -> MetricValues:
        return {
            "paddock_calls_running": {(): self._calls.running_count},
            "paddock_calls_held": {(): self._calls.held_count},
            "paddock_ledger_waiting": {(): self._ledger.queued},
            "paddock_ledger_lost": {(): self._ledger.lost},
            "paddock_recording": {(): self._ledger.failing is None},
            "paddock_checkpointing": {(): self._ledger.unsigned is None},
        }
