"""Shu's plugins in the worker: what is called, what comes back, and in which form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.workers import Refused, shu, working, write

ECHO = """
class Plugin:
    def __init__(self):
        self.calls = 0
    async def execute(self, params, context, host):
        self.calls += 1
        return {"status": "success", "data": {"params": params, "context": context, "calls": self.calls}}
    def get_schema(self):
        return {"type": "object"}
    async def get_output_schema(self):
        return {"type": "object", "required": ["calls"]}
    def requires_permission(self):
        return ["a:b", "c:d"]
"""


@pytest.mark.req("S-01")
def test_execute_is_given_params_and_context_and_its_schemas_and_permissions_are_told(tmp_path: Path) -> None:
    with shu(tmp_path, ECHO) as plugin:
        assert plugin.describe()["it"] == {
            "input_schema": {"type": "object"},
            "output_schema": {"type": "object", "required": ["calls"]},
            "permissions": ["a:b", "c:d"],
            "actions": [],
        }
        data = plugin.call({"q": 1}, {"user_id": "u", "permissions": ["a:b"]})["data"]
        assert data == {"params": {"q": 1}, "context": {"user_id": "u", "permissions": ["a:b"]}, "calls": 1}
        assert plugin.call()["data"]["calls"] == 2  # one object, made once


@pytest.mark.req("S-01")
@pytest.mark.parametrize(
    "code",
    [
        "def execute(self, params, context, host): return {'status': 'success', 'data': 7}",
        "async def execute(self, params, context, host): return {'status': 'success', 'data': 7}",
        "def execute(self, parameters, user_context): return 7",
        "async def execute(self, params, context, host):\n  yield {'status': 'success', 'data': 7}",
        "async def execute(self, params, context, host):\n  yield {'type': 'result', 'result': 7}",
        "def execute(self, params, context, host):\n  yield {'type': 'result', 'status': 'success', 'data': 7}",
        "def execute(self, params, context, host):\n  return 7\n  yield",
    ],
)
def test_execute_may_be_plain_async_or_a_generator_of_either_kind(tmp_path: Path, code: str) -> None:
    with shu(tmp_path, "class Plugin:\n " + code.replace("\n", "\n ")) as plugin:
        assert plugin.call() == {"status": "success", "data": 7}
        assert plugin.events == []


STREAM = """
import collections.abc

class Steps:
    def __init__(self): self.left = 2
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.left: raise StopAsyncIteration
        self.left -= 1
        return {"left": self.left}

class Plugin:
    async def execute(self, params, context, host):
        if params.get("iterator"):
            return Steps()
        return self.steps()
    async def steps(self):
        yield {"type": "progress", "progress": 1}
        yield "some text"
        yield {"status": "success", "data": "not yet"}
        yield {"status": "success", "data": "the end", "next_cursor": "c"}
"""


@pytest.mark.req("S-01")
def test_each_step_of_an_async_iterator_is_an_event_and_the_last_result_is_the_result(tmp_path: Path) -> None:
    with shu(tmp_path, STREAM) as plugin:
        assert plugin.call() == {"status": "success", "data": "the end", "next_cursor": "c"}
        assert plugin.events == [
            {"type": "progress", "progress": 1},
            {"type": "data", "data": "some text"},
            {"type": "data", "data": {"status": "success", "data": "not yet"}},
        ]
        assert plugin.call({"iterator": True}) == {"status": "success", "data": None}
        assert [event["data"] for event in plugin.events] == [{"left": 1}, {"left": 0}]


ENVELOPES = """
import dataclasses, enum, typing

class Status(enum.Enum):
    OK = "success"

@dataclasses.dataclass
class Result:
    status: str = "success"
    data: typing.Any = None
    error: typing.Any = None
    citations: typing.Any = None

class Model:
    def __init__(self, **fields): self.fields = fields
    def model_dump(self): return self.fields

class Old(Model):
    model_dump = None
    def dict(self): return self.fields

class Bare:
    def __init__(self, **fields): self.__dict__.update(fields)

RESULTS = {
    "dataclass": Result(data={"inner": Result()}, citations=[Model(type="web", ref="r", label="l")]),
    "model": Model(status=Status.OK, data=1, cost={"tokens": 3}, error=None),
    "old": Old(status="success", data=2),
    "bare": Bare(status="success", data=3, other="dropped"),
    "plain": [1, 2],
    "other status": {"status": 200},
    "error": {"status": "error", "error": "it broke"},
    "timeout": Result(status="timeout", error={"code": "slow", "message": "too slow"}),
}

class Plugin:
    def execute(self, params, context, host):
        return RESULTS[params["what"]]
