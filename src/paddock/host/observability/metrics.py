"""Metrics of calls, plugins and the ledger, for monitoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, NamedTuple, TypeAlias, TypedDict

from msgspec import Struct, field

from paddock.approvals.open_requests import count_waiting
from paddock.core.errors import StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.schema_annotations import NonNegativeInt
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.idempotency.record_queries import count_in_doubt_by_tenant
from paddock.gate.invocation import Invocation
from paddock.host.observability.prometheus import Histogram, HistogramJson, LabelValues, MetricFamily
from paddock.host.plugins.activity import FAILED_STATUSES, PENDING_STATUS
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
MAX_COUNTED_HELD = 1_000_000
# Plugins choose the names of callables: one must neither fill the memory nor hide its neighbours.
MAX_SERIES_PER_PLUGIN = 1_000
OVERFLOW_LABEL = "(others)"  # stands for all further names
_PLUGIN_LABELS = ("tenant", "plugin", "version")
METRIC_FAMILIES = (
    MetricFamily(
        "paddock_calls_total",
        "counter",
        "Calls, by outcome.",
        ("tenant", "plugin", "callable", "status"),
    ),
    MetricFamily(
        "paddock_call_seconds", "histogram", "Duration of calls that reached their plugin.", ("tenant", "plugin")
    ),
    MetricFamily("paddock_decisions_total", "counter", "Policy decisions about calls.", ("tenant", "decision")),
    MetricFamily("paddock_call_errors_total", "counter", "Failed calls, by error code.", ("tenant", "plugin", "code")),
    MetricFamily(
        "paddock_plugin_up",
        "gauge",
        "0 while a plugin has crashed or failed; a plugin that starts on demand is up.",
        _PLUGIN_LABELS,
    ),
    MetricFamily("paddock_plugin_running", "gauge", "Whether the plugin has a process.", _PLUGIN_LABELS),
    MetricFamily("paddock_plugin_restarts", "gauge", "Number of restarts.", _PLUGIN_LABELS),
    MetricFamily("paddock_plugin_in_flight", "gauge", "Calls in progress in the plugin.", _PLUGIN_LABELS),
    MetricFamily("paddock_calls_running", "gauge", "Calls in progress."),
    MetricFamily("paddock_calls_held", "gauge", "Calls that wait for approval."),
    MetricFamily("paddock_calls_in_doubt", "gauge", "Calls with an unknown outcome.", ("tenant",)),
    MetricFamily("paddock_ledger_waiting", "gauge", "Ledger entries that wait to be written."),
    MetricFamily("paddock_ledger_lost", "gauge", "Ledger entries that could not be stored."),
    MetricFamily("paddock_recording", "gauge", "Whether the ledger can be written."),
    MetricFamily("paddock_checkpointing", "gauge", "Whether ledger checkpoints can be created."),
)
"""All metrics, in the order of the output."""

MetricValues: TypeAlias = Mapping[str, Mapping[LabelValues, float | Histogram]]

_DOWN_STATES = frozenset({PluginState.CRASHED, PluginState.FAILED})


class _CallSeries(NamedTuple):
    """The labels under which calls are counted together."""

    tenant: str
    plugin: str
    callable: str
    status: str
    decision: str | None
    code: str | None
    ran: bool


class PluginCallStatsJson(TypedDict):
    """The calls of one plugin for one tenant since the daemon started."""

    tenant: str
    plugin: str
    calls: Annotated[NonNegativeInt, "The number of ended calls."]
    failed: Annotated[NonNegativeInt, "How many of them failed."]
    error_rate: Annotated[float, "`failed` divided by `calls`."]
    latency_s: Annotated[HistogramJson, "The duration in seconds of calls that reached the plugin."]


class PluginCallStats(Struct):
    """The calls of one plugin for one tenant since the host opened."""

    tenant: str
    plugin: str
    calls: int = 0
    failed: int = 0
    latency: Histogram = field(default_factory=lambda: Histogram(_DURATION_BUCKETS_S))

    def add(self, series: _CallSeries, histogram: Histogram) -> None:
        """Count the calls of one series; one that still waits for an approval is counted when it ends."""
        if series.status == PENDING_STATUS:
            return
        self.calls += histogram.count
        if series.status in FAILED_STATUSES:
            self.failed += histogram.count
        if series.ran:
            self.latency.merge(histogram)

    def to_json(self) -> PluginCallStatsJson:
        """Serialize the counts, the error rate, and the latency of calls that reached the plugin."""
        return {
            "tenant": self.tenant,
            "plugin": self.plugin,
            "calls": self.calls,
            "failed": self.failed,
            "error_rate": self.failed / self.calls if self.calls else 0.0,
            "latency_s": self.latency.to_json(),
        }


class Metrics:
    """Observes every ended call, and reads all other values when metrics are requested.

    Args:
        statuses: Returns the status of plugins.
        calls: The registry of calls in flight and held for approval.
        ledger: For its queue length and failures.
        database: Counts effects in doubt.
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
        self._histograms: dict[
            tuple[str, str, str, str, str | None, str | None, bool], Histogram
        ] = {}  # by `_CallSeries`
        self._series_counts: Counter[tuple[str, str]] = Counter()  # by tenant and plugin

    def call_ended(self, invocation: Invocation) -> None:
        """Count one call in one histogram: all other numbers are summed up from these when requested."""
        target, decision = invocation.target, invocation.decision
        # A plain tuple: as good a key, built in half the time.
        key = (
            invocation.context.tenant,
            target.key.plugin,
            target.spec.name,
            invocation.status,
            decision.word if decision else None,
            invocation.error_code,
            invocation.ran,
        )
        histogram = self._histograms.get(key) or self._histogram_for(_CallSeries(*key))
        histogram.observe(invocation.duration_ms / 1000)

    def _histogram_for(self, series: _CallSeries) -> Histogram:
        if self._series_counts[series.tenant, series.plugin] >= MAX_SERIES_PER_PLUGIN:
            series = series._replace(callable=OVERFLOW_LABEL, code=series.code and OVERFLOW_LABEL)
        else:
            self._series_counts[series.tenant, series.plugin] += 1
        return self._histograms.setdefault(series, Histogram(_DURATION_BUCKETS_S))

    def render(self, in_doubt: Mapping[Tenant, int] | None = None, held: int | None = None) -> str:
        """Render everything in Prometheus's text format.

        Args:
            in_doubt: The result of `count_unknown_outcomes`.
            held: The result of `count_held`.
        """
        stored_values: MetricValues = {
            "paddock_calls_in_doubt": {(tenant,): count for tenant, count in (in_doubt or {}).items()},
            "paddock_calls_held": {} if held is None else {(): held},
        }
        values = {**self._call_values(), **self._plugin_values(), **self._host_values(), **stored_values}
        return "".join(f"{line}\n" for family in METRIC_FAMILIES for line in family.lines(values[family.name]))

    def plugin_call_stats(self) -> list[PluginCallStats]:
        """Return the call statistics of every plugin that was called, by tenant and name."""
        stats: dict[tuple[str, str], PluginCallStats] = {}
        for key, histogram in self._histograms.items():
            series = _CallSeries(*key)
            of_plugin = stats.setdefault((series.tenant, series.plugin), PluginCallStats(series.tenant, series.plugin))
            of_plugin.add(series, histogram)
        return [stats[labels] for labels in sorted(stats)]

    async def count_unknown_outcomes(self) -> dict[Tenant, int]:
        """Count effects with an unknown outcome, by tenant; empty while the store is unavailable."""
        try:
            return {DEFAULT_TENANT: 0} | await self._database.read(count_in_doubt_by_tenant)
        except StoreUnavailable:
            return {}

    async def count_held(self) -> int | None:
        """Count the calls that wait for a person, on whichever host; None while the store is unavailable."""
        try:
            return await self._database.read(lambda tx: count_waiting(tx, MAX_COUNTED_HELD))
        except StoreUnavailable:
            return None

    def _call_values(self) -> MetricValues:
        ended, decisions, errors = Counter[LabelValues](), Counter[LabelValues](), Counter[LabelValues]()
        seconds: dict[LabelValues, Histogram] = {}
        for key, histogram in self._histograms.items():
            series = _CallSeries(*key)
            ended[series.tenant, series.plugin, series.callable, series.status] += histogram.count
            if series.decision is not None:
                decisions[series.tenant, series.decision] += histogram.count
            if series.code is not None:
                errors[series.tenant, series.plugin, series.code] += histogram.count
            if series.ran:
                seconds.setdefault((series.tenant, series.plugin), Histogram(_DURATION_BUCKETS_S)).merge(histogram)
        return {
            "paddock_calls_total": ended,
            "paddock_call_seconds": seconds,
            "paddock_decisions_total": decisions,
            "paddock_call_errors_total": errors,
        }

    def _plugin_values(self) -> MetricValues:
        # Two builds of one version may coexist while one of them stops; a metric line must not appear twice.
        statuses = {(status.key.tenant, status.key.plugin, status.version): status for status in self._statuses()}
        return {
            "paddock_plugin_up": {labels: status.state not in _DOWN_STATES for labels, status in statuses.items()},
            "paddock_plugin_running": {
                labels: status.state is PluginState.RUNNING for labels, status in statuses.items()
            },
            "paddock_plugin_restarts": {labels: status.restarts for labels, status in statuses.items()},
            "paddock_plugin_in_flight": {labels: status.in_flight for labels, status in statuses.items()},
        }

    def _host_values(self) -> MetricValues:
        return {
            "paddock_calls_running": {(): self._calls.running_count},
            "paddock_ledger_waiting": {(): self._ledger.queued},
            "paddock_ledger_lost": {(): self._ledger.lost},
            "paddock_recording": {(): self._ledger.failing is None},
            "paddock_checkpointing": {(): self._ledger.unsigned is None},
        }
