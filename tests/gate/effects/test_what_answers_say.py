"""Only a plugin's certain word that nothing happened frees a key; every other end leaves the effect in doubt.

On whole hosts, with plugins in cages, functions, and a server elsewhere. What they do is a line in a file, or one more
in a list; under the same key nobody gets it done a second time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by
from tests.host.conftest import Home
from tests.mcp.odd_http import FOUND, Request, odd_server, usual
from tests.mcp.playing import SCRIPT
from tests.runtime.stage import PRELUDE, patiently
from tests.runtimes.test_python_code import kernel

from fixtures.packages import write_file, write_json
from paddock import Config, NoEffect, open_host
from paddock.core.errors import CallerError, Invalid, PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import EffectKey
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.plugins.manage.enable import enable
from paddock.plugins.tool_pinning.tool_trust import TrustedWord
from paddock.plugins.tool_pinning.trust_claims import trust_claims
from paddock.store.database import open_direct

ANY = {"type": "object"}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "effects": ["db_write"], "input_schema": ANY} | more


class Outside:
    """A home whose plugins write a line into a file outside for everything that they do."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.file = folder / "outside" / "done"
        self.file.parent.mkdir()
        self.file.touch()

    @property
    def may_write(self) -> str:
        return f"write:fs:{self.file.parent}"

    @property
    def done(self) -> list[str]:
        return self.file.read_text().split()

    def install(self, program: str, *names: str, **fields: Any) -> None:
        """A plugin of this program, in which `act(name)` writes a line."""
        act = f"def act(what):\n    with open({str(self.file)!r}, 'a') as done:\n        done.write(what + '\\n')\n"
        fields = {"tools": [tool(name) for name in names], "capabilities": [self.may_write]} | fields
        package = self.home.path.parent / "packages" / "acting"
        manifest = {"paddock": 1, "name": "acting", "version": "1.0.0", "description": "Acts"}
        write_json(package / "paddock.yaml", manifest | {"runtime": {"command": ["python3", "./main.py"]}} | fields)
        write_file(package / "main.py", act + program)
        self.take(package, "acting")

    def take(self, package: Path, name: str) -> None:
        self.home.take(package)
        self.home.changing(lambda plugins: enable(plugins, name))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Host, None]:
        async with open_host(Config(home=self.home.path, environ={}, start="nothing")) as host:
            yield host

    def state(self, plugin: str, name: str, key: str = "k1") -> EffectState | None:
        """What is on record under the key."""
        with open_direct(self.home.path / "data" / "paddock.db") as database:
            of = EffectKey(DEFAULT_TENANT, plugin, name, key)  # pyright: ignore[reportArgumentType]
            found = database.read(lambda tx: records.find(tx, of))
        return found.state if found is not None else None


async def failed(host: Host, name: str, params: dict[str, Any] | None = None, key: str = "k1") -> PaddockError:
    """How a call under the key fails."""
    with pytest.raises(PaddockError) as error:
        await patiently(host.call(name, params or {}, context=made_by(ANN), idempotency_key=key))
    return error.value


async def twice(host: Host, name: str) -> tuple[PaddockError, PaddockError]:
    return await failed(host, name), await failed(host, name)


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


# --- a program of our SDK -------------------------------------------------------------------------------------------

ACTING = """
import os, sys
from paddock_sdk import InvalidParams, NoEffect, NotApplicable, Plugin, PluginFault, requires_scopes
plugin = Plugin("acting", "1.0.0")

@plugin.tool
def raises(params, context):
    act("raises")
    raise KeyError("after it")

@plugin.tool
def faults(params, context):
    act("faults")
    raise PluginFault("the other side said no")

@plugin.tool
def unwritable(params, context):
    act("unwritable")
    return {"not": object()}

@plugin.tool
def large(params, context):
    act("large")
    return {"large": "x" * 5_000_000}

@plugin.tool
def says_no(params, context):
    raise NoEffect("the other side is not there", {"tried": 1})

@plugin.tool
def wrong(params, context):
    raise InvalidParams("not like this")

@plugin.tool
def out_of_place(params, context):
    raise NotApplicable("not here")

@plugin.tool
def dies(params, context):
    act("dies")
    os._exit(3)

@plugin.tool
def hangs(params, context):
    act("hangs")
    import threading
    threading.Event().wait()

plugin.run()
"""


