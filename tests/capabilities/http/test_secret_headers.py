"""A secret goes out in a header, and the plugin never sees it."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from tests.capabilities.http.outside import HOST, Names, asker, authority, here, reply, serving, url
from tests.capabilities.stage import open_stage, wire_code
from tests.capabilities.test_secrets import keep

from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext, Principal
from paddock.core.events.capabilities import PluginCapabilityDenied, PluginFetched
from paddock.core.events.secrets import SecretUsed
from paddock.core.ids import PrincipalId, RequestId
from paddock.manifest.capability import parse_capability
from paddock.manifest.secret_use import parse_recipient

VALUE = "s3cr3t-t0ken"
ODD = 'a+b/c="<t0ken>%&'
BEARER = {"Authorization": {"secret": "api_token", "prefix": "Bearer "}}
ANY_HEADERS = (
    *("content_type", "content_language", "content_disposition", "content_location", "content_range", "location"),
    *("www_authenticate", "authorization", "authentication_info", "etag", "link", "server", "date", "vary", "via"),
    *("allow", "retry_after", "age", "warning", "last_modified", "expires", "cache_control", "refresh", "p"),
    *("x_request_id", "x_echo", "x_api_key", "access_control_allow_origin"),
)


SPELT: list[Callable[[str], str]] = [
    quote,
    lambda value: quote(value, safe=""),
    lambda value: re.sub("%..", lambda escape: escape[0].lower(), quote(value, safe="")),
    lambda value: json.dumps(value)[1:-1],
    lambda value: json.dumps(value)[1:-1].replace("/", "\\/"),
    html.escape,
    lambda value: value.encode().hex(),
    *(
        lambda value, before=before: base64.b64encode((before + value + " and so on").encode()).decode()
        for before in ("", "u:", "x")
    ),
    lambda value: base64.urlsafe_b64encode(f"user:{value}".encode()).decode(),
]


def declaring(asking: CapabilityRequest, *names: str) -> CapabilityRequest:
    """The same plugin with these secrets in its manifest, and the grant for them."""
    manifest = replace(asking.manifest, secrets=names)
    return replace(asking, manifest=manifest, granted=(*asking.granted, parse_capability("host:secrets")))


async def test_the_server_gets_the_secret_and_the_plugin_gets_it_neither_before_nor_back(tmp_path: Path) -> None:
    theirs, ours = authority(tmp_path, HOST)
    page = reply(body=b"you said Bearer " + VALUE.encode(), content_type="text/plain", x_echo=VALUE)
    async with (
        serving(theirs, page=page) as server,
        open_stage(tmp_path, outside=here(), tls=lambda: ours) as stage,
    ):
        keep(stage, tmp_path, "api_token", VALUE + "\n")
        asking = declaring(asker(server.port, method_counts={}), "api_token")
        request = {"url": url(server, scheme="https"), "headers": BEARER}
        answer = await stage.ask(asking, "http.fetch", request=request)
        (used,), events = stage.recorded(SecretUsed), stage.recorded(PluginFetched)
    assert server.seen[0].headers["authorization"] == f"Bearer {VALUE}"
    assert answer["body"] == "you said Bearer [secret]" and answer["headers"]["x-echo"] == "[secret]"
    assert VALUE not in str((answer, events, used)) and used.secret == "api_token"
    assert asking.method_counts == {"http.fetch": 1, "secrets.get": 1}


async def test_a_secret_is_blanked_in_whichever_header_it_comes_back(tmp_path: Path) -> None:
    theirs, ours = authority(tmp_path, HOST)
    told = dict.fromkeys(ANY_HEADERS, f'a="{VALUE}"')
    async with (
        serving(theirs, page=reply(401, body=b"no", **told)) as server,
        open_stage(tmp_path, outside=here(), tls=lambda: ours) as stage,
    ):
        keep(stage, tmp_path, "api_token", VALUE)
        asking = declaring(asker(server.port), "api_token")
        answer = await stage.ask(asking, "http.fetch", request={"url": url(server, scheme="https"), "headers": BEARER})
    given = {name: text for name, text in answer["headers"].items() if name != "content-length"}
    assert given == {name.replace("_", "-"): 'a="[secret]"' for name in ANY_HEADERS}


@pytest.mark.parametrize("spelt", SPELT)
async def test_a_secret_that_comes_back_in_another_spelling_is_blanked_in_headers_body_and_url(
    tmp_path: Path, spelt: Callable[[str], str]
) -> None:
    theirs, ours = authority(tmp_path, HOST)
    told, other = spelt(ODD), spelt("nothing-secret")
    page = reply(body=f"<p>{told} {other}</p>".encode(), content_type="text/html", x_echo=told)
    async with (
        serving(theirs, page=page) as server,
        open_stage(tmp_path, outside=here(), tls=lambda: ours) as stage,
    ):
        server.pages["/first"] = [reply(302, location=url(server, f"/page?t={quote(ODD, safe='')}", scheme="https"))]
        keep(stage, tmp_path, "api_token", ODD)
        asking = declaring(asker(server.port), "api_token")
        request = {"url": url(server, "/first", scheme="https"), "headers": BEARER}
        answer = await stage.ask(asking, "http.fetch", request=request)
    assert [seen.path.partition("?")[0] for seen in server.seen] == ["/first", "/page"]
    assert told not in answer["body"] and told not in answer["headers"]["x-echo"] and other in answer["body"]
    assert answer["url"] == url(server, "/page?t=[secret]", scheme="https")


async def test_a_secret_does_not_go_along_to_another_host(tmp_path: Path) -> None:
    names = Names(api_example_com=[["127.0.0.1"]], other_example_com=[["127.0.0.1"]])
    theirs, ours = authority(tmp_path, HOST, "other.example.com")
    async with (
        serving(theirs, there=reply()) as other,
        serving(theirs) as server,
        open_stage(tmp_path, outside=names, tls=lambda: ours) as stage,
    ):
        there = url(other, "/there", host="other.example.com", scheme="https")
        server.pages["/page"] = [reply(302, location=there)]
        keep(stage, tmp_path, "api_token", VALUE)
        asking = declaring(asker(server.port, other.port, hosts=(HOST, "other.example.com")), "api_token")
        await stage.ask(asking, "http.fetch", request={"url": url(server, scheme="https"), "headers": BEARER})
    assert "authorization" in server.seen[0].headers
    assert len(other.seen) == 1 and VALUE not in str(other.seen)


async def test_a_secret_that_is_not_declared_not_granted_or_not_set_is_not_sent(tmp_path: Path) -> None:
    theirs, ours = authority(tmp_path, HOST)
    async with serving(theirs, page=reply()) as server, open_stage(tmp_path, outside=here(), tls=lambda: ours) as stage:
        request = {"url": url(server, scheme="https"), "headers": BEARER}
        unset = await stage.refused(declaring(asker(server.port), "api_token"), "http.fetch", request=request)
        keep(stage, tmp_path, "api_token", VALUE)
        undeclared = await stage.refused(declaring(asker(server.port), "other"), "http.fetch", request=request)
        ungranted = await stage.refused(asker(server.port), "http.fetch", request=request)
        elsewhere = {**request, "url": "https://evil.example.com/"}
        outside = await stage.refused(declaring(asker(server.port), "api_token"), "http.fetch", request=elsewhere)
        assert stage.recorded(SecretUsed) == []
    codes = [one.error_code for one in (unset, undeclared, ungranted, outside)]
    assert codes == ["http.no_secret", "capability_denied", "capability_denied", "http.not_allowed"]
    assert server.seen == []


async def test_a_secret_that_is_bound_to_hosts_goes_there_in_a_header_and_is_had_in_no_other_way(
    tmp_path: Path,
) -> None:
    names = Names(api_example_com=[["127.0.0.1"]], other_example_com=[["127.0.0.1"]])
    theirs, ours = authority(tmp_path, HOST, "other.example.com")
    async with (
        serving(theirs, page=reply()) as server,
        open_stage(tmp_path, outside=names, tls=lambda: ours) as stage,
    ):
        keep(stage, tmp_path, "api_token", VALUE)
        asking = declaring(asker(server.port, hosts=(HOST, "other.example.com")), "api_token")
        bound = {
            "api_token": (parse_recipient(f"{HOST}:{server.port}"), parse_recipient(f"X-Api-Key@{HOST}:{server.port}"))
        }
        asking = replace(asking, manifest=replace(asking.manifest, secret_hosts=bound))
        there = {"url": url(server, scheme="https"), "headers": BEARER}
        assert (await stage.ask(asking, "http.fetch", request=there))["status"] == 200
        also = {"X-Api-Key": {"secret": "api_token"}}
        assert (await stage.ask(asking, "http.fetch", request=there | {"headers": also}))["status"] == 200
        elsewhere = there | {"url": url(server, host="other.example.com", scheme="https")}
        kept = {"x-amz-meta-note": {"secret": "api_token"}}  # which a service would tell whoever asks for the file
        refused = [
            await stage.refused(asking, "http.fetch", request=there | {"headers": kept}),
            await stage.refused(asking, "http.fetch", request=there | {"headers": BEARER | kept}),
            await stage.refused(asking, "http.fetch", request=elsewhere),
            await stage.refused(asking, "secrets.get", name="api_token"),
            await stage.refused(asking, "secrets.get", name="api_token", to=HOST),
        ]
        denied = [event.method for event in stage.recorded(PluginCapabilityDenied)]
        assert len(stage.recorded(SecretUsed)) == 1
    assert {one.error_code for one in refused} == {"secret.bound"}
    assert set(denied) == {"http.fetch", "secrets.get"} and len(server.seen) == 2


async def test_a_secret_that_is_bound_is_blanked_in_answers_to_requests_without_it_too(tmp_path: Path) -> None:
    theirs, ours = authority(tmp_path, HOST)
    page = reply(body=f"{VALUE} of-ann-alone".encode(), content_type="text/plain")
    async with (
        serving(theirs, page=page) as server,
        open_stage(tmp_path, outside=here(), tls=lambda: ours) as stage,
    ):
        keep(stage, tmp_path, "api_token", VALUE)
        keep(stage, tmp_path, "api_token", "of-ann-alone", "user:ann")
        by_ann = CallContext(Principal(PrincipalId("user:ann")), RequestId("req_1"))
        asking = replace(declaring(asker(server.port), "api_token"), call=by_ann)
        bound = {"api_token": (parse_recipient(f"{HOST}:{server.port}"),)}
        asking = replace(asking, manifest=replace(asking.manifest, secret_hosts=bound))
        answer = await stage.ask(asking, "http.fetch", request={"url": url(server, scheme="https")})
        assert stage.recorded(SecretUsed) == []
    assert answer["body"] == "[secret] [secret]"


async def test_a_secret_in_several_headers_is_fetched_once_and_all_of_them_are_bounded_together(tmp_path: Path) -> None:
    theirs, ours = authority(tmp_path, HOST)
    async with serving(theirs, page=reply()) as server, open_stage(tmp_path, outside=here(), tls=lambda: ours) as stage:
        keep(stage, tmp_path, "api_token", VALUE)
        keep(stage, tmp_path, "long", "x" * 1_000)
        asking = declaring(asker(server.port, method_counts={}), "api_token", "long")
        request = {"url": url(server, scheme="https"), "headers": {"X-A": {"secret": "api_token"}, **BEARER}}
        await stage.ask(asking, "http.fetch", request=request)
        tally = dict(asking.method_counts or {})
        many = {f"X-{number}": {"secret": "long"} for number in range(40)}
        refused = await stage.refused(asking, "http.fetch", request=request | {"headers": many})
    assert tally["secrets.get"] == 1
    assert wire_code(refused) == -32602 and "x" * 1_000 not in str(refused) and len(server.seen) == 1
    assert (server.seen[0].headers["x-a"], server.seen[0].headers["authorization"]) == (VALUE, f"Bearer {VALUE}")


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("http://api.example.com/", BEARER),
        ("https://api.example.com/", {"User-Agent": {"secret": "api_token"}}),
        ("https://api.example.com/", {"Host": {"secret": "api_token"}}),
        ("https://api.example.com/", {"X": {"secret": ""}}),
        ("https://api.example.com/", {"X": {"value": "y"}}),
        ("https://api.example.com/", {f"X-{number}": {"secret": "api_token"} for number in range(101)}),
        ("https://api.example.com/", BEARER | {"Range": "bytes=0-3"}),
        ("https://api.example.com/", BEARER | {"If-Range": '"x"'}),
        ("https://api.example.com/", {"X": {"secret": "api_token", "prefix": "a\r\nY: "}}),
    ],
)
async def test_a_secret_stands_only_where_it_is_safe(tmp_path: Path, address: str, headers: dict[str, Any]) -> None:
    names = here()
    async with open_stage(tmp_path, outside=names) as stage:
        asking = declaring(asker(80, 443), "api_token")
        refused = await stage.refused(asking, "http.fetch", request={"url": address, "headers": headers})
    assert wire_code(refused) == -32602 and names.asked == []
