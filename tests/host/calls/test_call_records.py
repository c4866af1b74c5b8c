"""What a host remembers of calls beside the ledger: inputs, and where they came from; and the list of calls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace
from tests.host.conftest import SAY, Home

from fixtures.commands import PATIENCE
from paddock import Config, Host, open_host
from paddock.core.call import Principal
from paddock.core.errors import Invalid, NotFound, PaddockError
from paddock.core.ids import CallId, PrincipalId, Tenant
from paddock.gate.calls.redact_inputs import redact_inputs
from paddock.host.calls.call_history import CallFilter
from paddock.host.calls.day_statistics import DayStatistics
from paddock.host.identity.caller import local_principal

OPERATOR = local_principal("olga")
WAITS = """
import time
from paddock_sdk import Plugin
plugin = Plugin({name!r}, {version!r})
@plugin.tool
def wait(params, context):
    while True:
        time.sleep(0.02)
        plugin.check_cancelled()
plugin.run()
"""
WAIT = {
    "name": "wait",
    "description": "Stay until cancelled",
    "effects": ["read_only"],
    "input_schema": {"type": "object", "properties": {"word": {"type": "string", "format": "password"}}},
}


async def made(host: Host, **params: Any) -> CallId:
    handle = host.calls.registry.start("parrot", "say", params, host.operator_context("olga"))
    await handle.wait()
    return handle.id


@pytest.mark.req("B-18", "page of a call")
async def test_a_call_is_known_with_its_inputs_after_a_restart_and_its_result_is_said_to_be_gone(home: Home) -> None:
    home.install()
    async with open_host(Config(home=home.path, environ={})) as host:
        call = await made(host, text="oats", password="hunter2")
        with pytest.raises(Invalid):
            await host.call("parrot.say", {})
    async with open_host(Config(home=home.path, environ={})) as host:
        record = await host.calls.records.show(call, OPERATOR)
        assert (record["inputs"], record["redacted"]) == ({"text": "oats", "password": "[redacted]"}, ["password"])
        assert (record["status"], record["result_kept"], "result" in record) == ("succeeded", False, False)
        assert record["log"] is not None
        assert ["asked" in line["line"] for line in record["log"]] == [True]
        stranger = Principal(PrincipalId("user:eve"))
        for who in (stranger, Principal(PrincipalId("user:eve"), roles=OPERATOR.roles, tenant=Tenant("acme"))):
            with pytest.raises(NotFound) as error:
                await host.calls.records.show(call, who)
            assert error.value.error_code == "call.not_found"

        everything = await host.calls.history.page(OPERATOR, CallFilter())
        assert [one["outcome"] for one in everything.ended] == ["refused", "succeeded"]
        failed = await host.calls.history.page(OPERATOR, CallFilter("failed", "parrot"))
        assert [one["error_code"] for one in failed.ended] == ["invalid_params"]
        assert (await host.calls.history.page(stranger, CallFilter())).ended == []
        today = await host.calls.history.day(OPERATOR.tenant)
        assert (today["calls"], today["failed"], today["denied"], today["complete"]) == (2, 1, 0, True)


async def test_secrets_in_the_inputs_of_a_call_that_still_runs_are_left_out_too(home: Home) -> None:
    home.install(program=WAITS, tools=[WAIT])
    async with open_host(Config(home=home.path, environ={})) as host:
        handle = host.calls.registry.start("parrot", "wait", {"word": "hunter2"}, host.operator_context("olga"))
        record = await host.calls.records.show(handle.id, OPERATOR)
        assert (record["status"], record["inputs"], record["redacted"]) == ("running", {"word": "[redacted]"}, ["word"])
        await host.approvals.cancel(handle)


@pytest.mark.slow
async def test_inputs_of_the_newest_calls_are_kept_and_none_where_a_setting_says_so(home: Home) -> None:
    home.install()
    for kept, expected in ((0, [False, False]), (1, [False, True])):
        async with open_host(Config(home=home.path, environ={}, flags={"limits.kept_inputs": kept})) as host:
            calls = [await made(host, text=str(number)) for number in range(2)]
        async with open_host(Config(home=home.path, environ={})) as host:
            records = [await host.calls.records.show(call, OPERATOR) for call in calls]
        assert [record["inputs_kept"] for record in records] == expected


async def test_calls_that_wait_on_another_host_are_listed_for_those_who_may_see_them(home: Home) -> None:
    sends = {**SAY, "effects": ["external_send"]}
    home.install(tools=[sends])
    config = Config(home=home.path, environ={})
    ann, eve = (Principal(PrincipalId(f"user:{name}"), frozenset({"member"})) for name in ("ann", "eve"))
    async with open_host(config) as asking, open_host(replace(config, role="command")) as other:
        context = asking.call_context(Principal(ann.id, frozenset({"member", "send"}), roles=OPERATOR.roles))
        handle = asking.calls.registry.start("parrot", "say", {"text": "oats"}, context)
        for _ in range(PATIENCE * 100):
            if handle.status == "pending_approval":
                break
            await asyncio.sleep(0.01)
        for outcome in ("", "waiting"):
            for host in (asking, other):
                page = await host.calls.history.page(OPERATOR, CallFilter(outcome))
                assert [(one["call_id"], one["outcome"]) for one in page.current] == [(handle.id, "pending_approval")]
                assert handle.id not in [one["call_id"] for one in page.ended]
        assert (await other.calls.history.page(OPERATOR, CallFilter("waiting", "notes"))).current == []
        assert (await other.calls.history.page(OPERATOR, CallFilter("running"))).current == []
        assert [one["name"] for one in (await other.calls.history.page(ann, CallFilter())).current] == ["parrot.say"]
        assert (await other.calls.history.page(eve, CallFilter())).current == []
        await asking.approvals.cancel(handle)


async def test_inputs_go_with_the_person_who_is_erased(home: Home) -> None:
    home.install()
    async with open_host(Config(home=home.path, environ={})) as host:
        call = await made(host, text="oats")
        await host.ledger.erasure.erase(OPERATOR.tenant, OPERATOR.id, by=OPERATOR.id, reason="asked")
        record = await host.calls.records.show(call, OPERATOR)
    assert (record["inputs_kept"], record["inputs"]) == (False, None)


async def test_inputs_that_cannot_be_looked_through_cost_no_other_call_its_own(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(inputs: Any, schema: Any) -> Any:
        if inputs["text"] == "odd":
            raise ValueError("odd")
        return redact_inputs(inputs, schema)

    monkeypatch.setattr("paddock.gate.calls.call_details.redact_inputs", refuse)
    home.install()
    async with open_host(Config(home=home.path, environ={})) as host:
        odd, even = await made(host, text="odd", token="t"), await made(host, text="even", token="t")
        records = [await host.calls.records.show(call, OPERATOR) for call in (odd, even)]
    assert [record["inputs_kept"] for record in records] == [False, True]


async def test_other_calls_under_the_same_key_are_named_to_those_who_may_see_them(home: Home) -> None:
    home.install()
    ann, eve = (Principal(PrincipalId(f"user:{name}"), frozenset({"member"})) for name in ("ann", "eve"))
    async with open_host(Config(home=home.path, environ={})) as host:
        calls: list[CallId] = []
        for who in (ann, eve, eve):
            handle = host.calls.registry.start(
                "parrot", "say", {"text": "oats"}, host.call_context(who, idempotency_key="monday")
            )
            with suppress(PaddockError):
                await handle.wait()
            calls.append(handle.id)
        of_ann, first, second = calls

        assert (await host.calls.records.show(second, eve))["other_calls"] == [first]
        assert (await host.calls.records.show(of_ann, ann))["other_calls"] == []
        assert (await host.calls.records.show(of_ann, OPERATOR))["other_calls"] == [second, first]


def test_percentiles_are_right_within_four_percent() -> None:
    statistics = DayStatistics("2030-01-31", 0)
    statistics.add({"status": "succeeded", "duration_ms": float(number)} for number in range(1, 1_001))
    statistics.add([{"status": "pending_approval"}, {"status": "denied"}, {"status": "failed"}])

    assert statistics.percentile_ms(0.95) == pytest.approx(950, rel=0.04)
    assert (statistics.calls, statistics.failed, statistics.denied) == (1_002, 1, 1)
    assert DayStatistics("2030-01-31", 0).percentile_ms(0.95) is None