async def test_an_exception_or_an_answer_that_cannot_be_sent_leaves_the_effect_in_doubt(outside: Outside) -> None:
    names = ("raises", "faults", "unwritable", "large")
    outside.install(ACTING, *names)
    async with outside.open() as host:
        ends = {name: await twice(host, f"acting.{name}") for name in names}
    assert {name: again.error_code for name, (_, again) in ends.items()} == dict.fromkeys(names, "effect.in_doubt")
    assert {name: outside.state("acting", name) for name in names} == dict.fromkeys(names, EffectState.IN_DOUBT)
    assert outside.done == list(names), "each of them once"
    assert all("no_effect" not in first.details for first, _ in ends.values())


async def test_the_sdks_word_that_nothing_happened_frees_the_key(outside: Outside) -> None:
    names = ("says_no", "wrong", "out_of_place")
    outside.install(ACTING, *names)
    async with outside.open() as host:
        ends = {name: await twice(host, f"acting.{name}") for name in names}
    assert {name: outside.state("acting", name) for name in names} == dict.fromkeys(names, EffectState.FAILED_NO_EFFECT)
    for first, again in ends.values():
        assert (first.message, first.details["no_effect"]) == (again.message, True), "it was asked again"
    assert ends["says_no"][0].details["data"] == {"tried": 1, "no_effect": True}


async def test_a_plugin_that_dies_leaves_the_effect_in_doubt(outside: Outside) -> None:
    outside.install(ACTING, "dies")
    async with outside.open() as host:
        first, again = await twice(host, "acting.dies")
    assert (first.error_code, again.error_code) == ("plugin.unavailable", "effect.in_doubt")
    assert outside.state("acting", "dies") is EffectState.IN_DOUBT
    assert outside.done == ["dies"]


async def test_a_plugin_that_does_not_answer_in_time_leaves_the_effect_in_doubt(outside: Outside) -> None:
    outside.install(ACTING, tools=[tool("hangs", timeout_sec=1)])
    async with outside.open() as host:
        first, again = await twice(host, "acting.hangs")
    assert (first.error_code, again.error_code) == ("plugin.timeout", "effect.in_doubt")
    assert outside.state("acting", "hangs") is EffectState.IN_DOUBT
    assert outside.done == ["hangs"]


# --- a program that speaks the wire by itself -----------------------------------------------------------------------


async def test_an_answer_that_comes_too_late_changes_nothing(outside: Outside) -> None:
    # It works on one call while the other's time runs out, is told so, does it all the same, and says that it has.
    program = """
hello(tools=["waits", "acts"], features=["cancel"])
first, second = read(), read()
assert read()["method"] == "paddock.cancel"
act("acts")
answer(second, {"done": "late"})
answer(first, {"done": "waited"})
serve()
"""
    tools = [tool("waits", effects=["read_only"], timeout_sec=60), tool("acts", timeout_sec=1)]
    outside.install(f"NAME, METHODS = 'acting', []\n{PRELUDE}{program}", tools=tools)
    async with outside.open() as host:
        waits = asyncio.ensure_future(host.call("acting.waits", {}))
        await asyncio.sleep(0)  # it is the first of the two
        late = await failed(host, "acting.acts")
        assert await patiently(waits) == {"done": "waited"}, "the late answer has come before this one"
        again = await failed(host, "acting.acts")
    assert (late.error_code, again.error_code) == ("plugin.timeout", "effect.in_doubt")
    assert outside.state("acting", "acts") is EffectState.IN_DOUBT
    assert outside.done == ["acts"]


