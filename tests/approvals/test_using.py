"""An approval is used once, for exactly what was approved, and in the unit of work in which the call starts."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from msgspec.structs import replace
from tests.approvals.conftest import ANN, PAYLOAD, SEND, Office, asking

from paddock.approvals.consume import ApprovalMismatch
from paddock.approvals.model import ApprovalState, ApprovedAction, Binding
from paddock.core.canonical import sha256_of
from paddock.core.errors import Conflict, Denied, NotFound, PaddockError
from paddock.store.database import Transaction, open_direct

OTHER: dict[str, Any] = {
    "tenant": "elsewhere",
    "plugin": "post",
    "callable": "send_all",
    "digest": "sha256:cc",
    "definition": "sha256:dd",
    "effects": ("external_send", "db_write"),
    "policies": ("sending-needs-a-yes@22",),
}


async def test_an_approval_is_used_once(office: Office) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)

    used = await office.consumed(approval.id)

    assert used.id == approval.id
    assert office.heard.types()[-1] == "approval.consumed"
    with pytest.raises(Conflict, match="was approved and used"):
        await office.consumed(approval.id)


async def test_what_nobody_approved_is_not_used(office: Office) -> None:
    pending, denied = await office.asked(), await office.asked()
    await office.desk.deny("default", denied.id, ANN)

    with pytest.raises(Conflict, match="not approved yet"):
        await office.consumed(pending.id)
    with pytest.raises(Conflict, match="was denied"):
        await office.consumed(denied.id)


@pytest.mark.parametrize("field", ApprovedAction.__struct_fields__)
async def test_a_change_of_what_is_done_voids_it(office: Office, field: str) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)

    with pytest.raises((ApprovalMismatch, NotFound)):  # of another tenant there is no such approval
        await office.consumed(approval.id, replace(SEND, **{field: OTHER[field]}))

    assert (await office.desk.find("default", approval.id)).state is ApprovalState.APPROVED


@pytest.mark.parametrize(
    "other", [{"payload_hash": sha256_of({**PAYLOAD, "to": "eve@example.org"})}, {"requester": "user:eve"}]
)
async def test_a_change_of_the_parameters_or_of_who_asks_voids_it(office: Office, other: dict[str, Any]) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)

    with pytest.raises(ApprovalMismatch, match="changed since it was asked for"):
        await office.consumed(approval.id, **other)


@pytest.mark.parametrize("field", ["approvers", "quorum", "four_eyes", "nonce", "expires_at", "kind", "editors"])
async def test_a_row_that_was_tampered_with_is_found(office: Office, field: str) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)
    other: dict[str, Any] = {
        "approvers": ("role:member",),
        "quorum": 0,
        "four_eyes": True,
        "nonce": "00",
        "expires_at": "2999-01-01T00:00:00+00:00",
        "kind": "gate",
        "editors": ("user:eve",),
    }
    forged = replace(approval.binding, **{field: other[field]})

    def forge(tx: Transaction) -> None:
        tx.execute("UPDATE approvals SET binding = ? WHERE id = ?", (json.dumps(forged.to_json()), approval.id))

    await office.database.write(forge)

    with pytest.raises(ApprovalMismatch, match="the kept request changed"):
        await office.consumed(approval.id)


def test_every_field_of_a_binding_is_in_its_hash() -> None:
    binding = Binding(SEND, "action", "sha256:00", "user:bob", ("role:approver",), 1, False, "n", "2026")
    others: dict[str, Any] = {
        "kind": "gate",
        "payload_hash": "sha256:01",
        "requester": "user:eve",
        "approvers": (),
        "quorum": 2,
        "four_eyes": True,
        "nonce": "m",
        "expires_at": "2027",
        "editors": ("user:ann",),
    }
    changed = [replace(binding, **{name: value}) for name, value in others.items()]
    changed += [replace(binding, subject=replace(SEND, **{name: value})) for name, value in OTHER.items()]

    assert {*others, "subject"} == set(Binding.__struct_fields__)
    assert len({binding.hash(), *(one.hash() for one in changed)}) == 1 + len(changed)


async def test_it_expires_between_the_yes_and_the_use(office: Office) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)
    office.clock.pass_time(minutes=15)

    with pytest.raises(Conflict, match="has expired"):
        await office.consumed(approval.id)


async def test_void_ends_what_was_approved(office: Office) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)

    await office.desk.void("default", approval.id, "the plugin was upgraded")

    with pytest.raises(Conflict, match="is void: the plugin was upgraded"):
        await office.consumed(approval.id)


async def test_of_a_thousand_consumers_one_succeeds(office: Office) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)

    outcomes = await asyncio.gather(*(office.consumed(approval.id) for _ in range(1_000)), return_exceptions=True)

    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1
    assert office.heard.types().count("approval.consumed") == 1


async def test_of_consumers_in_several_threads_with_connections_of_their_own_one_succeeds(
    office: Office, database_address: str
) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)
    succeeded: list[str] = []
    together = threading.Barrier(4)

    def consumer() -> None:
        with open_direct(database_address) as database:
            together.wait(30)
            try:
                database.write(
                    lambda tx: office.desk.consume(
                        tx,
                        "default",
                        approval.id,
                        subject=SEND,
                        payload_hash=approval.binding.payload_hash,
                        requester="user:bob",
                    )
                )
            except PaddockError:
                return
            succeeded.append(threading.current_thread().name)

    threads = [threading.Thread(target=consumer) for _ in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(lambda: [thread.join(60) for thread in threads])

    assert len(succeeded) == 1


async def test_a_unit_that_fails_after_consuming_has_consumed_nothing(office: Office) -> None:
    approval = await office.asked()
    await office.desk.approve("default", approval.id, ANN)

    def unit(tx: Transaction) -> None:
        office.desk.consume(
            tx, "default", approval.id, subject=SEND, payload_hash=approval.binding.payload_hash, requester="user:bob"
        )
        raise OSError("the row of the start could not be written")

    with pytest.raises(OSError, match="could not be written"):
        await office.database.write(unit)

    assert (await office.desk.find("default", approval.id)).state is ApprovalState.APPROVED


@pytest.mark.req("S-33", "cannot be guessed")
async def test_tokens_have_256_bits_and_are_kept_as_hashes(office: Office) -> None:
    asked = [await office.desk.ask(asking()) for _ in range(50)]
    secrets = {token.partition(".")[2] for _, token in asked}
    kept = await office.database.read(lambda tx: repr(tx.all("SELECT * FROM approvals")))

    assert (len(secrets), {len(secret) for secret in secrets}) == (50, {43})  # 32 bytes in base64
    assert not any(secret in kept for secret in secrets)
    for approval, token in asked:
        assert (await office.desk.find_by_token("default", token, "user:bob")).id == approval.id


@pytest.mark.req("S-33", "works once")
async def test_of_many_who_use_a_token_at_once_one_succeeds(office: Office) -> None:
    _, token = await office.desk.ask(asking())

    tried = await asyncio.gather(
        *(office.desk.redeem_token("default", token) for _ in range(32)), return_exceptions=True
    )

    assert tried.count(None) == 1
    with pytest.raises(Denied, match="invalid or expired"):
        await office.desk.find_by_token("default", token, "user:bob")
