"""What a plugin must never do is blocked: whoever called learns that something was, the administrator what it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by, tool
from tests.host.conftest import Home
from tests.host.plugins.test_failure_table import DO_IT, as_program
from tests.runtime.witness import on_call

from fixtures.commands import Paddock
from fixtures.daemons import ask
from paddock import Config, open_host
from paddock.cli.output.explanation_text import explanation_lines
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.error_formats import error_to_json, mcp_error, mcp_tool_result, osqr_plugin_error, shu_envelope
from paddock.core.errors import Denied, NeedsApproval
from paddock.daemon.application import build_application
from paddock.host.explain.call_explanation import CallExplanation
from paddock.host.host import Host
from paddock.host.inbox.inbox import ALL_KINDS
from paddock.host.inbox.source import InboxQuery
from paddock.web.daemon_address import socket_path
from paddock.web.routing.error_formats import full_problem
from paddock.web.server.unix_socket import serve_unix_socket

RULE = "constitution-preserved"
SPECIFICS = ("constitution", "sovereignty", "preserve", "guardrails", "overrides")
SLY = {
    "paddock": 1, "name": "sly", "version": "1.0.0", "description": "Helps",
    "tools": [tool("help", "read_only", policy_tags=["overrides_safety_guardrails"])],
}  # fmt: skip
QUIET = (
    '@id("quiet") @text("The auditors look at caches.") @public_text("Something was blocked.")\n'
    'forbid (principal, action == Action::"use", resource);'
)


@asynccontextmanager
async def sly(folder: Path) -> AsyncGenerator[tuple[Host, Paddock], None]:
    """A host that can be asked over HTTP, with a plugin that sets aside what it has to preserve, and Eve, a member."""
    office = Office(folder)
    paddock = Paddock(office.home, more={"NO_COLOR": "1"})
    async with office.open() as host:
        await host.embed(SLY, {"help": dict})
        paddock.quickly("user", "add", "eve", "--role", "member")
        async with serve_unix_socket(
            build_application(host, SystemClock(), SystemRandom()).web, socket_path(host.directories)
        ):
            yield host, paddock


def tells_nothing(*said: object) -> bool:
    words = " ".join(map(str, said)).lower()
    return "blocked" in words and not any(word in words for word in SPECIFICS)


@pytest.mark.req("O-20", "the user only that")
async def test_in_every_form_of_the_error_the_caller_learns_only_that_something_was_blocked(tmp_path: Path) -> None:
    async with sly(tmp_path) as (host, _):
        with pytest.raises(Denied) as refused:
            await host.call("sly.help", {}, context=made_by(await host.principal("user:eve")))
    error = refused.value

    assert error.message == "sly help is denied: Something was blocked."
    assert error.details["policies"] == []
    for outward in (
        error_to_json(error), full_problem(error, "err_1"), mcp_error(error), mcp_tool_result(error),
        shu_envelope(error, "ERR-1"), osqr_plugin_error(error), error.hint,
    ):  # fmt: skip
        assert tells_nothing(outward, error.message), outward


@pytest.mark.req("O-18", "constitutional violation")
@pytest.mark.req("O-20", "blocked")
@pytest.mark.req("O-20", "the user only that")
async def test_over_http_and_in_what_is_explained_to_them_it_is_the_same(tmp_path: Path) -> None:
    async with sly(tmp_path) as (_, paddock):
        where = paddock.home / "run" / "paddock.sock"

        async def asked(method: str, path: str, body: Any = None) -> Any:
            return await asyncio.to_thread(ask, where, method, path, body, paddock_as="user:eve")

        async def command(*words: str, code: int = 0) -> str:
            said = await asyncio.to_thread(paddock, *words, code=code)
            return said.out + said.err

        refused = await asked("POST", "/calls", {"name": "sly.help"})
        call = refused.body["details"]["call_id"]
        explained = await asked("GET", f"/calls/{call}/explanation")
        told = [
            await command("call", "sly.help", "--as", "user:eve", code=5),
            await command("call", "sly.help", "--as", "user:eve", "--json", code=5),
            await command("explain", call, "--as", "user:eve"),
            await command("explain", call, "--as", "user:eve", "--json"),
        ]
        other = await asyncio.to_thread(paddock, "explain", call, "--as", "user:bob", "--json", code=3)

    assert refused.status == 403
    assert tells_nothing(refused.body)
    assert (explained.status, explained.body["calls"][0]["rules"]) == (200, [])
    assert tells_nothing(explained.body)
    assert all(tells_nothing(one) for one in told), told
    assert not any(word in other.out.lower() for word in SPECIFICS)


@pytest.mark.req("O-18", "constitutional violation")
@pytest.mark.req("O-20", "the administrator learns what")
async def test_the_administrator_is_told_at_once_and_finds_the_rule_and_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "paddock.calls"):
        async with sly(tmp_path) as (host, paddock):
            with pytest.raises(Denied) as refused:
                await host.call("sly.help", {}, context=made_by(await host.principal("user:eve")))
            call = refused.value.details["call_id"]
            (explained,) = await host.policy.explanations.explain(call, ANN)
            shown = await asyncio.to_thread(paddock, "ledger", "show", call, "--json")

    (warned,) = [record.__dict__["facts"] for record in caplog.records if record.name == "paddock.calls"]
    assert (warned["policies"], warned["call"]) == (RULE, call)
    assert any(f"(rule {RULE}, shipped" in line for line in explanation_lines(explained.to_value()))
    assert "who the assistant is" in "\n".join(explanation_lines(explained.to_value()))
    (entry,) = shown.json["entries"]
    assert (entry["facts"]["policies"], entry["personal"]["principal"]) == ([RULE], "user:eve")


async def test_of_what_a_plugin_is_refused_during_a_call_the_same_holds(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    ask_host = 'send({"jsonrpc": "2.0", "id": "q", "method": "paddock.cache.get", "params": {"key": "k"}})'
    program = as_program("sly", on_call(ask_host, 'return {"heard": read()["error"]}'))
    home.install("sly", program=program, methods=[DO_IT], tools=[], capabilities=["host:cache"])
    office = Office(home.path.parent)
    office.rule(QUIET)
    paddock = Paddock(home.path)
    paddock.quickly("user", "add", "eve", "--role", "member")
    async with open_host(Config(home=home.path, environ={})) as host:
        eve = await host.principal("user:eve")
        with caplog.at_level(logging.WARNING, "paddock.capabilities"):
            heard = await host.call("sly.do.it", {}, context=made_by(eve))
        to_her = await host.policy.explanations.explain("req_1", eve)
        (explained,) = to_her
        assert isinstance(explained, CallExplanation)
        record = await host.calls.records.show(explained.timeline.call, eve)
    (denied,) = [entry for entry in office.ledger() if entry.type == "plugin.capability_denied"]

    assert "Something was blocked." in heard["heard"]["message"]
    for told in (heard, *(explanation_lines(one.to_value()) for one in to_her), *(one.to_value() for one in to_her)):
        assert not any(word in str(told) for word in ("auditors", "quiet")), told
    assert denied.facts["policies"] == ["quiet"]
    assert not any(word in str(record) for word in ("quiet", "auditors")), record
    assert caplog.records[-1].__dict__["facts"]["policies"] == "quiet"
    assert "The auditors look at caches. (rule quiet" in paddock.quickly("explain", denied.id).out


async def test_of_what_a_rule_asks_about_the_caller_learns_that_somebody_is_asked_and_the_approver_why(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    office.rule(
        '@id("watch-eve") @text("Eve is suspected; ask Cleo about case 4711.") @public_text("Somebody is asked.")\n'
        'forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.look");'
    )
    async with office.open() as host:
        await asyncio.to_thread(Paddock(office.home).quickly, "user", "add", "eve", "--role", "member")
        eve = await host.principal("user:eve")
        with pytest.raises(NeedsApproval) as held:
            await host.call("mail.look", {}, context=made_by(eve))
        approval, call = held.value.details["approval"], held.value.details["call_id"]
        (to_her,), (to_ann,) = (
            await host.policy.explanations.explain(call, eve),
            await host.policy.explanations.explain(call, ANN),
        )
        asked = await host.approvals.find("default", approval)
        record = await host.calls.records.show(call, eve)
        waiting = await host.inbox.page(InboxQuery(eve, ALL_KINDS, with_others=True))
        found = await host.inbox.find(eve, approval)
        seen = await host.approvals.find("default", approval, to=eve)

    assert [item.id for item in waiting.items] == [approval]
    for told in (
        record,
        waiting,
        found,
        seen,
        held.value.message,
        held.value.details["preview"],
        explanation_lines(to_her.to_value()),
        to_her.to_value(),
    ):
        assert "Somebody is asked." in str(told)
        assert not any(word in str(told) for word in ("4711", "watch-eve", "suspected")), told
    assert asked["reason"] == asked["preview"]["reason"] == "Eve is suspected; ask Cleo about case 4711."
    assert "ask Cleo about case 4711. (rule watch-eve" in "\n".join(explanation_lines(to_ann.to_value()))