NATIVE_ENDS = {
    'refuse(asked, -32603, "internal error")': EffectState.IN_DOUBT,
    'refuse(asked, -32005, "too much")': EffectState.IN_DOUBT,
    'refuse(asked, -32601, "no such method")': EffectState.FAILED_NO_EFFECT,
    'refuse(asked, -32602, "wrong")': EffectState.FAILED_NO_EFFECT,
    'send({"jsonrpc": "1.0", "id": asked["id"], "result": 1})': EffectState.IN_DOUBT,  # these two are no JSON-RPC
    'send({"jsonrpc": "2.0", "id": asked["id"], "result": 1, "error": 2})': EffectState.IN_DOUBT,
}


async def test_only_a_refusal_of_the_protocols_own_says_without_a_word_that_nothing_happened(outside: Outside) -> None:
    program = 'hello(tools=["acts"])\nserve(acting_acts=lambda asked: exec(asked["params"]["ends"]))\n'
    outside.install(f"NAME, METHODS = 'acting', []\n{PRELUDE}{program}", "acts")
    async with outside.open() as host:
        for ends in NATIVE_ENDS:
            await failed(host, "acting.acts", {"ends": ends}, ends)
    assert {ends: outside.state("acting", "acts", ends) for ends in NATIVE_ENDS} == NATIVE_ENDS


async def test_whoever_has_asked_the_host_for_something_has_begun_whatever_it_calls_its_failure(
    outside: Outside,
) -> None:
    program = """
hello(tools=["acts"], features=["call_tokens"], capabilities_used=["storage:write"])
asked = read()
said = {"sql": "CREATE TABLE t (a)", "params": [], "_call": asked["params"]["_call"]}
send({"jsonrpc": "2.0", "id": 1, "method": "paddock.storage.exec", "params": said})
assert "result" in read()
refuse(asked, -32602, "what the host said to the next question, perhaps")
serve()
"""
    outside.install(f"NAME, METHODS = 'acting', []\n{PRELUDE}{program}", "acts", capabilities=["storage:write"])
    async with outside.open() as host:
        await failed(host, "acting.acts")
    assert outside.state("acting", "acts") is EffectState.IN_DOUBT


TABLES = """
from paddock_sdk import Host, NoEffect, Plugin
plugin = Plugin("acting", "1.0.0", capabilities_used=["storage:write"])

def write(host):
    host.sql.exec("CREATE TABLE IF NOT EXISTS t (a)").wait()
    host.sql.exec("INSERT INTO t VALUES (1)").wait()

@plugin.tool
def writes_and_says_no(host: Host):
    write(host)
    raise NoEffect("nothing happened")

@plugin.tool
def writes_and_fails(host: Host):
    write(host)
    raise KeyError("after it")

@plugin.tool
def says_no(host: Host):
    raise NoEffect("nothing happened")

@plugin.tool
def fails(host: Host):
    raise KeyError("before it")

plugin.run()
"""


async def test_a_plugin_that_changed_its_tables_is_not_believed_that_nothing_happened(outside: Outside) -> None:
    names = ("writes_and_says_no", "writes_and_fails", "says_no", "fails")
    tools = [tool(name, recovery="atomic") for name in names]
    outside.install(TABLES, tools=tools, capabilities=["storage:write"])
    # Not even where a person has settled that errors of these tools mean that nothing was done.
    outside.home.changing(lambda plugins: trust_claims(plugins, "acting", TrustedWord.ERRORS, names, {}))
    async with outside.open() as host:
        ends = {name: await failed(host, f"acting.{name}") for name in names}
    doubted = [name for name, error in ends.items() if error.details.get("effect") == "in_doubt"]
    assert doubted == ["writes_and_says_no", "writes_and_fails"]


# --- functions of the application -----------------------------------------------------------------------------------


def raising(error: Exception) -> Callable[[], Any]:
    def end() -> Any:
        raise error

    return end


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(raising(KeyError("after it")), id="an exception"),
        pytest.param(raising(CallerError("of a call that it made itself")), id="an error of ours"),
        pytest.param(raising(Invalid("of another document", ())), id="another's parameters"),
        pytest.param(lambda: {"x": object()}, id="no JSON"),
        pytest.param(lambda: {"x": 2**70}, id="no number of JSON's"),
        pytest.param(lambda: {"x": "x" * 5_000_000}, id="too large"),
    ],
)
async def test_a_function_that_acts_and_then_fails_leaves_its_effect_in_doubt(
    tmp_path: Path, end: Callable[[], Any]
) -> None:
    office = Office(tmp_path)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)  # the application's own mistakes

    def note() -> Any:
        office.do("note")
        return end()

    office.functions["note"] = note
    async with office.open() as host:
        _, again = await twice(host, "mail.note")
    assert again.error_code == "effect.in_doubt"
    assert office.done == ["note"]


