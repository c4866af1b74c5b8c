"""A call that waited for a person goes on as if it were made now: by its caller's present rights, whatever it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by, outcome, tool
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from fixtures.butler import butler
from paddock import Config, open_host
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import NeedsApproval, PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.calls.handle import CallHandle
from paddock.host.host import Host
from paddock.ledger.write.append import TransactionLedger
from paddock.plugins.manage.enable import enable
from paddock.principals.people import change_rights
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction, open_direct

ASKS = '@id("{name}-is-asked-about") @text("It is asked about.") @approval("gate") @four_eyes("no")\n' + (
    'forbid (principal, action == Action::"callUnattended", resource == Callable::"{callable}");'
)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def eve(host: Host, *roles: str) -> CallContext:
    await host.identity.people.add(ANN, "eve", display_name="Eve", roles=roles)
    return made_by(await host.principal("user:eve"))


async def waiting(host: Host, context: CallContext, name: str = "mail.send") -> CallHandle:
    plugin, _, callable_name = name.partition(".")
    live = host.calls.registry.start(plugin, callable_name, {"to": "bob"}, context)
    with pytest.raises(NeedsApproval):
        await patiently(live.wait())
    return live


def change_scopes(office: Office, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> None:
    """What `paddock user scope` does, from another process."""

    def unit(tx: Transaction) -> None:
        ledger = TransactionLedger(tx, SystemClock(), SystemRandom(), DEFAULT_TENANT)
        change = AuditedTransaction(tx, DEFAULT_TENANT, ANN.id, SystemClock().now().isoformat(), ledger)
        change_rights(change, "eve", "scopes", add=add, remove=remove)

    with open_direct(office.home / "data" / "paddock.db") as database:
        database.write(unit)


async def test_a_role_that_was_taken_away_while_a_call_waited_does_not_count_when_it_is_approved(
    office: Office,
) -> None:
    async with office.open() as host:
        live = await waiting(host, await eve(host, "member"))
        await host.identity.people.change_rights(ANN, "eve", "roles", take=["member"])
        approval = str(live.approval_id)
        await host.approvals.approve(approval, ANN)
        ended = await outcome(host, live.id)
        request = await host.approvals.find("default", approval)

    assert (ended["status"], ended["error"]["code"]) == ("failed", "policy_denied")
    assert office.done == []
    assert request["state"] == "voided"


async def test_a_scope_that_was_taken_away_while_a_call_waited_does_not_count_when_it_is_approved(
    office: Office,
) -> None:
    tools = [tool("wire", "external_send", required_scopes=["bank.send"])]
    bank = {"paddock": 1, "name": "bank", "version": "1.0.0", "description": "Bank", "tools": tools}
    async with office.open() as host:
        await host.embed(bank, {"wire": lambda to: office.do(to)})
        await eve(host, "member")
        change_scopes(office, add=("bank.send",))
        live = await waiting(host, made_by(await host.principal("user:eve")), "bank.wire")
        change_scopes(office, remove=("bank.send",))
        await host.approvals.approve(str(live.approval_id), ANN)
        ended = await outcome(host, live.id)

    assert (ended["status"], ended["error"]["code"]) == ("failed", "permission_denied")
    assert office.done == []


async def test_who_was_disabled_while_their_call_waited_gets_nothing_sent(office: Office) -> None:
    async with office.open() as host:
        live = await waiting(host, await eve(host, "member"))
        await host.identity.people.set_enabled(ANN, "eve", on=False)
        with pytest.raises(PaddockError) as refused:
            await host.approvals.approve(str(live.approval_id), ANN)
        ended = await outcome(host, live.id)

    assert refused.value.error_code == ended["error"]["code"] == "principal.ended"
    assert office.done == []


async def test_calls_that_waited_for_the_approval_of_another_are_decided_by_present_rights_too(office: Office) -> None:
    async with office.open() as host:
        context = await eve(host, "member")
        first = await waiting(host, made_by(context.principal, idempotency_key="k1"))
        second = await waiting(host, made_by(context.principal, idempotency_key="k1"))
        await host.identity.people.change_rights(ANN, "eve", "roles", take=["member"])
        await host.approvals.approve(str(first.approval_id), ANN)
        ends = [await outcome(host, live.id) for live in (first, second)]

    assert [ended["error"]["code"] for ended in ends] == ["policy_denied"] * 2
    assert office.done == []


@pytest.mark.parametrize("approved", [True, False])
async def test_a_token_brings_nothing_to_who_lost_the_right_to_the_call(office: Office, approved: bool) -> None:
    async with office.open() as host:
        before = await eve(host, "member")  # a program may keep it for longer than it is true
        with pytest.raises(NeedsApproval) as held:
            await host.call("mail.send", {"to": "bob"}, context=before)
        details = held.value.details
        if approved:
            await host.approvals.approve(details["approval"], ANN)
            assert (await outcome(host, details["call_id"]))["status"] == "succeeded"
        await host.identity.people.change_rights(ANN, "eve", "roles", take=["member"])
        with pytest.raises(PaddockError) as refused:
            await host.call("mail.send", {"to": "bob"}, context=before, approval_token=details["token"])

    assert refused.value.error_code == "policy_denied"
    assert office.done == (["bob"] if approved else [])


READS: dict[str, Callable[[Host, CallContext], Any]] = {
    "butler.resource:read": lambda host, context: host.plugins.features.read_resource("butler", "memo://one", context),
    "butler.prompt:greet": lambda host, context: host.plugins.features.get_prompt(
        "butler", "greet", {"who": "Ann"}, context
    ),
}


def with_butler(folder: Path, asked_about: str) -> Config:
    """A home with a butler, one kind of whose reads needs approval."""
    home = Home(folder)
    home.take(butler(folder / "butler"))
    home.changing(lambda plugins: enable(plugins, "butler"))
    Office(folder).rule(ASKS.format(name="reading", callable=asked_about))
    return Config(home=home.path, start="nothing")


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(
    "restarted",
    [pytest.param(False, marks=pytest.mark.slow, id="in one run"), pytest.param(True, id="after a restart")],
)
async def test_a_read_that_waited_for_a_person_is_made_once_they_approve_it(
    tmp_path: Path, name: str, restarted: bool
) -> None:
    config = with_butler(tmp_path, name)
    async with open_host(config) as host:
        with pytest.raises(NeedsApproval) as held:
            await patiently(READS[name](host, host.operator_context(None)))
        details = held.value.details
        if not restarted:
            await host.approvals.approve(details["approval"], ANN)
            ended = await patiently(outcome(host, details["call_id"]))
    if restarted:
        async with open_host(config) as host:
            await host.approvals.approve(details["approval"], ANN)
            ended = await patiently(outcome(host, details["call_id"]))

    assert ended["status"] == "succeeded", ended
    assert ended["result"].keys() & {"contents", "messages"}


async def test_a_document_that_is_gone_by_the_approval_is_not_read(tmp_path: Path) -> None:
    async with open_host(with_butler(tmp_path, "butler.resource:read")) as host:
        with pytest.raises(NeedsApproval) as held:
            await patiently(host.plugins.features.read_resource("butler", "memo://one", host.operator_context(None)))
        await host.plugins.lifecycle.disable("butler")
        async with asyncio.timeout(30):
            with pytest.raises(PaddockError) as refused:
                await host.approvals.approve(held.value.details["approval"], ANN)
    assert refused.value.error_code == "plugin.not_enabled"


@pytest.mark.parametrize("name", READS)
async def test_a_read_that_waited_for_a_person_is_not_made_for_who_lost_the_right_to_it(
    tmp_path: Path, name: str
) -> None:
    async with open_host(with_butler(tmp_path, name)) as host:
        with pytest.raises(NeedsApproval) as held:
            await patiently(READS[name](host, await eve(host, "member")))
        await host.identity.people.change_rights(ANN, "eve", "roles", take=["member"])
        await host.approvals.approve(held.value.details["approval"], ANN)
        ended = await patiently(outcome(host, held.value.details["call_id"]))

    assert (ended["status"], ended["error"]["code"]) == ("failed", "policy_denied")
