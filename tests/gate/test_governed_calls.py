"""Every call passes the one door: rules, people, the ledger. On a whole host with functions of its own as a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock import Config, open_host
from paddock.approvals.service import Approvals
from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Busy, Conflict, Denied, Invalid, NeedsApproval, NotFound, PluginError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, RequestId, Tenant
from paddock.host.host import Host
from paddock.host.inbox.inbox import ALL_KINDS
from paddock.host.inbox.source import InboxQuery
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import list_entries
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.consents import give_consent, revoke_consent
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction, open_direct

ANN = Principal(PrincipalId("local:ann"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
EVE = Principal(PrincipalId("user:eve"))
TO = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}


def tool(name: str, *effects: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "effects": list(effects), "input_schema": {"type": "object"}} | more


TOOLS = [
    tool("look", "read_only"),
    tool("note", "db_write"),
    tool("send", "external_send", input_schema=TO),
    tool("odd", "unknown"),
]


class Office:
    """A host on a home, with a plugin of functions that count how often each was called."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.done: list[Any] = []
        self.functions: dict[str, Callable[..., Any]] = {
            "look": lambda: self.do("look"),
            "note": lambda: self.do("note"),
            "send": lambda to: self.do(to),
            "odd": lambda: self.do("odd"),
        }

    def do(self, what: Any) -> dict[str, Any]:
        self.done.append(what)
        return {"done": what}

    def rule(self, text: str) -> None:
        """A rule of one's own."""
        folder = self.home / "policies"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / f"{len(list(folder.iterdir()))}.cedar"
        file.write_text(text)
        file.chmod(0o600)

    @asynccontextmanager
    async def open(self, version: str = "1.0.0", **environ: str) -> AsyncGenerator[Host, None]:
        async with open_host(Config(home=self.home, environ=environ)) as host:
            manifest = {"paddock": 1, "name": "mail", "version": version, "description": "Mail", "tools": TOOLS}
            await host.embed(manifest, self.functions)
            yield host

    def ledger(self) -> list[LedgerEntry]:
        """What was recorded, oldest first."""
        with open_direct(self.home / "data" / "paddock.db") as database:
            return database.read(lambda tx: list_entries(tx, newest_first=False, limit=1000))

    def calls(self) -> list[dict[str, Any]]:
        """What was recorded of calls."""
        return [{"type": entry.type, **entry.data} for entry in self.ledger() if entry.type.startswith("call.")]


def made_by(principal: Principal, **more: Any) -> CallContext:
    return CallContext(principal, RequestId("req_1"), tenant=principal.tenant, **more)


async def held(host: Host, name: str = "mail.send") -> dict[str, Any]:
    """A call of Ann's that waits for a person, as she is told of it."""
    try:  # not `pytest.raises`: its error would refer to the call, as if somebody followed it
        await host.call(name, {"to": "bob"} if name == "mail.send" else {}, context=made_by(ANN))
    except NeedsApproval as waits:
        return dict(waits.details)
    raise AssertionError("nobody is asked")


async def outcome(host: Host, call: str) -> Any:
    live = await host.calls.waiting.find(call, DEFAULT_TENANT)
    async with asyncio.timeout(30):
        await live.wait_ended()
    return live.to_json()


async def waiting_count(host: Host) -> int:
    """How many calls wait for a person, on whichever host."""
    return len(await host.approvals.list_requests(DEFAULT_TENANT))


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


# --- deciding -------------------------------------------------------------------------------------------------------


@pytest.mark.req("S-22", "nothing by default")
@pytest.mark.req("B-11")
async def test_a_call_no_rule_mentions_is_denied_and_recorded(office: Office) -> None:
    async with office.open() as host:
        with pytest.raises(Denied, match="no rule allows it") as denied:
            await host.call("mail.look", {}, context=made_by(EVE))

    (entry,) = office.calls()
    assert denied.value.error_code == "policy_denied"
    assert office.done == []
    assert (entry["status"], entry["success"]) == ("denied", False)
    assert (entry["decision"], entry["principal"]) == ("deny", "user:eve")
    assert entry["stands_for"] == []  # it never reached the plugin


async def test_a_rule_of_ones_own_decides_and_is_named(office: Office) -> None:
    office.rule('@id("no-notes") @text("Nobody writes notes on Sundays.")\n'
                'forbid (principal, action, resource == Callable::"mail.note");')  # fmt: skip
    async with office.open() as host:
        with pytest.raises(Denied, match="Nobody writes notes on Sundays") as denied:
            await host.call("mail.note", {})

    (entry,) = office.calls()
    assert denied.value.details["policies"] == ["no-notes"]
    assert (entry["policies"], entry["policy_version"]) == (["no-notes"], denied.value.details["policy_version"])