async def test_a_function_can_say_that_nothing_happened_and_one_that_was_not_called_need_not(tmp_path: Path) -> None:
    office, reasons = Office(tmp_path), ["it is not there", "it is not there yet"]

    def note() -> Any:
        if reasons:
            raise NoEffect(reasons.pop(0))
        return office.do("note")

    office.functions["note"] = note
    async with office.open() as host:
        first, again = await twice(host, "mail.note")
        unfit = [await failed(host, "mail.look", {"no": "such parameter"}) for _ in range(2)]
        done = await host.call("mail.note", {}, context=made_by(ANN), idempotency_key="k1")
    assert (first.message, again.message, first.details["no_effect"]) == (
        "it is not there",
        "it is not there yet",
        True,
    )
    assert [error.error_code for error in unfit] == ["invalid_params"] * 2
    assert done == {"done": "note"}


# --- the Kernel's operators -----------------------------------------------------------------------------------------


OPERATORS_ERRORS: dict[str, tuple[Any, EffectState]] = {
    "failed": ({"code": "SMTP", "message": "x"}, EffectState.IN_DOUBT),
    "without a reason": (None, EffectState.IN_DOUBT),
    "its word": ({"code": "SMTP", "message": "x", "no_effect": True}, EffectState.FAILED_NO_EFFECT),
    "not valid": ({"code": "VALIDATION_ERROR", "message": "x"}, EffectState.FAILED_NO_EFFECT),
    "a scope": ({"code": "PERMISSION_DENIED", "message": "x"}, EffectState.FAILED_NO_EFFECT),
    "a rule": ({"code": "POLICY_DENIED", "message": "x"}, EffectState.FAILED_NO_EFFECT),
}


@pytest.mark.req("K-07", "failed")
async def test_an_operator_that_failed_may_have_acted_unless_it_says_otherwise(
    outside: Outside, tmp_path: Path
) -> None:
    code = "def run(call):\n    return {'status': 'failed', 'error': call['payload']['error']}\n"
    package = kernel(tmp_path / "p", "operator", code)
    about = json.loads((package / "manifest.json").read_text())
    write_json(package / "manifest.json", about | {"effects": ["db_write"]})
    outside.take(package, "Our.Thing")
    async with outside.open() as host:
        for key, (error, _) in OPERATORS_ERRORS.items():
            await failed(host, "Our.Thing", {"error": error}, key)
    found = {key: outside.state("Our.Thing", "Our.Thing", key) for key in OPERATORS_ERRORS}
    assert found == {key: state for key, (_, state) in OPERATORS_ERRORS.items()}


# --- MCP servers ----------------------------------------------------------------------------------------------------


SERVERS_ENDS = {
    'answer(asked, {"content": 5})': EffectState.IN_DOUBT,
    'answer(asked, text("it broke") | {"isError": True})': EffectState.IN_DOUBT,
    # Servers on the official SDK for TypeScript say so of what a tool has answered, too.
    'refuse(asked, -32602, "Output validation error")': EffectState.IN_DOUBT,
    'refuse(asked, -32603, "internal error")': EffectState.IN_DOUBT,
    "refuse(asked)": EffectState.FAILED_NO_EFFECT,  # there is no such method
    'refuse(asked, -32000, "no", data={"no_effect": True})': EffectState.FAILED_NO_EFFECT,
    'answer(asked, text("no") | {"isError": True, "_meta": {"paddock/no_effect": True}})': EffectState.FAILED_NO_EFFECT,
}


