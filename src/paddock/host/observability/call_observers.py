"""Calls as OpenTelemetry spans, sent to a collector where a setting names one.

The libraries are an extra, `pip install paddock[otel]`, and are loaded only then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from paddock import __version__
from paddock.core.errors import OperatorError
from paddock.core.events.calls import CallEnded
from paddock.gate.invocation import Invocation

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
import logging

from paddock.policy.decision import Deny

_FLUSH_TIMEOUT_S = 5.0  # seconds for what was not sent yet


class SpanExporter:
    """Hears of every call that ended, and makes a span of it: below that of its caller, where they named theirs."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._kind = SpanKind.SERVER
        self._failed = Status(StatusCode.ERROR)
        self._propagator = TraceContextTextMapPropagator()

    def call_ended(self, course: Invocation) -> None:
        end, ended = time.time_ns(), course.ended_event()
        trace = course.context.trace
        span = self._tracer.start_span(
            f"{ended.name} {ended.method}",
            context=self._propagator.extract({"traceparent": trace}) if trace else None,
            kind=self._kind,
            attributes=_span_attributes(course, ended),
            start_time=end - int(ended.duration_ms * 1e6),
        )
        if not ended.success:
            span.set_status(self._failed)
        span.end(end)


def _span_attributes(course: Invocation, ended: CallEnded) -> dict[str, Any]:
    """What a span says of a call: nothing of what was in it."""
    about = {
        "paddock.call": course.call_id,
        "paddock.request": ended.request_id,
        "paddock.tenant": course.context.tenant,
        "paddock.principal": course.context.principal.id,
        "paddock.plugin": ended.name,
        "paddock.plugin.version": ended.version,
        "paddock.callable": ended.method,
        "paddock.status": ended.status,
        "paddock.decision": ended.decision,
        "paddock.policies": list(ended.policies) or None,
        "paddock.approval": ended.approval,
        "error.type": ended.error_code,
    }
    return {name: value for name, value in about.items() if value is not None}


@asynccontextmanager
async def open_span_exporter(endpoint: str | None) -> AsyncGenerator[SpanExporter | None, None]:
    """The observer that sends spans to a collector for as long as the block runs; None where no collector is named.

    Args:
        endpoint: Where a collector listens for OTLP over HTTP, such as `http://127.0.0.1:4318`.

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
    about = Resource.create({"service.name": "paddock", "service.version": __version__})
    provider = TracerProvider(resource=about, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=_FLUSH_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield SpanExporter(provider.get_tracer("paddock", __version__))
    finally:
        # A collector that does not answer holds nobody up for longer than this.
        await asyncio.to_thread(provider.force_flush, int(_FLUSH_TIMEOUT_S * 1000))
        await asyncio.to_thread(provider.shutdown)


_log = logging.getLogger("paddock.calls")

# What somebody should see without asking for every call: the host could not do what it was asked to.
_WARNING_STATUSES = frozenset({"failed", "timed_out", "in_doubt"})
_DEBUG_STATUSES = frozenset({"succeeded"})


class CallLogger:
    """Hears of every call that ended. Says nothing of what was in it: results and parameters are nobody's here."""

    def call_ended(self, course: Invocation) -> None:
        if course.status in _DEBUG_STATUSES and not _log.isEnabledFor(logging.DEBUG):
            return
        kept_back = isinstance(course.decision, Deny) and bool(course.decision.public_reason)
        loud = (
            kept_back or course.status in _WARNING_STATUSES
        )  # whoever called is not told what was blocked: somebody has to be
        level = logging.DEBUG if course.status in _DEBUG_STATUSES else logging.WARNING if loud else logging.INFO
        if not _log.isEnabledFor(level):
            return
        ended = course.ended_event()
        facts = {
            "tenant": course.context.tenant,
            "call": course.call_id,
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
        known = {name: value for name, value in facts.items() if value is not None}
        _log.log(level, "a call %s", ended.status.replace("_", " "), extra={"facts": known})