async def test_rules_that_are_changed_hold_without_a_restart_and_broken_ones_do_not(office: Office) -> None:
    async with office.open() as host:
        await host.call("mail.note", {})
        office.rule(
            '@id("no-notes") @text("No notes.")\nforbid (principal, action, resource == Callable::"mail.note");'
        )
        await host.policy.active.reload_if_changed()
        with pytest.raises(Denied, match="No notes"):
            await host.call("mail.note", {})
        office.rule("permit (principal, action, resource);")  # without an id and a text
        await host.policy.active.reload_if_changed()

        assert isinstance(host.policy.active.load_error, Invalid)
        with pytest.raises(Denied, match="No notes"):
            await host.call("mail.note", {})


async def test_a_plugin_of_another_tenant_is_not_there(office: Office) -> None:
    elsewhere = Principal(PrincipalId("user:zoe"), roles=frozenset({OPERATOR}), tenant=Tenant("acme"))
    async with office.open() as host:
        with pytest.raises(NotFound, match=r"there is no callable 'mail\.look'"):
            await host.call("mail.look", {}, context=made_by(elsewhere))
    assert office.done == []


# --- recording ------------------------------------------------------------------------------------------------------


@pytest.mark.req("K-17", "plugin and version")
@pytest.mark.req("K-17", "payload and result hash")
async def test_a_call_that_only_reads_is_one_entry_that_says_everything(office: Office) -> None:
    async with office.open() as host:
        await host.call("mail.look", {}, context=made_by(ANN))

    (entry,) = office.calls()
    assert entry["type"] == "call.ended"
    assert (entry["name"], entry["method"], entry["version"], entry["status"]) == ("mail", "look", "1.0.0", "succeeded")
    assert entry["digest"].startswith("embedded:")
    assert entry["payload_hash"].startswith("sha256:")
    assert entry["result_hash"].startswith("sha256:")
    assert entry["duration_ms"] > 0
    assert entry["stands_for"] == ["plugin.method_called", "plugin.method_returned"]


async def test_an_effect_is_on_disk_before_its_plugin_is_asked(office: Office) -> None:
    seen: list[str] = []
    office.functions["note"] = lambda: seen.extend(call["type"] for call in office.calls())
    async with office.open() as host:
        await host.call("mail.note", {})

    assert seen == ["call.started"]
    assert [call["type"] for call in office.calls()] == ["call.started", "call.ended"]


@pytest.mark.req("K-11")
@pytest.mark.req("K-17", "error")
async def test_refused_parameters_and_failures_are_recorded_with_their_errors(office: Office) -> None:
    def broken() -> None:
        raise PluginError("the paper is gone")

    office.functions["look"] = broken
    async with office.open() as host:
        with pytest.raises(Invalid):
            await host.call("mail.send", {"to": 1})
        with pytest.raises(PluginError, match="the paper is gone"):
            await host.call("mail.look", {})

    refused, failed = office.calls()
    assert (refused["status"], refused["error_code"]) == ("refused", "invalid_params")
    assert (failed["status"], failed["error_category"]) == ("failed", "plugin")


# --- asking people --------------------------------------------------------------------------------------------------


