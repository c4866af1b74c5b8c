"""The host object of a plugin in the worker: what is asked, what is denied, and what is logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.workers import Refused, shu

from paddock.capabilities.methods import REQUIRED_CAPABILITIES
from paddock_sdk.host import SERVICES as SERVED_SERVICES
from paddock_sdk.host import WIRE_NAMES

SERVICES = """
class Plugin:
    async def execute(self, params, context, host):
        if params["use"] == "cache":
            await host.cache.set("k", [1], ttl=5)
            return await host.cache.get("k")
        if params["use"] == "storage":
            await host.storage.put("ref", {"a": 1})
            return [await host.keyvalue.get("ref"), await host.storage.get("none")]
        if params["use"] == "a wrong name":
            try:
                host.key_value
            except AttributeError as error:
                return [str(error), hasattr(host, "_repr_html_")]
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


def test_a_service_by_a_wrong_name_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:storage"]) as plugin:
        told, found = plugin.call({"use": "a wrong name"})["data"]
    assert "'key_value': did you mean host.keyvalue? it has artifacts, audit," in told
    assert "cache" in told and "storage" in told and not found


def test_an_action_is_performed_by_name_and_may_wait_for_the_host_without_async(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:cache"]) as plugin:
        done = plugin.act("send", {"to": "x"}, {"idempotency_key": "k"})
    assert done == {"status": "ok", "action_id": "1", "result": ["send", {"to": "x"}, {"idempotency_key": "k"}, None]}


def test_questions_are_sent_when_they_are_asked_and_answers_may_come_in_any_order(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, capabilities=["host:cache"]) as plugin:
        call = plugin.begin({"use": "both at once"})
        first, second = plugin.wire.receive(), plugin.wire.receive()
        for question, value in ((second, "two"), (first, "one")):
            plugin.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": {"value": value}})
        assert plugin.until_answered(call)["result"]["data"] == ["two", "one"]


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


def test_the_host_object_offers_exactly_the_services_that_the_host_serves() -> None:
    offered = {WIRE_NAMES.get(name, name) for name in (*SERVED_SERVICES, "log")}
    assert offered == {method.partition(".")[0] for method in REQUIRED_CAPABILITIES}


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


def test_what_the_host_does_not_serve_is_refused_where_declared_and_denied_where_not(tmp_path: Path) -> None:
    def nothing(method: str, params: dict[str, Any]) -> Any:
        raise Refused(-32601, "not served")

    with shu(tmp_path, CATCHING, nothing, capabilities=["host:secrets"]) as plugin:
        assert plugin.call({"service": "secrets"})["data"] == "refused"
        assert plugin.call({"service": "cache"})["data"] == "denied"
        for unserved in ("cursor", "nonsense"):
            assert plugin.failure({"service": unserved})["message"] == "the plugin failed (AttributeError)"


@pytest.mark.parametrize(("refused", "told"), [(-32601, -32000), (-32602, -32000), (-32005, -32005)])
def test_what_the_host_finds_wrong_with_a_question_is_not_told_as_the_callers_fault(
    tmp_path: Path, refused: int, told: int
) -> None:
    def refusing(method: str, params: dict[str, Any]) -> Any:
        raise Refused(refused, "no")

    with shu(tmp_path, SERVICES, refusing, capabilities=["host:cache"]) as plugin:
        assert plugin.failure({"use": "cache"})["code"] == told


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


def test_a_cancelled_call_stops_where_it_waits_for_the_host(tmp_path: Path) -> None:
    with shu(tmp_path, SERVICES, Memory(), capabilities=["host:cache"]) as plugin:
        call = plugin.begin({"use": "cache"})
        question = plugin.wire.receive()
        plugin.wire.tell("paddock.cancel", {"id": call})
        plugin.reply(question)
        assert plugin.until_answered(call)["error"] == {"code": -32000, "message": "cancelled"}
        assert plugin.call({"use": "both at once"})["data"] == [None, None]
