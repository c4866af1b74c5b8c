"""Rights that somebody had when a call was made, and has not any more: scopes, and places in groups."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by, outcome, tool

from paddock.core.call import Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Denied, NeedsApproval
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.host.host import Host
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.groups import add_group, change_member
from paddock.principals.people import add_person, change_rights
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction, open_direct

CLOCK, RANDOM = SystemClock(), SystemRandom()
SCOPE = "post:send"
POST = {"paddock": 1, "name": "post", "version": "1.0.0", "description": "Post"} | {
    "tools": [tool("send", "external_send", required_scopes=[SCOPE]), tool("look", "read_only")]
}
ONLY_CLERKS_LOOK = """
@id("only-clerks-look") @text("Only clerks look.")
forbid (principal, action in Action::"anyCall", resource == Callable::"post.look")
unless { principal in Group::"clerks" };
"""
ONLY_APPROVERS_SEND = """
@id("only-approvers-send") @text("Only approvers send.")
forbid (principal, action in Action::"anyCall", resource == Callable::"post.send")
unless { principal in Role::"approver" };
"""


class PostOffice(Office):
    """Eve, a member, may send letters and is a clerk."""

    @asynccontextmanager
    async def open_for_eve(self) -> AsyncGenerator[Host, None]:
        async with self.open() as host:
            await host.embed(POST, {"send": lambda: self.do("letter"), "look": lambda: self.do("look")})
            self.beside(lambda change: add_person(change, "eve", roles=("member",), scopes=(SCOPE,)))
            self.beside(lambda change: add_group(change, "clerks"))
            self.beside(lambda change: change_member(change, "clerks", "eve"))
            yield host

    def beside(self, change: Callable[[AuditedTransaction], object]) -> None:
        """What a command does beside the host."""

        def unit(tx: Transaction) -> None:
            now, record = CLOCK.now().isoformat(), TransactionLedger(tx, CLOCK, RANDOM, "default")
            change(AuditedTransaction(tx, DEFAULT_TENANT, PrincipalId("local:ada"), now, record))

        with open_direct(self.home / "data" / "paddock.db") as database:
            database.write(unit)

    def give_scope(self) -> None:
        self.beside(lambda change: change_rights(change, "eve", "scopes", add=(SCOPE,)))

    def take_scope(self) -> None:
        self.beside(lambda change: change_rights(change, "eve", "scopes", remove=(SCOPE,)))


@pytest.fixture
def office(tmp_path: Path) -> PostOffice:
    return PostOffice(tmp_path)


async def waits_for_a_yes(host: Host) -> dict[str, str]:
    with pytest.raises(NeedsApproval) as waits:
        await host.call("post.send", {}, principal=await host.principal("user:eve"))
    return dict(waits.value.details)


@pytest.mark.req("K-12", "by the host")
@pytest.mark.req("B-23", "revoked rights end waiting calls")
async def test_a_call_that_was_approved_is_not_made_for_who_has_lost_its_scope_meanwhile(office: PostOffice) -> None:
    async with office.open_for_eve() as host:
        waits = await waits_for_a_yes(host)
        office.take_scope()
        await host.approvals.approve(waits["approval"], ANN)
        ended = await outcome(host, waits["call_id"])

    assert (ended["status"], ended["error"]["code"], office.done) == ("failed", "permission_denied", [])
    assert [call["status"] for call in office.calls()] == ["pending_approval", "denied"]


async def test_a_token_gives_what_came_of_a_call_to_nobody_who_has_lost_its_scope(office: PostOffice) -> None:
    async with office.open_for_eve() as host:
        waits = await waits_for_a_yes(host)
        await host.approvals.approve(waits["approval"], ANN)
        await outcome(host, waits["call_id"])
        office.take_scope()
        with pytest.raises(Denied) as refused:
            context = made_by(await host.principal("user:eve"))
            await host.call("post.send", {}, context=context, approval_token=waits["token"])

        assert refused.value.error_code == "permission_denied"
        office.give_scope()
        context = made_by(await host.principal("user:eve"))
        given = await host.call("post.send", {}, context=context, approval_token=waits["token"])
    assert (given, office.done) == ({"done": "letter"}, ["letter"]), "the refusal did not use the token up"


async def test_who_leaves_a_group_is_denied_what_its_members_alone_may_do_from_the_next_call_on(
    office: PostOffice,
) -> None:
    office.rule(ONLY_CLERKS_LOOK)
    async with office.open_for_eve() as host:
        for _ in range(2):  # the second time by a decision that is remembered
            await host.call("post.look", {}, principal=await host.principal("user:eve"))
        office.beside(lambda change: change_member(change, "clerks", "eve", remove=True))
        with pytest.raises(Denied, match="Only clerks look"):
            await host.call("post.look", {}, principal=await host.principal("user:eve"))
    assert office.done == ["look"] * 2


@pytest.mark.parametrize("lost", [False, True])
async def test_a_call_made_with_a_token_goes_on_with_the_role_of_that_token_as_long_as_its_owner_has_it(
    office: PostOffice, lost: bool
) -> None:
    """Which roles a token stands for is nowhere but in the call."""
    office.rule(ONLY_APPROVERS_SEND)
    async with office.open_for_eve() as host:
        office.beside(lambda change: change_rights(change, "eve", "roles", add=("approver",)))
        owner = await host.principal("user:eve")
        token = Principal(PrincipalId("token:eve"), owner.scopes, owner.roles, kind="key", owner=owner.id)
        with pytest.raises(NeedsApproval) as waits:
            await host.call("post.send", {}, context=made_by(token))
        if lost:
            office.beside(lambda change: change_rights(change, "eve", "roles", remove=("approver",)))
        await host.approvals.approve(waits.value.details["approval"], ANN)
        ended = await outcome(host, waits.value.details["call_id"])

    assert (ended["status"], office.done) == (("failed", []) if lost else ("succeeded", ["letter"]))


@pytest.mark.parametrize("lost", [False, True])
async def test_a_call_that_nobody_follows_goes_on_with_the_role_of_its_token_also_after_a_restart(
    office: PostOffice, lost: bool
) -> None:
    office.rule(ONLY_APPROVERS_SEND)
    async with office.open_for_eve() as host:
        office.beside(lambda change: change_rights(change, "eve", "roles", add=("approver",)))
        owner = await host.principal("user:eve")
        token = Principal(PrincipalId("token:eve"), owner.scopes, owner.roles, kind="key", owner=owner.id)
        with pytest.raises(NeedsApproval) as waits:
            await host.call("post.send", {}, context=made_by(token))
        details = dict(waits.value.details)
    if lost:
        office.beside(lambda change: change_rights(change, "eve", "roles", remove=("approver",)))
    async with office.open() as host:
        await host.embed(POST, {"send": lambda: office.do("letter"), "look": lambda: office.do("look")})
        await host.approvals.approve(details["approval"], ANN)
        ended = await outcome(host, details["call_id"])

    assert (ended["status"], office.done) == (("failed", []) if lost else ("succeeded", ["letter"]))