async def test_a_servers_tool_that_failed_may_have_acted_unless_it_says_otherwise(outside: Outside) -> None:
    runtime = {"command": ["python3", "./main.py"], "protocol": "mcp"}
    program = 'serve(tools_call=lambda asked: exec(asked["params"]["arguments"]["ends"]))\n'
    outside.install(SCRIPT + program, "echo", runtime=runtime)
    async with outside.open() as host:
        for ends in SERVERS_ENDS:
            await failed(host, "acting.echo", {"ends": ends}, ends)
    assert {ends: outside.state("acting", "echo", ends) for ends in SERVERS_ENDS} == SERVERS_ENDS


def broken_off(request: Request) -> None:
    """A stream that ends as it should, without an answer in it."""
    request.stream()
    request.chunk(b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n')
    request.send(b"0\r\n\r\n")


def again_and_again(request: Request) -> None:
    """A stateless server that never knows enough."""
    wants = {"roots": {"method": "roots/list", "params": {}}}
    request.result({"resultType": "input_required", "inputRequests": wants, "requestState": "kept"})


def unheard_of(request: Request) -> None:
    request.result({"resultType": "input_required", "inputRequests": {"x": {"method": "no/such", "params": {}}}})


def hung_up(request: Request) -> None:
    request.writer.close()


ELSEWHERE: dict[str, tuple[Callable[[Request], None], EffectState]] = {
    "500": (lambda request: request.answer("500 Internal Server Error"), EffectState.IN_DOUBT),
    "502": (lambda request: request.answer("502 Bad Gateway"), EffectState.IN_DOUBT),
    "504": (lambda request: request.answer("504 Gateway Timeout"), EffectState.IN_DOUBT),
    "408": (lambda request: request.answer("408 Request Timeout"), EffectState.IN_DOUBT),
    "an answer without one": (lambda request: request.answer("202 Accepted"), EffectState.IN_DOUBT),
    "sent on": (lambda request: request.answer("303 See Other", Location="/done"), EffectState.IN_DOUBT),
    "a stream without an answer": (broken_off, EffectState.IN_DOUBT),
    # It did not let us in, or has no such door.
    "401": (lambda request: request.answer("401 Unauthorized"), EffectState.FAILED_NO_EFFECT),
    "405": (lambda request: request.answer("405 Method Not Allowed"), EffectState.FAILED_NO_EFFECT),
    "429": (lambda request: request.answer("429 Too Many Requests"), EffectState.FAILED_NO_EFFECT),
    "hung up": (hung_up, EffectState.IN_DOUBT),  # at the end, since it has to be met again
}
STATELESS: dict[str, tuple[Callable[[Request], None], EffectState]] = {
    "questions without an end": (again_and_again, EffectState.IN_DOUBT),
    "a question that nobody knows": (unheard_of, EffectState.IN_DOUBT),
}


@pytest.mark.parametrize("ends", [pytest.param(ELSEWHERE, id="session"), pytest.param(STATELESS, id="stateless")])
async def test_what_a_server_elsewhere_was_sent_may_have_happened_unless_it_was_refused_at_the_door(
    outside: Outside, ends: dict[str, tuple[Callable[[Request], None], EffectState]]
) -> None:
    def handler(request: Request) -> None:
        if request.asks == "tools/call":
            ends[request.message["params"]["arguments"]["end"]][0](request)
        elif request.asks == "server/discover" and ends is STATELESS:
            request.result(FOUND)
        else:
            usual(request)

    async with odd_server(handler) as server:
        runtime, place = {"url": server.url}, f"net:127.0.0.1:{server.port}"
        outside.install("", "echo", runtime=runtime, capabilities=[place])
        async with outside.open() as host:
            for key in ends:
                await failed(host, "acting.echo", {"end": key}, key)
            sent = len(server.asked("tools/call"))
            doubted = next(key for key, (_, state) in ends.items() if state is EffectState.IN_DOUBT)
            with pytest.raises(PaddockError):
                await patiently(
                    host.call("acting.echo", {"end": doubted}, context=made_by(ANN), idempotency_key=doubted)
                )
            assert len(server.asked("tools/call")) == sent, "what is in doubt is not sent again"
    assert {key: outside.state("acting", "echo", key) for key in ends} == {key: ends[key][1] for key in ends}