"""


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("what", "told"),
    [
        (
            "dataclass",
            {
                "status": "success",
                "data": {"inner": {"status": "success", "data": None, "error": None, "citations": None}},
                "citations": [{"type": "web", "ref": "r", "label": "l"}],
            },
        ),
        ("model", {"status": "success", "data": 1, "cost": {"tokens": 3}}),
        ("old", {"status": "success", "data": 2}),
        ("bare", {"status": "success", "data": 3}),
        ("plain", {"status": "success", "data": [1, 2]}),
        ("other status", {"status": "success", "data": {"status": 200}}),
        ("error", {"status": "error", "error": {"code": "error", "message": "it broke"}}),
        ("timeout", {"status": "timeout", "error": {"code": "slow", "message": "too slow"}}),
    ],
)
def test_whatever_a_plugin_answers_with_becomes_the_envelope_without_what_is_absent(
    tmp_path: Path, what: str, told: Any
) -> None:
    with shu(tmp_path, ENVELOPES) as plugin:
        assert plugin.call({"what": what}) == told


SKIPS = """
class Plugin:
    def execute(self, params, context, host):
        return {"status": "success", "data": {}, "skips": params["skips"], "diagnostics": ["looked twice"]}
"""


@pytest.mark.req("S-03")
def test_skipped_items_pass_with_a_known_reason_and_fail_with_any_other(tmp_path: Path) -> None:
    known = [{"id": "a", "reason": "too_large", "details": {"max": 1}}, {"id": "b", "name": "B", "reason": "other"}]
    with shu(tmp_path, SKIPS) as plugin:
        assert plugin.call({"skips": known})["skips"] == known

        error = plugin.failure({"skips": [{"id": "a", "reason": "because"}, {"reason": "auth"}]})
        assert error["data"]["code"] == "output_validation_error"
        assert [one["path"] for one in error["data"]["errors"]] == ["skips[0].reason", "skips[1].id"]


@pytest.mark.req("S-04")
def test_diagnostics_are_told_only_to_whoever_asks_for_them(tmp_path: Path) -> None:
    with shu(tmp_path, SKIPS) as plugin:
        assert "diagnostics" not in plugin.call({"skips": []})
        assert "diagnostics" not in plugin.call({"skips": [], "debug": "yes"}, {"debug": False})
        assert plugin.call({"skips": [], "debug": True})["diagnostics"] == ["looked twice"]
        assert plugin.call({"skips": []}, {"debug": True})["diagnostics"] == ["looked twice"]


FAILING = """
class Plugin:
    def execute(self, params, context, host):
        if params.get("fine"):
            return {}
        raise KeyError("secret detail")
"""


@pytest.mark.req("S-02")
def test_a_plugin_that_raises_has_failed_and_the_next_call_is_served(tmp_path: Path) -> None:
    with shu(tmp_path, FAILING) as plugin:
        assert plugin.failure() == {"code": -32603, "message": "the plugin failed (KeyError)"}
        assert plugin.failure(name="another")["code"] == -32601
        assert plugin.call({"fine": True}) == {"status": "success", "data": {}}
        code, log = plugin.wire.end()
    assert code == 0
    assert "secret detail" in log[0]["traceback"]


SERVICES = """
class Plugin:
    async def execute(self, params, context, host):
        if params["use"] == "cache":
            await host.cache.set("k", [1], ttl=5)
            return await host.cache.get("k")
        if params["use"] == "storage":
            await host.storage.put("ref", {"a": 1})
            return [await host.storage.get("ref"), await host.storage.get("none")]
        if params["use"] == "both at once":
            first, second = host.cache.get("1"), host.cache.get("2")
            return [await second, await first]
        if params["use"] == "declared":
            return [bool(host.cache), bool(host.http), "storage" in host, dir(host)]
        return await host.http.fetch({"url": "https://a.example"}, retries=2)
    def perform_action(self, name, args, context, host):
        return {"status": "ok", "action_id": "1", "result": [name, args, context, host.cache.get("k").wait()]}
"""


class Memory:
    """A host that keeps values."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def __call__(self, method: str, params: dict[str, Any]) -> Any:
        family, operation = method.split(".")[1:]
        if family not in ("cache", "keyvalue"):
            raise Refused(-32001, f"not granted: {family}")
        if operation == "get":
            return {"value": self.kept.get(params["key"]), "found": params["key"] in self.kept}
        self.kept[params["key"]] = params["value"]
        return {}