@pytest.mark.req("K-09", "gated by policy")
@pytest.mark.req("K-15", "by effects")
async def test_a_call_that_needs_a_yes_comes_back_at_once_and_goes_on_when_it_has_it(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        assert office.done == []
        assert waits["preview"]["params"] == {"to": "bob"}
        assert waits["preview"]["does"] == ["sends messages to the outside"]

        await host.approvals.approve(waits["approval"], ANN)

        assert (await outcome(host, waits["call_id"]))["result"] == {"done": "bob"}
    assert office.done == ["bob"]
    # A call that only waits is recorded in passing, so by its time and not by its place.
    happened = sorted((entry.at, entry.type) for entry in office.ledger())
    assert [kind for _, kind in happened if kind.startswith(("call.", "approval."))] == [
        "approval.requested",
        "call.ended",  # as pending
        "approval.answered",
        "approval.consumed",
        "call.started",
        "call.ended",
    ]


@pytest.mark.req("S-21", "effects only after approval")
async def test_a_no_is_told_to_whoever_waits(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.deny(waits["approval"], ANN, comment="not to him")

        ended = await outcome(host, waits["call_id"])

    assert (ended["status"], ended["error"]["code"]) == ("failed", "approval.denied")
    assert "not to him" in ended["error"]["message"]
    assert office.done == []


async def test_a_no_counts_also_where_the_plugin_is_gone(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
    async with open_host(Config(home=office.home, environ={})) as host:  # which does not bring the plugin along
        denied = await host.approvals.deny(waits["approval"], ANN)
        assert denied["state"] == "denied"
        other = await host.approvals.list_requests("default")
    assert other == []


async def test_it_goes_on_across_a_restart(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
    async with office.open() as host:
        assert (await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)).status == "pending_approval"
        await host.approvals.approve(waits["approval"], ANN)
        assert (await outcome(host, waits["call_id"]))["status"] == "succeeded"
    assert office.done == ["bob"]


async def test_what_was_edited_is_what_is_done(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN, payload={"to": "cleo"})
        assert (await outcome(host, waits["call_id"]))["result"] == {"done": "cleo"}
    assert office.done == ["cleo"]


async def test_what_was_edited_wrongly_is_not_done(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        with pytest.raises(Invalid) as refused:
            await host.approvals.approve(waits["approval"], ANN, payload={"to": 7})
        assert [problem.path for problem in refused.value.problems] == ["to"]
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "pending"
    assert office.done == []


async def test_a_change_of_the_plugin_voids_the_yes(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
    async with office.open(version="2.0.0") as host:
        await host.approvals.approve(waits["approval"], ANN)
        ended = await outcome(host, waits["call_id"])

        assert ended["error"]["code"] == "approval.changed"
        assert "the plugin's files" in ended["error"]["message"]
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "voided"
    assert office.done == []


async def test_a_change_of_the_rule_that_asked_voids_the_yes(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        office.rule('@id("sending-needs-a-yes") @text("Sending takes two.") @approval("action") @quorum("2")\n'
                    'forbid (principal, action == Action::"callUnattended", resource)\n'
                    'when { resource.effects.contains(Effect::"external_send") };')  # fmt: skip
        await host.policy.active.reload_if_changed()
        await host.approvals.approve(waits["approval"], ANN)

        assert "the rules that asked" in (await outcome(host, waits["call_id"]))["error"]["message"]
    assert office.done == []


async def test_the_requesters_right_is_checked_again(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        office.rule('@id("not-ann") @text("Ann may not send any more.")\n'
                    'forbid (principal == User::"local:ann", action, resource == Callable::"mail.send");')  # fmt: skip
        await host.policy.active.reload_if_changed()
        await host.approvals.approve(waits["approval"], ANN)

        assert (await outcome(host, waits["call_id"]))["error"]["code"] == "policy_denied"
    assert office.done == []


async def test_a_standing_yes_is_asked_for_once_until_it_is_revoked(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host, "mail.odd")
        await host.approvals.approve(waits["approval"], ANN)
        assert (await outcome(host, waits["call_id"]))["status"] == "succeeded"

        assert await host.call("mail.odd", {}, context=made_by(ANN)) == {"done": "odd"}
        (standing,) = await host.approvals.list_standing("default")
        await host.approvals.revoke_standing(standing["id"], ANN)
        await held(host, "mail.odd")
    assert office.done == ["odd", "odd"]


async def test_what_was_confirmed_holds_after_a_restart_and_ends_with_an_upgrade(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host, "mail.odd")
        await host.approvals.approve(waits["approval"], ANN)
        await outcome(host, waits["call_id"])
    async with office.open() as host:
        assert await host.call("mail.odd", {}, context=made_by(ANN)) == {"done": "odd"}
        assert [one["outdated"] for one in await host.approvals.list_standing("default")] == [False]
    async with office.open(version="2.0.0") as host:
        await held(host, "mail.odd")
        assert [one["outdated"] for one in await host.approvals.list_standing("default")] == [True]


async def test_nobody_is_asked_about_what_was_confirmed_a_moment_before(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office.open() as host:
        waits = await held(host, "mail.odd")
        look, given = Approvals.standing_for, list[str]()

        async def look_and_then_confirm(approvals: Approvals, *about: Any) -> Any:
            found = await look(approvals, *about)
            if not given:
                given.append(waits["approval"])
                await host.approvals.approve(waits["approval"], ANN)
            return found

        monkeypatch.setattr(Approvals, "standing_for", look_and_then_confirm)
        assert await host.call("mail.odd", {}, context=made_by(ANN)) == {"done": "odd"}
        await outcome(host, waits["call_id"])
        assert await host.approvals.list_requests("default") == []


async def test_a_cancelled_call_waits_no_longer(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        live = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
        await host.approvals.cancel(live)

        assert live.status == "cancelled"
        with pytest.raises(Conflict, match="withdrawn"):
            await host.approvals.approve(waits["approval"], ANN)
    assert office.done == []


# --- how often ------------------------------------------------------------------------------------------------------


async def test_whoever_calls_too_often_is_told_how_long_to_wait(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_CALLS_PER_PRINCIPAL="2") as host:
        for _ in range(2):
            await host.call("mail.look", {}, context=made_by(ANN))
        with pytest.raises(Busy, match="2 calls in a minute") as busy:
            await host.call("mail.look", {}, context=made_by(ANN))
        await host.call("mail.look", {})  # somebody else

    assert busy.value.error_code == "rate_limited"
    assert 0 < busy.value.details["retry_after"] <= 30
    assert [call["status"] for call in office.calls()] == ["succeeded", "succeeded", "refused", "succeeded"]


async def test_what_somebody_may_not_do_uses_their_own_share_and_nobody_else_s(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_CALLS_PER_TENANT="1", PADDOCK_LIMITS_CALLS_PER_PRINCIPAL="2") as host:
        for _ in range(2):
            with pytest.raises(Denied):
                await host.call("mail.look", {}, context=made_by(EVE))
        with pytest.raises(Busy, match="2 calls in a minute"):
            await host.call("mail.look", {}, context=made_by(EVE))
        await host.call("mail.look", {}, context=made_by(ANN))


async def test_a_call_that_waited_was_counted_when_it_was_made(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_CALLS_PER_TENANT="1") as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN)
        assert (await outcome(host, waits["call_id"]))["result"] == {"done": "bob"}


async def test_a_day_s_quota_holds_over_a_restart(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_DAILY_CALLS_PER_PLUGIN="2") as host:
        await host.call("mail.look", {})
    async with office.open(PADDOCK_LIMITS_DAILY_CALLS_PER_PLUGIN="2") as host:
        await host.call("mail.look", {})
        with pytest.raises(Busy, match="mail has had 2 calls today") as busy:
            await host.call("mail.look", {})

    assert busy.value.error_code == "quota_exceeded"
    assert 0 < busy.value.details["retry_after"] <= 86_400


@pytest.mark.req("K-28")
async def test_an_effect_starts_by_what_its_person_consents_to_as_it_starts(office: Office) -> None:
    office.rule(
        '@id("consented") @text("Not without consent.") forbid (principal is User, action, '
        'resource == Callable::"mail.note") unless { principal.consents.contains(resource) };'
    )

    def changed(change: Callable[[AuditedTransaction, str, str, str], object]) -> None:
        clock, random = SystemClock(), SystemRandom()

        def unit(tx: Transaction) -> None:
            publish = TransactionLedger(tx, clock, random, DEFAULT_TENANT)
            change(
                AuditedTransaction(tx, DEFAULT_TENANT, ANN.id, clock.now().isoformat(), publish), ANN.id, "mail", "note"
            )

        with open_direct(office.home / "data" / "paddock.db") as beside:
            beside.write(unit)

    async with office.open() as host:
        with pytest.raises(Denied):
            await host.call("mail.note", {}, context=made_by(ANN))
        changed(give_consent)
        await host.call("mail.note", {}, context=made_by(ANN))
        changed(revoke_consent)
        with pytest.raises(Denied):
            await host.call("mail.note", {}, context=made_by(ANN))

    assert office.done == ["note"]


async def test_a_reason_that_a_rule_withholds_is_in_no_part_of_what_its_requester_sees(office: Office) -> None:
    office.rule(
        '@id("watch") @text("Ann is under review.") @public_text("A person checks this first.") @approval("action")\n'
        'forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.note");'
    )
    async with office.open() as host:
        member = Principal(PrincipalId("user:mia"), roles=frozenset({"member"}))
        with pytest.raises(NeedsApproval) as waits:
            await host.call("mail.note", {}, context=made_by(member))
        shown = await host.approvals.find("default", waits.value.details["approval"], to=member)
        (listed,) = await host.approvals.list_requests("default", to=member)
        (item,) = (await host.inbox.page(InboxQuery(member, ALL_KINDS, with_others=True))).items
    assert (shown["reason"], shown["preview"]["reason"]) == ("A person checks this first.",) * 2
    assert (item.detail, item.rules) == ("A person checks this first.", ())
    assert "under review" not in str((shown, listed, item, waits.value, waits.value.details))
