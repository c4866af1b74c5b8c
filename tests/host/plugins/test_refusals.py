"""What the host refuses a plugin stands in the plugin's own log."""

from __future__ import annotations

import pytest
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.errors import Failed, Invalid, PluginError
from paddock.core.events.capabilities import PluginCapabilityDenied, PluginDenialFlood, PluginNetDenied
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginFailed, PluginStorageDenied
from paddock.host.plugins.logs.plugin_logs import describe_denial

CURIOUS = """
from paddock_sdk import Plugin
plugin = Plugin({name!r}, {version!r})
@plugin.tool
def say(params, context):
    plugin.request("paddock.cache.get", {{"key": "secret"}})
plugin.run()
"""
STRANGER = "import sys; sys.stdin.readline(); print('[]', flush=True); sys.stdin.readline()  # {name} {version}"


def net(**changed: object) -> PluginNetDenied:
    facts = {"name": "x", "cage_id": "c", "host": "example.org", "address": None, "port": 443, "times": 1}
    return PluginNetDenied(**{**facts, "reason": "net.not_granted", **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (net(), "connect to example.org:443 (not granted)"),
        (net(port=None, times=7), "connect to example.org (not granted, 7 times more)"),
        (net(host="", address="10.0.0.1"), "connect to 10.0.0.1:443 (not granted)"),
        (
            PluginCapabilityDenied(name="x", method="cache.get", capability="cache", request_id=None),
            "cache.get (not granted: cache)",
        ),
        (
            PluginCapabilityDenied(name="x", method="cache.get", capability="", request_id=None, policies=("a", "b")),
            "cache.get (forbidden: a, b)",
        ),
        (PluginStorageDenied(name="x", sql="SELECT ?"), "a statement about what is not its own: SELECT ?"),
        (PluginDenialFlood(name="x", limit_per_second=20), "more than 20 things within a second; the rest is not told"),
    ],
)
def test_each_refusal_is_said_in_words(event: Event, words: str) -> None:
    assert describe_denial(event) == ("x", words)


def test_anything_else_that_happens_is_no_refusal() -> None:
    assert describe_denial(PluginFailed(name="x", total_failures=5)) is None


async def test_a_plugin_that_asks_for_what_it_was_not_granted_finds_that_in_its_log(home: Home) -> None:
    home.install("curious", program=CURIOUS)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        with pytest.raises(PluginError):
            await patiently(host.call("curious.say", {"text": "hi"}))
        lines = [entry["line"] for entry in await patiently(host.plugins.logs.read_last("curious"))]
    assert [line for line in lines if line.startswith("[paddock] refused: cache.get (not granted: ")]


async def test_a_plugin_that_cannot_run_says_so_before_anybody_mends_parameters(home: Home) -> None:
    home.install("stranger", program=STRANGER)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        with pytest.raises(Invalid):
            await host.call("stranger.say", {"text": 3})  # nobody knows yet
        for params in ({"text": "hi"}, {"text": 3}):
            with pytest.raises(Failed) as refused:
                await patiently(host.call("stranger.say", params))
            assert not refused.value.retryable
