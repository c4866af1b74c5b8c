"""Observers of ended calls: OpenTelemetry spans, sent to a collector if a setting names one, and a log line per call.

The OpenTelemetry libraries are an extra, `pip install paddock[otel]`, and are loaded only if needed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from paddock import __version__
from paddock.core.errors import OperatorError
from paddock.core.events.calls import CallEnded
from paddock.gate.invocation import Invocation
from paddock.policy.decision import Deny

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_log = logging.getLogger("paddock.calls")

# Logged as warnings: the host could not do what was requested.
_WARNING_STATUSES = frozenset({"failed", "timed_out", "in_doubt"})
_DEBUG_STATUSES = frozenset({"succeeded"})

_FLUSH_TIMEOUT_S = 5.0  # for spans that were not sent yet


class SpanExporter:
    """Creates a span for every ended call, as a child of the caller's span if the caller sent one."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._kind = SpanKind.SERVER
        self._failed = Status(StatusCode.ERROR)
        self._propagator = TraceContextTextMapPropagator()

    def call_ended(self, invocation: Invocation) -> None:
        end, ended = time.time_ns(), invocation.ended_event()
        trace = invocation.context.trace
        span = self._tracer.start_span(
            f"{ended.name} {ended.method}",
            context=self._propagator.extract({"traceparent": trace}) if trace else None,
            kind=self._kind,
            attributes=_span_attributes(invocation, ended),
            start_time=end - int(ended.duration_ms * 1e6),
        )
        if not ended.success:
            span.set_status(self._failed)
        span.end(end)


def _span_attributes(invocation: Invocation, ended: CallEnded) -> dict[str, Any]:
    """Return the attributes of a call's span: nothing of its parameters or result."""
    attributes = {
        "paddock.call": invocation.call_id,
        "paddock.request": ended.request_id,
        "paddock.tenant": invocation.context.tenant,
        "paddock.principal": invocation.context.principal.id,
        "paddock.plugin": ended.name,
        "paddock.plugin.version": ended.version,
        "paddock.callable": ended.method,
        "paddock.status": ended.status,
        "paddock.decision": ended.decision,
        "paddock.policies": list(ended.policies) or None,
        "paddock.approval": ended.approval,
        "error.type": ended.error_code,
    }
    return {name: value for name, value in attributes.items() if value is not None}


@asynccontextmanager
async def open_span_exporter(endpoint: str | None) -> AsyncGenerator[SpanExporter | None, None]:
    """Open an observer that exports spans for as long as the block runs; None if no collector is configured.

    Args:
        endpoint: The collector's OTLP endpoint over HTTP, such as `http://127.0.0.1:4318`.

    Raises:
        OperatorError: the libraries are not installed.
    """
    if endpoint is None:
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise OperatorError(
            "telemetry.otlp_endpoint names a collector, and OpenTelemetry is not installed",
            code="telemetry.not_installed",
            hint="pip install 'paddock[otel]'   # or unset telemetry.otlp_endpoint",
        ) from None
    resource = Resource.create({"service.name": "paddock", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=_FLUSH_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield SpanExporter(provider.get_tracer("paddock", __version__))
    finally:
        # A collector that does not answer delays the shutdown by at most this long.
        await asyncio.to_thread(provider.force_flush, int(_FLUSH_TIMEOUT_S * 1000))
        await asyncio.to_thread(provider.shutdown)


def log_call(invocation: Invocation) -> None:
    """Log a call that ended. Never logs parameters or results."""
    if invocation.status in _DEBUG_STATUSES and not _log.isEnabledFor(logging.DEBUG):
        return
    reason_withheld = isinstance(invocation.decision, Deny) and bool(invocation.decision.public_reason)
    # The caller is not told why it was denied, so the log has to say it.
    warn = reason_withheld or invocation.status in _WARNING_STATUSES
    level = logging.DEBUG if invocation.status in _DEBUG_STATUSES else logging.WARNING if warn else logging.INFO
    if not _log.isEnabledFor(level):
        return
    ended = invocation.ended_event()
    facts = {
        "tenant": invocation.context.tenant,
        "call": invocation.call_id,
        "request": ended.request_id,
        "plugin": ended.name,
        "callable": ended.method,
        "status": ended.status,
        "ms": ended.duration_ms,
        "decision": ended.decision,
        "policies": ",".join(ended.policies) or None,
        "error": ended.error_code,
        "approval": ended.approval,
    }
    fields = {name: value for name, value in facts.items() if value is not None}
    _log.log(level, "a call %s", ended.status.replace("_", " "), extra={"facts": fields})
