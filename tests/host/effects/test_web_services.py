"""A caged plugin asks a web service through a whole host, and the ledger tells what it did."""

from __future__ import annotations

from typing import Any

import pytest
from tests.capabilities.http.outside import reply, serving
from tests.host.conftest import Home
from tests.host.effects.test_undeclared_effects import entries, recorded, tool

from fixtures.packages import write_file
from paddock import Config, open_host
from paddock.core.errors import PluginError
from paddock_sdk import Host as SdkHost
from paddock_sdk import Plugin
from paddock_sdk.faults import PluginFault
from paddock_sdk.testing import FakeHost, PluginTester

PROGRAM = """
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r})

@plugin.tool
def look(url: str, host: Host):
    return {{"body": host.http.fetch(url).wait()["body"]}}

@plugin.tool
def picture(url: str, host: Host):
    return {{"size": len(host.http.fetch(url).wait()["body"])}}

@plugin.tool
def sneak(url: str, host: Host):
    return {{"status": host.http.fetch({{"method": "POST", "url": url}}).wait()["status"]}}

@plugin.tool
def tell(url: str, host: Host):
    request = {{"method": "POST", "url": url, "body": b"\\x00\\xff"}}
    return {{"status": host.http.fetch(request).wait()["status"]}}

plugin.run()
"""
UNASKED = """
@id("outside-calls-are-confirmed") @text("Nobody is asked here.")
permit (principal, action in Action::"anyCall", resource) when { resource.effects.contains(Effect::"external_call") };
"""
TOOLS = [
    tool("look", "read_only"),
    tool("picture", "read_only"),
    tool("sneak", "read_only"),
    tool("tell", "external_call"),
]


@pytest.mark.req("K-09", "an undeclared one cannot happen")
@pytest.mark.req("S-13", "audited")
async def test_a_caged_plugin_reads_the_web_and_changes_it_only_in_a_call_that_says_so(home: Home) -> None:
    pages = {
        "page": reply(body=b"hello", content_type="text/plain"),
        "image": reply(body=b"\x89PNG", content_type="image/png"),
    }
    async with serving(None, **pages) as server:
        at = f"http://127.0.0.1:{server.port}"
        granted = ["host:http", f"net:127.0.0.1:{server.port}"]
        home.install("web", program=PROGRAM, tools=TOOLS, capabilities=granted)
        write_file(home.path / "policies" / "unasked.cedar", UNASKED).chmod(0o600)
        async with open_host(Config(home=home.path, environ={})) as host:

            async def call(name: str, url: str) -> Any:
                return await host.call(f"web.{name}", {"url": url})

            assert (await call("look", f"{at}/page?secret=1"))["body"] == "hello"
            assert (await call("picture", f"{at}/image"))["size"] == 4
            assert (await call("tell", f"{at}/page"))["status"] == 200
            with pytest.raises(PluginError, match="does not declare this effect") as undeclared:
                await call("sneak", f"{at}/page")
            with pytest.raises(PluginError, match="was not granted") as closed:
                await call("look", "http://127.0.0.1:1/")
            with pytest.raises(PluginError, match="the url has a name or password in it") as named:
                await call("look", f"http://u:p@127.0.0.1:{server.port}/page")
    assert [refused.value.hint for refused in (undeclared, closed, named)] == [
        "web passes on: declare external_call among the effects of what was called",
        "web passes on: declare 'net:127.0.0.1:1' in its manifest, and grant it",
        "web passes on: send them in a header, for instance Authorization, from a secret",
    ]
    assert [(seen.method, seen.body) for seen in server.seen] == [("GET", b""), ("GET", b""), ("POST", b"\0\xff")]
    assert [seen.headers.get("paddock-fence") for seen in server.seen] == [None, None, "1"]
    assert "idempotency-key" in server.seen[2].headers
    calls = {one.data["request_id"]: one.call for one in entries(home, "call.ended")}
    asked_for = entries(home, "plugin.fetched", "plugin.capability_denied")
    assert [one.call for one in asked_for] == [calls[one.data["request_id"]] for one in asked_for]
    assert [seen.headers["paddock-call"] for seen in server.seen] == [one.call for one in asked_for[:3]]
    fetched = recorded(home, "plugin.fetched")
    assert [(one["method"], one["status"], one["bytes_down"]) for one in fetched] == [
        ("GET", 200, 5),
        ("GET", 200, 4),
        ("POST", 200, 5),
    ]
    assert "secret" not in str(fetched)
    denied = recorded(home, "plugin.capability_denied")
    assert [(one["method"], one["capability"]) for one in denied] == [
        ("http.send", "host:http"),
        ("http.fetch", "net:127.0.0.1:1"),
    ]
    asked = {one["method"]: one["metrics"].get("asked") for one in recorded(home, "call.ended") if one["metrics"]}
    assert asked["tell"] == {"http.send": 1} and asked["picture"] == {"http.fetch": 1}


def test_the_test_kit_has_pages_and_refuses_what_the_call_does_not_declare() -> None:
    plugin = Plugin("web", "1.0.0")

    @plugin.tool
    def look(url: str, host: SdkHost, method: str = "GET") -> dict[str, Any]:
        return host.http.fetch({"url": url, "method": method}).wait()

    fake = FakeHost(["host:http"])
    fake.pages |= {"https://a.example": (200, "hello"), "https://b.example": (200, b"\0")}
    reading = PluginTester(plugin, fake, effects={"look": ["read_only"]})
    assert reading.call("look", {"url": "https://a.example"})["body"] == "hello"
    assert fake.asked[-1] == ("http.fetch", {"request": {"url": "https://a.example", "method": "GET"}})
    with pytest.raises(PluginFault, match="does not declare this effect"):
        reading.call("look", {"url": "https://a.example", "method": "post"})
    with pytest.raises(PluginFault, match="cannot be reached"):
        reading.call("look", {"url": "https://c.example"})
    sending = PluginTester(plugin, fake, effects={"look": ["external_send"]})
    assert sending.call("look", {"url": "https://a.example", "method": "post"})["status"] == 200
