"""Calls of unknown outcome on a whole host: counted, looked at again when somebody asks, and settled by a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.recovery.test_recovering import count, known, with_plugin
from tests.gate.test_governed_calls import Office

from paddock import NoEffect
from paddock.core.errors import Conflict, NotFound, PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.host import Host
from paddock.store.database import Transaction, open_direct

BOB = PrincipalId("user:bob")
NOT_SOON = "2999-01-01T00:00:00+00:00"


async def in_doubt(host: Host) -> str:
    """The call of an effect that nobody knows the outcome of."""
    with pytest.raises(PaddockError):
        await count(host)
    (one,) = await host.calls.unknown_outcomes.list_effects(DEFAULT_TENANT)
    return one.effect.call


def functions(office: Office, looks: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {"count": lambda: office.do("count"), "counted": looks}


async def test_a_host_that_would_look_later_looks_when_somebody_asks_it_to(tmp_path: Path) -> None:
    office, shut = Office(tmp_path), [True]

    def looks(idempotency_key: str, params: dict[str, Any]) -> dict[str, Any]:
        if shut:
            raise NoEffect("not today")
        return {"happened": True, "result": {"done": 1}}

    def put_off(tx: Transaction) -> int:
        return tx.execute("UPDATE queue SET due_at = ? WHERE node IS NULL AND tries > 0", (NOT_SOON,))

    async with with_plugin(office, functions(office, looks), recovery="probe", probe="counted") as host:
        call = await in_doubt(host)
        with open_direct(office.home / "data" / "paddock.db") as database:
            async with asyncio.timeout(30):
                while True:  # until it has looked in vain
                    if database.write(put_off):
                        break
                    await asyncio.sleep(0.02)
        assert await host.calls.unknown_outcomes.count(DEFAULT_TENANT) == (1, 0, "")  # the host is at it by itself
        shut.clear()

        assert await host.calls.unknown_outcomes.probe_now(DEFAULT_TENANT, call)

        assert await known(host) == {"done": 1}
        assert await host.calls.unknown_outcomes.count(DEFAULT_TENANT) == (0, 0, "")
        with pytest.raises(Conflict, match="is not unknown: it has happened"):
            await host.calls.unknown_outcomes.probe_now(DEFAULT_TENANT, call)


async def test_what_only_a_person_can_know_is_settled_once_with_a_reason_on_record(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with with_plugin(office, functions(office, dict)) as host:
        call = await in_doubt(host)
        assert await host.calls.unknown_outcomes.count(DEFAULT_TENANT) == (1, 1, call)
        assert "effect.in_doubt" in [one.kind for one in (await host.repairs.list_repairs(DEFAULT_TENANT)).open]
        assert not await host.calls.unknown_outcomes.probe_now(DEFAULT_TENANT, call)

        async def settle() -> None:
            said = {"result": {"done": 1}, "result_given": True, "comment": "I saw\u202e it"}
            await host.calls.unknown_outcomes.resolve(DEFAULT_TENANT, call, happened=True, by=BOB, **said)

        await settle()
        with pytest.raises(Conflict):
            await settle()

        assert await count(host) == {"done": 1}
        assert await host.calls.unknown_outcomes.list_effects(DEFAULT_TENANT) == []
        assert [
            one.effect.call for one in await host.calls.unknown_outcomes.list_effects(DEFAULT_TENANT, resolved=True)
        ] == [call]
    (told,) = (entry.data for entry in office.ledger() if entry.type == "effect.resolved")
    assert (told["by"], told["resolution"]) == (BOB, "human")
    assert told["comment"].startswith("I saw")
    assert "\u202e" not in told["comment"]


async def test_another_tenant_knows_nothing_of_it(tmp_path: Path) -> None:
    office, acme = Office(tmp_path), Tenant("acme")
    async with with_plugin(office, functions(office, dict)) as host:
        call = await in_doubt(host)
        assert await host.calls.unknown_outcomes.count(acme) == (0, 0, "")
        assert await host.calls.unknown_outcomes.list_effects(acme) == []
        with pytest.raises(NotFound):
            await host.calls.unknown_outcomes.find(acme, call)
        with pytest.raises(NotFound):
            await host.calls.unknown_outcomes.probe_now(acme, call)
        with pytest.raises(NotFound):
            said = {"result": None, "result_given": False, "comment": "x"}
            await host.calls.unknown_outcomes.resolve(acme, call, happened=True, by=BOB, **said)
