"""Shu's plugins in the worker: what is called, what comes back, and in which form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.workers import shu, working, write

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


@pytest.mark.req("S-01", "execute")
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


def test_a_plugin_that_raises_has_failed_and_the_next_call_is_served(tmp_path: Path) -> None:
    with shu(tmp_path, FAILING) as plugin:
        assert plugin.failure() == {"code": -32603, "message": "the plugin failed (KeyError)"}
        assert plugin.failure(name="another")["code"] == -32601
        assert plugin.call({"fine": True}) == {"status": "success", "data": {}}
        code, log = plugin.wire.end()
    assert code == 0
    assert "secret detail" in log[0]["traceback"]


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