@pytest.mark.req("S-10")
@pytest.mark.req("S-16")
def test_services_are_asked_over_the_wire_on_behalf_of_the_call(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:cache", "host:storage"]) as plugin:
        assert plugin.call({"use": "cache"})["data"] == [1]
        assert plugin.call({"use": "storage"})["data"] == [{"a": 1}, None]
        assert plugin.asked == [
            ("paddock.cache.set", {"key": "k", "value": [1], "ttl": 5, "_call": "token"}),
            ("paddock.cache.get", {"key": "k", "_call": "token"}),
            ("paddock.keyvalue.put", {"key": "ref", "value": {"a": 1}, "_call": "token"}),
            ("paddock.keyvalue.get", {"key": "ref", "_call": "token"}),
            ("paddock.keyvalue.get", {"key": "none", "_call": "token"}),
        ]


@pytest.mark.req("S-01")
def test_an_action_is_performed_by_name_and_may_wait_for_the_host_without_async(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:cache"]) as plugin:
        done = plugin.act("send", {"to": "x"}, {"idempotency_key": "k"})
    assert done == {"status": "ok", "action_id": "1", "result": ["send", {"to": "x"}, {"idempotency_key": "k"}, None]}


@pytest.mark.req("S-10")
def test_questions_are_sent_when_they_are_asked_and_answers_may_come_in_any_order(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, capabilities=["host:cache"]) as plugin:
        call = plugin.begin({"use": "both at once"})
        first, second = plugin.wire.receive(), plugin.wire.receive()
        for question, value in ((second, "two"), (first, "one")):
            plugin.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": {"value": value}})
        assert plugin.until_answered(call)["result"]["data"] == ["two", "one"]


@pytest.mark.req("S-09")
def test_a_service_that_was_not_declared_is_asked_refused_and_told_as_denied(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:cache"]) as plugin:
        declared = plugin.call({"use": "declared"})["data"]
        assert declared == [True, False, False, ["audit", "cache", "log", "logger"]]

        denied = plugin.failure({"use": "http"})

    # The question went out, so that the host knows and keeps a record of it.
    assert plugin.asked == [
        ("paddock.http.fetch", {"request": {"url": "https://a.example"}, "retries": 2, "_call": "token"})
    ]
    assert denied == {"code": -32001, "message": "not granted: http"}


CATCHING = """
from paddock_sdk import CapabilityDenied, HostRefused

class Plugin:
    async def execute(self, params, context, host):
        try:
            return await getattr(host, params["service"]).get("x")
        except CapabilityDenied as denied:
            return "denied"
        except HostRefused as refused:
            return "refused"
"""


@pytest.mark.req("S-09")
def test_what_the_host_does_not_serve_is_refused_where_declared_and_denied_where_not(tmp_path: Path) -> None:
    def nothing(method: str, params: dict[str, Any]) -> Any:
        raise Refused(-32601, "not served")

    with shu(tmp_path, CATCHING, nothing, capabilities=["host:secrets"]) as plugin:
        assert plugin.call({"service": "secrets"})["data"] == "refused"
        assert plugin.call({"service": "cursor"})["data"] == "denied"
        assert plugin.failure({"service": "nonsense"})["message"] == "the plugin failed (AttributeError)"


@pytest.mark.req("S-09")
@pytest.mark.parametrize(("refused", "told"), [(-32601, -32000), (-32602, -32000), (-32005, -32005)])
def test_what_the_host_finds_wrong_with_a_question_is_not_told_as_the_callers_fault(
    tmp_path: Path, refused: int, told: int
) -> None:
    def refusing(method: str, params: dict[str, Any]) -> Any:
        raise Refused(refused, "no")

    with shu(tmp_path, SERVICES, refusing, capabilities=["host:cache"]) as plugin:
        assert plugin.failure({"use": "cache"})["code"] == told


@pytest.mark.req("G-28", "python logging")
def test_a_log_line_of_a_call_names_its_request(tmp_path: Path) -> None:
    code = """
    class Plugin:
        def execute(self, params, context, host):
            host.logger.info("read %d files", 3, kind="pdf")
            print("a stray print")
            host.log.write("warning", "kept by the host", a=1)
    """
    with shu(tmp_path, code) as plugin:
        params = {"callable": "it", "payload": {}, "envelope": {}, "_context": {"request_id": "r-7"}}
        plugin.until_answered(plugin.wire.ask("worker.call", params))
        assert plugin.asked == [
            ("paddock.log.write", {"level": "warning", "message": "kept by the host", "fields": {"a": 1}})
        ]
        plugin.wire.tell("shutdown")
        plugin.wire.process.wait(30)
        assert plugin.wire.process.stderr
        log = plugin.wire.process.stderr.read().decode()
    assert '"request_id": "r-7"' in log and '"read 3 files"' in log and "a stray print" in log


@pytest.mark.req("G-28", "python method routing")
def test_a_cancelled_call_stops_where_it_waits_for_the_host(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:cache"]) as plugin:
        call = plugin.begin({"use": "cache"})
        question = plugin.wire.receive()
        plugin.wire.tell("paddock.cancel", {"id": call})
        plugin.reply(question)
        assert plugin.until_answered(call)["error"] == {"code": -32000, "message": "cancelled"}
        assert plugin.call({"use": "both at once"})["data"] == [None, None]


@pytest.mark.req("S-01")
def test_several_entry_points_are_several_callables(tmp_path: Path) -> None:
    code = """
    class One:
        def execute(self, params, context, host): return 1
    class Two:
        def execute(self, params, context, host): return 2
    """
    write(tmp_path, {"pack/__init__.py": "", "pack/mod.py": code})
    with working(tmp_path, {"one": "pack.mod:One", "two": "pack.mod:Two"}) as plugin:
        assert [plugin.call(name=name)["data"] for name in ("one", "two")] == [1, 2]
        assert set(plugin.describe()) == {"one", "two"}
