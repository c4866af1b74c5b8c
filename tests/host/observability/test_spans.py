"""Calls as spans, received by a collector that speaks OTLP over HTTP on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.gate.test_governed_calls import ANN, EVE, Office

from paddock.core.call import CallContext
from paddock.core.errors import Denied
from paddock.core.ids import RequestId

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """Keeps the spans that it gets."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        super().__init__(("127.0.0.1", 0), _Taking)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        import gzip

        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)  # pyright: ignore[reportAttributeAccessIssue]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.mark.req("B-05", "traces")
async def test_each_call_is_a_span_below_its_callers_and_says_what_was_decided(
    tmp_path: Path, collector: Collector
) -> None:
    traced = CallContext(ANN, RequestId("req_1"), trace=f"00-{TRACE}-{PARENT}-01")
    async with Office(tmp_path).open(PADDOCK_TELEMETRY_OTLP_ENDPOINT=collector.address) as host:
        await host.call("mail.look", {}, context=traced)
        with pytest.raises(Denied):
            await host.call("mail.look", {}, context=CallContext(EVE, RequestId("req_2")))

    done, denied = collector.spans
    about = {one.key: one.value.string_value for one in done.attributes}
    assert (done.name, done.trace_id.hex(), done.parent_span_id.hex()) == ("mail look", TRACE, PARENT)
    assert (about["paddock.request"], about["paddock.decision"], about["paddock.status"]) == (
        "req_1",
        "allow",
        "succeeded",
    )
    assert done.end_time_unix_nano > done.start_time_unix_nano
    assert denied.status.code == 2
    assert {one.key: one.value.string_value for one in denied.attributes}["error.type"] == "policy_denied"


async def test_a_traceparent_that_is_none_is_passed_over(tmp_path: Path, collector: Collector) -> None:
    async with Office(tmp_path).open(PADDOCK_TELEMETRY_OTLP_ENDPOINT=collector.address) as host:
        await host.call("mail.look", {}, context=CallContext(ANN, RequestId("req_1"), trace="\n00-zz"))

    (span,) = collector.spans
    assert span.parent_span_id == b""


async def test_without_a_collector_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    async with Office(tmp_path).open() as host:
        assert await host.call("mail.look", {}, context=CallContext(ANN, RequestId("req_1"))) == {"done": "look"}
