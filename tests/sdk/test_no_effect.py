"""What a plugin's error says about effects, as it stands on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk import Host, InvalidParams, NoEffect, NotApplicable, Plugin, PluginFault
from paddock_sdk.testing import FakeHost, PluginTester


class OwnKind(NoEffect):
    """A kind of an author's own."""

    code = -32050


RAISED: dict[str, tuple[Exception, tuple[int, Any]]] = {
    "nothing": (NoEffect("the other side is not there"), (-32000, {"no_effect": True})),
    "data": (NoEffect("no", {"tried": 1}), (-32000, {"tried": 1, "no_effect": True})),
    "no object": (NoEffect("no", ["a"]), (-32000, {"data": ["a"], "no_effect": True})),
    "no JSON": (NoEffect("no", {"set": {1}}), (-32000, {"no_effect": True})),
    "own kind": (OwnKind("no"), (-32050, {"no_effect": True})),
    "wrong": (InvalidParams("no"), (-32602, {"no_effect": True})),
    "out of place": (NotApplicable("no"), (-32006, {"no_effect": True})),
    "any fault": (PluginFault("no", {"a": 1}), (-32000, {"a": 1})),
    "a mistake": (KeyError("no"), (-32603, None)),
}

plugin = Plugin("some", "1.0.0", capabilities_used=["host:cache"])


@plugin.tool
def fails(params, context):
    raise RAISED[params["how"]][0]


@plugin.tool
def asks(host: Host) -> Any:
    return host.cache.ask("no_such_operation", {}).wait()


def failed(tester: PluginTester, name: str, params: dict[str, Any]) -> tuple[int, Any]:
    with pytest.raises(PluginFault) as told:
        tester.call(name, params)
    return told.value.error_code, told.value.data


def test_only_what_failed_without_an_effect_says_so() -> None:
    tester = PluginTester(plugin)
    told = {how: failed(tester, "fails", {"how": how}) for how in RAISED}
    assert told == {how: expected for how, (_, expected) in RAISED.items()}


def test_what_the_host_finds_wrong_with_a_question_is_not_said_of_the_call() -> None:
    code, _ = failed(PluginTester(plugin, FakeHost(["host:cache"])), "asks", {})
    assert code == -32000, "and not -32601, as if the tool had never been called"
