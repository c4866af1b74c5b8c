"""Servers that fail, stall, send too much, or ask to be asked later."""

from __future__ import annotations

import asyncio
import gc
import gzip
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.capabilities.http.outside import HOST, Names, Seen, Serve, asker, here, reply, serving, url
from tests.capabilities.stage import open_stage, plugin

from paddock.capabilities.http import service
from paddock.capabilities.http.retry import retry_delay
from paddock.core.call import CallContext, Principal
from paddock.core.events.capabilities import PluginFetched
from paddock.core.ids import CallId, PluginName, PrincipalId, RequestId
from paddock.net.http_client import parse_retry_after

SENDING = frozenset({"external_send"})

_FAR = "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"  # from Greenwich


async def broken(seen: Seen, writer: asyncio.StreamWriter) -> None:
    del seen
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")


async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
    del seen
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def dripping(seen: Seen, writer: asyncio.StreamWriter) -> None:
    del seen
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
    del writer
    await seen.gone()


@pytest.mark.req("S-13", "retries")
@pytest.mark.parametrize("trouble", [*map(reply, (429, 502, 503, 504)), broken])
async def test_a_server_in_trouble_is_asked_again_until_it_answers(tmp_path: Path, trouble: Serve) -> None:
    pages: list[Serve] = [trouble, trouble, reply(body=b"ok")]
    async with serving(page=pages) as server, open_stage(tmp_path, outside=here()) as stage:
        answer = await stage.ask(asker(server.port), "http.fetch", request={"url": url(server)}, backoff=0.01)
        (event,) = stage.recorded(PluginFetched)
    assert (answer["status"], answer["body"], answer["attempts"]) == (200, "ok", 3)
    assert (event.times, event.status) == (3, 200)


async def test_after_so_many_attempts_its_last_answer_is_the_answer(tmp_path: Path) -> None:
    async with serving(page=reply(503)) as server, open_stage(tmp_path, outside=here()) as stage:
        asking, request = asker(server.port), {"url": url(server)}
        answer = await stage.ask(asking, "http.fetch", request=request, retries=1, backoff=0)
        once = await stage.ask(asking, "http.fetch", request=request, retries=0)
    assert (answer["status"], answer["attempts"], once["attempts"]) == (503, 2, 1)
    assert len(server.seen) == 3


async def test_an_error_that_will_not_pass_is_not_repeated(tmp_path: Path) -> None:
    async with serving(page=reply(500)) as server, open_stage(tmp_path, outside=here()) as stage:
        assert (await stage.ask(asker(server.port), "http.fetch", request={"url": url(server)}))["attempts"] == 1


@pytest.mark.req("S-13", "retries")
async def test_what_changes_something_is_sent_once_unless_its_plugin_gave_it_a_key(tmp_path: Path) -> None:
    run = CallContext(Principal(PrincipalId("ann")), RequestId("r"), idempotency_key="k1", fence=1)
    async with serving(page=reply(503), lost=broken) as server, open_stage(tmp_path, outside=here()) as stage:
        asking = replace(asker(server.port, effects=SENDING, call_id=CallId("call-7")), call=run)
        request = {"method": "POST", "url": url(server), "body": "x"}
        once = await stage.ask(asking, "http.fetch", request=request, backoff=0)
        keyed = {**request, "headers": {"Idempotency-Key": "k"}}
        often = await stage.ask(asking, "http.fetch", request=keyed, backoff=0)
        # The host's own key is on it, but nobody said that this service knows keys.
        await stage.refused(asking, "http.fetch", request={**request, "url": url(server, "/lost")}, backoff=0)
    assert (once["attempts"], often["attempts"]) == (1, 3)
    (lost,) = (seen for seen in server.seen if seen.path == "/lost")
    assert "idempotency-key" in lost.headers


@pytest.mark.req("S-13", "backoff")
async def test_a_server_that_says_when_is_asked_then_and_not_at_all_if_that_is_too_late(tmp_path: Path) -> None:
    soon, late = reply(429, retry_after="1"), reply(503, retry_after="60")
    async with serving(page=[soon, reply()], late=late) as server, open_stage(tmp_path, outside=here()) as stage:
        begun = time.monotonic()
        answer = await stage.ask(asker(server.port), "http.fetch", request={"url": url(server)}, backoff=0)
        waited = time.monotonic() - begun
        given_up = await stage.ask(asker(server.port), "http.fetch", request={"url": url(server, "/late")})
    assert answer["attempts"] == 2 and waited >= 1
    assert (given_up["status"], given_up["attempts"]) == (503, 1)


@pytest.mark.req("S-13", "backoff")
def test_the_wait_doubles_is_spread_by_chance_and_has_an_end() -> None:
    assert [retry_delay(attempt, 1.0, 0.0) for attempt in (1, 2, 3, 9)] == [1, 2, 4, 30]
    assert retry_delay(2, 1.0, 0.999) == pytest.approx(1, abs=0.01)
    assert retry_delay(1, 1.0, 0.0, 7.0) == 7


def test_when_to_return_is_read_as_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert parse_retry_after("120", now) == 120
    assert parse_retry_after(format_datetime(now + timedelta(seconds=30), usegmt=True), now) == 30
    assert parse_retry_after(format_datetime(now - timedelta(seconds=30), usegmt=True), now) == 0
    assert [parse_retry_after(text, now) for text in (None, "", "soon", "-1", "²", _FAR)] == [None] * 6


