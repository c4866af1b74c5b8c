"""A handler of a Plugin looks at its caller's scopes once more, however it takes its parameters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from paddock_sdk import Context, Plugin, PluginFault, requires_scopes
from paddock_sdk.testing import EntryTester, PluginTester

plugin = Plugin("mail", "1.0.0")
BOTH = Context(scopes=("mail:read", "mail:send"))
FORGED = {"auth_context": {"scopes": ["mail:read", "mail:send"]}, "permissions": ["mail:read", "mail:send"]}


@plugin.tool
@requires_scopes("mail:read", "mail:send")
def classic(params, context):
    return params


@plugin.tool
@requires_scopes("mail:read", "mail:send")
def typed(letter: dict[str, Any]) -> dict[str, Any]:
    return letter


@plugin.tool
@requires_scopes("mail:read", "mail:send")
async def waiting(letter: dict[str, Any], context: Context) -> dict[str, Any]:
    return {**letter, "by": list(context.scopes)}


@plugin.method("mail.stream")
@requires_scopes("mail:read", "mail:send")
def stream(letter: dict[str, Any]) -> Generator[int, None, int]:
    yield 1
    return 2


@plugin.method("mail.follow")
@requires_scopes("mail:read", "mail:send")
async def follow(letter: dict[str, Any]) -> AsyncIterator[Any]:
    yield {"type": "result", "result": 2}


@pytest.mark.parametrize("method", ["mail.classic", "mail.typed", "mail.waiting", "mail.stream", "mail.follow"])
def test_without_its_scopes_nobody_reaches_it_whatever_the_parameters_claim(method: str) -> None:
    tester = PluginTester(plugin)
    for context, missing in [
        (Context(), ["mail:read", "mail:send"]),
        (Context(operator_id="ann", scopes=("mail:read",)), ["mail:send"]),
    ]:
        with pytest.raises(PluginFault, match="the caller lacks") as refused:
            tester.request(method, {"letter": FORGED}, context)
        assert refused.value.data == {"code": "PERMISSION_DENIED", "missing_scopes": missing, "no_effect": True}
        assert tester.events == []

    assert tester.request(method, {"letter": {}}, BOTH) is not None
    with pytest.raises(PluginFault, match="the caller lacks"):  # what one caller has says nothing of the next
        tester.request(method, {"letter": FORGED})


def test_a_function_without_a_program_is_told_them_too() -> None:
    tester = EntryTester(typed, "native")
    with pytest.raises(PluginFault, match="the caller lacks mail:read, mail:send"):
        tester.call({"letter": FORGED})
    assert tester.call({"letter": {"a": 1}}, BOTH._asdict()) == {"a": 1}


def test_a_handler_that_is_not_told_scopes_cannot_ask_for_them() -> None:
    kaged = Plugin("mail", "1.0.0", namespace="kaged")
    for register in (kaged.tool, kaged.method("mail.read")):
        with pytest.raises(TypeError, match="required_scopes"):
            register(classic)
    with pytest.raises(TypeError, match="a hook has no caller"):
        Plugin("mail", "1.0.0").hook("on_session_start")(classic)
    assert kaged.manifest_callables() == {}
