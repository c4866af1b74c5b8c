"""Redirects: each place is checked anew, and what was meant for one host is not told to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.capabilities.http.outside import HOST, Names, asker, here, reply, serving, url
from tests.capabilities.stage import open_stage

from paddock.core.events.capabilities import PluginCapabilityDenied, PluginFetched

SENDING = frozenset({"external_send"})
SECRETS = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/plain"}


async def test_credentials_stay_with_the_host_that_they_were_meant_for(tmp_path: Path) -> None:
    names = Names(api_example_com=[["127.0.0.1"]], other_example_com=[["127.0.0.1"]])
    async with serving(there=reply(body=b"there")) as other, serving() as server:
        server.pages["/start"] = [reply(302, location="/near")]
        server.pages["/near"] = [reply(307, location=url(other, "/there", host="other.example.com"))]
        async with open_stage(tmp_path, outside=names) as stage:
            asking = asker(server.port, other.port, hosts=(HOST, "other.example.com"))
            answer = await stage.ask(asking, "http.fetch", request={"url": url(server, "/start"), "headers": SECRETS})
            hops = [(event.host, event.status) for event in stage.recorded(PluginFetched)]
    assert (answer["body"], answer["url"]) == ("there", url(other, "/there", host="other.example.com"))
    assert hops == [(HOST, 302), (HOST, 307), ("other.example.com", 200)]
    assert answer["attempts"] == 1, "nothing was tried again"
    assert all(seen.headers["x-api-key"] == "k" for seen in server.seen) and len(server.seen) == 2
    (seen,) = other.seen
    assert seen.headers["accept"] == "text/plain"
    assert not {"authorization", "cookie", "x-api-key"} & seen.headers.keys()


@pytest.mark.req("S-13", "only allowed hosts")
@pytest.mark.req("B-23", "SSRF")
@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://127.0.0.1:{other}/there", "http.not_allowed"),
        ("http://inside.example.com:{own}/there", "http.not_allowed"),
        ("http://169.254.169.254/latest/meta-data/", "http.not_allowed"),
        ("http://2130706433:{other}/there", "http.odd_address"),
        ("http://[::ffff:127.0.0.1]:{other}/there", "http.odd_address"),
        ("http://user:word@api.example.com/", "http.bad_redirect"),
        ("file:///etc/passwd", "http.bad_redirect"),
        ("http://[", "http.bad_redirect"),
    ],
)
async def test_a_redirect_to_where_nobody_may_go_is_not_followed(tmp_path: Path, location: str, code: str) -> None:
    names = Names(api_example_com=[["127.0.0.1"]], inside_example_com=[["10.0.0.1"]])
    async with serving(there=reply(body=b"inside")) as other, serving() as server:
        server.pages["/page"] = [reply(302, location=location.format(other=other.port, own=server.port))]
        async with open_stage(tmp_path, outside=names) as stage:
            asking = asker(server.port, hosts=(HOST, "inside.example.com"))
            refused = await stage.refused(asking, "http.fetch", request={"url": url(server)})
            denials = stage.recorded(PluginCapabilityDenied)
    assert refused.error_code == code and other.seen == []
    assert names.dialled == ["127.0.0.1"]
    assert len(denials) == (0 if code == "http.bad_redirect" else 1)


async def test_a_circle_of_redirects_ends(tmp_path: Path) -> None:
    async with serving(page=reply(302, location="/page")) as server, open_stage(tmp_path, outside=here()) as stage:
        refused = await stage.refused(asker(server.port), "http.fetch", request={"url": url(server)})
    assert refused.error_code == "http.too_many_redirects" and len(server.seen) == 6


async def test_who_does_not_want_redirects_gets_them_as_answers(tmp_path: Path) -> None:
    async with serving(page=reply(302, location="/other")) as server, open_stage(tmp_path, outside=here()) as stage:
        answer = await stage.ask(asker(server.port), "http.fetch", request={"url": url(server), "redirects": False})
    assert (answer["status"], answer["headers"]["location"]) == (302, "/other")


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(303, "POST", "GET"), (302, "POST", "GET"), (307, "POST", "POST"), (308, "PUT", "PUT")],
)
async def test_what_was_sent_is_sent_again_only_where_the_answer_says_so(
    tmp_path: Path, status: int, method: str, then: str
) -> None:
    pages = {"page": reply(status, location="/then"), "then": reply()}
    async with serving(None, **pages) as server, open_stage(tmp_path, outside=here()) as stage:
        asking = asker(server.port, effects=SENDING)
        await stage.ask(asking, "http.fetch", request={"method": method, "url": url(server), "body": "x"})
    body = b"" if then == "GET" else b"x"
    assert [(seen.method, seen.body) for seen in server.seen] == [(method, b"x"), (then, body)]


async def test_what_changes_something_is_never_repeated_at_another_place(tmp_path: Path) -> None:
    async with serving(there=reply()) as other, serving() as server:
        server.pages["/page"] = [reply(307, location=url(other, "/there"))]
        async with open_stage(tmp_path, outside=here()) as stage:
            asking = asker(server.port, other.port, effects=SENDING)
            answer = await stage.ask(asking, "http.fetch", request={"method": "POST", "url": url(server), "body": "x"})
    assert answer["status"] == 307 and other.seen == []