@pytest.mark.parametrize("slow", [dripping, silent])
async def test_a_slow_server_is_given_up_when_the_time_is_over(tmp_path: Path, slow: Serve) -> None:
    async with serving(page=slow) as server, open_stage(tmp_path, outside=here()) as stage:
        begun = time.monotonic()
        refused = await stage.refused(asker(server.port), "http.fetch", request={"url": url(server), "timeout": 0.3})
        (event,) = stage.recorded(PluginFetched)
    assert refused.error_code == "http.timeout" and time.monotonic() - begun < 5
    assert (event.status, event.error_code) == (None, "http.timeout")


@pytest.mark.parametrize("most", [None, 1000])
async def test_an_answer_that_is_too_large_is_dropped(tmp_path: Path, most: int | None) -> None:
    async with serving(page=endless) as server, open_stage(tmp_path, outside=here()) as stage:
        request = {"url": url(server)} | ({} if most is None else {"max_bytes": most})
        refused = await stage.refused(asker(server.port), "http.fetch", request=request)
    assert refused.error_code == "http.too_large" and len(server.seen) == 1


async def test_what_is_compressed_unasked_is_never_unpacked(tmp_path: Path) -> None:
    bomb = reply(body=gzip.compress(b"\0" * (64 << 20)), content_encoding="gzip")
    async with serving(page=bomb) as server, open_stage(tmp_path, outside=here()) as stage:
        refused = await stage.refused(asker(server.port), "http.fetch", request={"url": url(server)}, retries=0)
    assert refused.error_code == "http.lost" and "compressed" in refused.message


async def test_a_head_has_no_body_whatever_length_it_tells(tmp_path: Path) -> None:
    async with serving(page=reply(body=b"x" * 1000)) as server, open_stage(tmp_path, outside=here()) as stage:
        answer = await stage.ask(asker(server.port), "http.fetch", request={"method": "HEAD", "url": url(server)})
    assert (answer["headers"]["content-length"], answer["body"]) == ("1000", "")


async def test_nobody_there_is_told_as_such(tmp_path: Path) -> None:
    names = Names(api_example_com=[["127.0.0.1"]])
    async with serving() as server:
        port = server.port
    async with open_stage(tmp_path, outside=names) as stage:
        asking = asker(port, hosts=(HOST, "unknown.example.com"))
        closed = await stage.refused(asking, "http.fetch", request={"url": f"http://{HOST}:{port}/"}, backoff=0)
        unknown = await stage.refused(
            asking, "http.fetch", request={"url": f"http://unknown.example.com:{port}/"}, retries=0
        )
        assert [(event.times, event.error_code) for event in stage.recorded(PluginFetched)] == [
            (3, "http.unreachable"),
            (1, "http.unreachable"),
        ]
    assert {closed.error_code, unknown.error_code} == {"http.unreachable"}


async def test_a_plugin_has_so_many_under_way_and_no_more(tmp_path: Path) -> None:
    async with serving(page=silent, quick=reply()) as server, open_stage(tmp_path, outside=here()) as stage:
        asking, slow = asker(server.port), {"url": url(server), "timeout": 1}
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(stage.refused(asking, "http.fetch", request=slow)) for _ in range(17)]
        codes = sorted(task.result().error_code for task in waiting)
        other = plugin("other", ("host:http", f"net:{HOST}:{server.port}", f"net:127.0.0.1:{server.port}"))
        assert (await stage.ask(other, "http.fetch", request={"url": url(server, "/quick")}))["status"] == 200
    assert codes == ["http.busy"] + ["http.timeout"] * 16


async def test_a_plugin_that_finds_no_room_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_CONCURRENT_TOTAL", 1)
    async with serving(page=silent) as server, open_stage(tmp_path, outside=here()) as stage:
        first = asyncio.create_task(stage.ask(asker(server.port), "http.fetch", request={"url": url(server)}))
        await asyncio.wait({first, asyncio.ensure_future(server.heard.wait())}, return_when="FIRST_COMPLETED")
        other = replace(asker(server.port), plugin=PluginName("other"))
        assert (await stage.refused(other, "http.fetch", request={"url": url(server)})).error_code == "http.busy"
        first.cancel()
        await asyncio.wait({first})
        del first
        gc.collect()  # what their tracebacks hold
        assert [one for one in gc.get_objects() if isinstance(one, service._ActiveFetches)] == []


async def test_a_plugin_that_goes_away_leaves_an_entry_and_no_connection(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def waiting(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await silent(seen, writer)
        left.set()

    async with asyncio.timeout(10), serving(page=waiting) as server, open_stage(tmp_path, outside=here()) as stage:
        task = asyncio.create_task(stage.ask(asker(server.port), "http.fetch", request={"url": url(server)}))
        await server.heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (event,) = stage.recorded(PluginFetched)
        await left.wait()
    assert (event.status, event.error_code) == (None, "http.ended")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"",
    ],
)
async def test_what_is_no_answer_of_http_is_told_as_such(tmp_path: Path, said: bytes) -> None:
    async def serve(seen: Seen, writer: asyncio.StreamWriter) -> None:
        del seen
        writer.write(said)

    async with serving(page=serve) as server, open_stage(tmp_path, outside=here()) as stage:
        refused = await stage.refused(asker(server.port), "http.fetch", request={"url": url(server)}, retries=0)
    assert refused.error_code in ("http.lost", "http.too_large")
