"""A plugin asks web services through the host: real servers on loopback, and names that lead to them."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.capabilities.http.outside import HOST, Names, asker, authority, here, reply, serving, url
from tests.capabilities.stage import open_stage, plugin, wire_code

from paddock.core.call import CallContext, Principal
from paddock.core.events.capabilities import PluginCapabilityDenied, PluginFetched
from paddock.core.ids import CallId, PrincipalId, RequestId
from paddock.manifest.model import PluginKind

READING, SENDING = frozenset({"read_only"}), frozenset({"external_send"})


@pytest.mark.req("S-09", "http")
async def test_a_page_is_fetched_from_the_address_that_was_checked_and_recorded_without_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    names = here()
    page = reply(body=b"<p>hi</p>", content_type="text/html", set_cookie="s=1", x_rest="7")
    async with serving(page=page) as server, open_stage(tmp_path, outside=names) as stage:
        asking = asker(server.port, effects=READING, method_counts={})
        answer = await stage.ask(asking, "http.fetch", request={"url": url(server, "/page?q=private")})
        (event,) = stage.recorded(PluginFetched)
    assert (answer["status"], answer["body"], answer["attempts"]) == (200, "<p>hi</p>", 1)
    assert answer["headers"] == {"content-length": "9", "content-type": "text/html", "x-rest": "7"}
    (seen,) = server.seen
    assert seen.headers["host"] == f"{HOST}:{server.port}" and seen.headers["accept-encoding"] == "identity"
    assert names.asked == [HOST] and names.dialled == ["127.0.0.1"]
    assert (event.method, event.host, event.port, event.status) == ("GET", HOST, server.port, 200)
    assert (event.bytes_down, event.times, event.error_code) == (9, 1, None)
    assert "private" not in str(event)
    assert asking.method_counts == {"http.fetch": 1}


@pytest.mark.req("S-13", "only allowed hosts")
async def test_what_was_not_granted_is_refused_and_recorded_and_nobody_is_asked(tmp_path: Path) -> None:
    names = here()
    async with serving(page=reply()) as server, open_stage(tmp_path, outside=names) as stage:
        refused = [
            await stage.refused(plugin("digest", ("host:cache",)), "http.fetch", request={"url": url(server)}),
            await stage.refused(asker(server.port), "http.fetch", request={"url": "https://other.example.com/"}),
            await stage.refused(asker(server.port), "http.fetch", request={"url": "http://0x7f.1/"}),
        ]
        denied = [event.capability for event in stage.recorded(PluginCapabilityDenied)]
    assert [error.error_code for error in refused] == ["capability_denied", "http.not_allowed", "http.odd_address"]
    assert denied == ["host:http", "net:other.example.com:443", "net:0x7f.1:80"]
    assert [wire_code(error) for error in refused] == [-32001, -32001, -32001]
    assert names.asked == [] and server.seen == []


@pytest.mark.req("S-13", "never the inside of the network")
@pytest.mark.req("B-23", "SSRF")
async def test_a_name_that_leads_inside_is_refused_and_no_connection_is_made(tmp_path: Path) -> None:
    names = Names(api_example_com=[["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"]])
    async with serving(page=reply()) as server, open_stage(tmp_path, outside=names) as stage:
        anybody = plugin("digest", ("host:http",))
        refused = await stage.refused(anybody, "http.fetch", request={"url": url(server)})
        direct = await stage.refused(anybody, "http.fetch", request={"url": url(server, host="127.0.0.1")})
        local = await stage.refused(anybody, "http.fetch", request={"url": url(server, host="localhost")})
        assert len(stage.recorded(PluginCapabilityDenied)) == 3 and not stage.recorded(PluginFetched)
    assert {one.error_code for one in (refused, direct, local)} == {"http.not_allowed"}
    assert {one.details["reason"] for one in (refused, direct, local)} == {"net.private_address"}
    assert names.dialled == [] and server.seen == []


@pytest.mark.req("S-13", "never the inside of the network")
async def test_a_name_that_leads_elsewhere_the_second_time_is_looked_up_once_for_each_request(tmp_path: Path) -> None:
    names = Names(api_example_com=[["127.0.0.1"], ["10.0.0.1"]])
    async with serving(page=reply(body=b"ok")) as server, open_stage(tmp_path, outside=names) as stage:
        asking = asker(server.port)
        assert (await stage.ask(asking, "http.fetch", request={"url": url(server)}))["status"] == 200
        refused = await stage.refused(asking, "http.fetch", request={"url": url(server)})
    assert refused.details["reason"] == "net.private_address"
    assert names.asked == [HOST, HOST] and names.dialled == ["127.0.0.1"]


async def test_a_read_call_cannot_change_anything_outside_and_the_attempt_is_recorded(tmp_path: Path) -> None:
    async with serving(page=reply()) as server, open_stage(tmp_path, outside=here()) as stage:
        for method in ("POST", "put", "PATCH", "DELETE", "TRACE", 7):
            request = {"method": method, "url": url(server)}
            refused = await stage.refused(asker(server.port, effects=READING), "http.fetch", request=request)
            assert refused.error_code == "capability_denied", method
        tool = asker(server.port, kind=PluginKind.TOOL)
        assert (await stage.refused(tool, "http.fetch", request=request)).error_code == "capability_denied"
        assert {event.method for event in stage.recorded(PluginCapabilityDenied)} == {"http.send"}
        assert server.seen == []
        for method in ("GET", "HEAD", "OPTIONS"):
            await stage.ask(tool, "http.fetch", request={"method": method, "url": url(server)})


@pytest.mark.parametrize("declared", ["external_call", "external_send", "webhook_emit", "final_write", "unknown"])
async def test_a_call_that_declares_an_effect_outside_sends(tmp_path: Path, declared: str) -> None:
    async with serving(page=reply(201)) as server, open_stage(tmp_path, outside=here()) as stage:
        asking = asker(server.port, effects=frozenset({declared}), method_counts={})
        answer = await stage.ask(asking, "http.fetch", request={"method": "POST", "url": url(server), "json": {"a": 1}})
    assert answer["status"] == 201 and asking.method_counts == {"http.send": 1}
    (seen,) = server.seen
    assert (seen.method, seen.body, seen.headers["content-type"]) == ("POST", b'{"a":1}', "application/json")


async def test_nothing_is_changed_on_the_web_for_no_call(tmp_path: Path) -> None:
    async with serving(page=reply(200)) as server, open_stage(tmp_path, outside=here()) as stage:
        asking = replace(asker(server.port), process_effects=SENDING)
        posted = {"method": "POST", "url": url(server), "body": "x"}
        assert (await stage.refused(asking, "http.fetch", request=posted)).error_code == "http.no_call"
        assert (await stage.ask(asking, "http.fetch", request={"url": url(server)}))["status"] == 200
    assert [seen.method for seen in server.seen] == ["GET"]


async def test_two_callables_under_one_key_send_two_keys(tmp_path: Path) -> None:
    run = CallContext(Principal(PrincipalId("ann")), RequestId("r"), idempotency_key="order-1", fence=1)
    async with serving(page=reply(200)) as server, open_stage(tmp_path, outside=here()) as stage:
        for name in ("reserve", "confirm", "confirm"):
            asking = replace(asker(server.port, effects=SENDING, callable=name), call=run)
            await stage.ask(asking, "http.fetch", request={"method": "POST", "url": url(server), "body": "x"})
    reserved, confirmed, again = (seen.headers["idempotency-key"] for seen in server.seen)
    assert reserved != confirmed == again


async def test_a_request_carries_the_call_its_fence_and_a_key_that_is_the_same_in_each_run(tmp_path: Path) -> None:
    def run(fence: int) -> CallContext:
        return CallContext(
            Principal(PrincipalId("ann")), RequestId("private-request"), idempotency_key="private-key", fence=fence
        )

    async with serving(page=reply(200)) as server, open_stage(tmp_path, outside=here()) as stage:
        for fence, body in ((1, "a"), (2, "a"), (2, "b")):
            asking = replace(asker(server.port, effects=SENDING, call_id=CallId("call-7")), call=run(fence))
            await stage.ask(asking, "http.fetch", request={"method": "POST", "url": url(server), "body": body})
    first, again, other = (seen.headers for seen in server.seen)
    assert (first["paddock-call"], first["paddock-fence"], again["paddock-fence"]) == ("call-7", "1", "2")
    assert first["idempotency-key"] == again["idempotency-key"] != other["idempotency-key"]
    assert "private" not in str(server.seen)


async def test_the_name_in_the_certificate_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    names = Names(api_example_com=[["127.0.0.1"]], other_example_com=[["127.0.0.1"]])
    theirs, ours = authority(tmp_path, HOST)
    async with (
        serving(theirs, page=reply(body=b"safe")) as server,
        open_stage(tmp_path, outside=names, tls=lambda: ours) as stage,
    ):
        asking = asker(server.port, hosts=(HOST, "other.example.com"))
        answer = await stage.ask(asking, "http.fetch", request={"url": url(server, scheme="https")})
        other = {"url": url(server, host="other.example.com", scheme="https")}
        refused = await stage.refused(asking, "http.fetch", request=other)
    assert answer["body"] == "safe"
    assert refused.error_code == "http.untrusted" and len(server.seen) == 1


async def test_an_authority_that_nobody_trusts_is_not_trusted(tmp_path: Path) -> None:
    theirs, _ = authority(tmp_path, HOST)
    async with serving(theirs, page=reply()) as server, open_stage(tmp_path, outside=here()) as stage:
        asked = {"url": url(server, scheme="https")}
        refused = await stage.refused(asker(server.port), "http.fetch", request=asked)
    assert refused.error_code == "http.untrusted" and server.seen == []


async def test_a_server_that_speaks_no_tls_is_told_in_words(tmp_path: Path) -> None:
    async def in_the_clear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(in_the_clear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_stage(tmp_path, outside=here()) as stage:
        asked = {"url": f"https://{HOST}:{port}/"}
        refused = await stage.refused(asker(port), "http.fetch", request=asked, retries=0)
    assert refused.error_code == "http.lost"
    assert refused.message == f"{HOST}:{port} cannot be reached over TLS: it answers without"


async def test_what_is_no_text_comes_as_base64(tmp_path: Path) -> None:
    pages = {
        "image": reply(body=b"\x89PNG", content_type="image/png"),
        "latin": reply(body="größe".encode("cp1252"), content_type="text/plain; charset=ISO-8859-1"),
        "broken": reply(body=b"\xff\xfe", content_type="text/plain"),
        "odd": reply(body=b"abc", content_type="text/plain; charset=rot13"),
    }
    async with serving(None, **pages) as server, open_stage(tmp_path, outside=here()) as stage:
        answers = {
            name: await stage.ask(asker(server.port), "http.fetch", request={"url": url(server, f"/{name}")})
            for name in pages
        }
    assert answers["latin"]["body"] == "größe"
    assert base64.b64decode(answers["image"]["base64"]) == b"\x89PNG"
    assert all("body" not in answers[name] for name in ("image", "broken", "odd"))


@pytest.mark.parametrize(
    "request_",
    [
        {}, {"url": 3}, {"url": "https://a.example", "method": "BREW"}, {"url": "https://a.example", "colour": 1},
        {"url": "https://a.example", "body": "x"}, {"url": "https://a.example", "headers": {"Host": "b.example"}},
        {"url": "https://a.example", "headers": {"X": "a\r\nY: b"}}, {"url": "https://a.example", "headers": ["X"]},
        {"url": "https://a.example", "headers": {"Content-Length": "0"}},
        {"url": "https://a.example", "headers": {"Proxy-Authorization": "x"}},
        {"url": "https://a.example", "headers": {"Paddock-Fence": "99"}},
        {"url": "https://a.example", "headers": {"X-HTTP-Method-Override": "DELETE"}},
        {"url": "https://a.example", "headers": {"X_HTTP_Method_Override": "DELETE"}},
        {"url": "https://a.example", "headers": {"Paddock_Fence": "999"}},
        {"url": "https://a.example", "method": "POST", "body": "x", "json": {}},
        {"url": "https://a.example", "method": "POST", "base64": "?"},
        {"url": "https://a.example", "method": "POST", "body": "x" * (2 << 20) + "x"},
        {"url": "https://a.example", "timeout": 1e9}, {"url": "https://a.example", "redirects": 1},
    ],
)  # fmt: skip
async def test_a_wrong_request_is_told_before_anything_is_sent(tmp_path: Path, request_: dict[str, object]) -> None:
    names = here()
    async with open_stage(tmp_path, outside=names) as stage:
        asking = plugin("digest", ("host:http",))
        assert wire_code(await stage.refused(asking, "http.fetch", request=request_)) == -32602
    assert names.asked == []
