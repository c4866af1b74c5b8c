"""The token of a call that waited for a person: it is for whoever asked, cannot be guessed, and works once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gate.test_governed_calls import ANN, Office, held, made_by

from paddock import Config, open_host
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Conflict, Denied, NeedsApproval, NotFound, PaddockError
from paddock.core.ids import PrincipalId
from paddock.host.host import Host
from paddock.host.wiring.gate import build_approvals
from paddock.store.database import open_database

CLEO = Principal(PrincipalId("local:cleo"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
PARAMS = {"to": "bob"}


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def claim(host: Host, token: str, by: Principal = ANN, params: Any = PARAMS, name: str = "mail.send") -> Any:
    async with asyncio.timeout(30):
        return await host.call(name, params, context=made_by(by), approval_token=token)


async def refused(host: Host, token: str, by: Principal = ANN, **more: Any) -> PaddockError:
    with pytest.raises(PaddockError) as error:
        await claim(host, token, by, **more)
    return error.value


async def test_a_token_brings_back_the_call_that_it_was_given_out_for_and_works_once(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        with pytest.raises(NeedsApproval):
            await claim(host, waits["token"])  # too early, and still good
        await host.approvals.approve(waits["approval"], ANN)

        assert await claim(host, waits["token"]) == {"done": "bob"}
        again = await refused(host, waits["token"])

    assert office.done == ["bob"], "the call was made once, and by itself"
    assert isinstance(again, Denied)
    assert again.error_code == "approval.token"


async def test_what_came_of_a_call_is_not_for_who_may_not_make_it_any_more(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN)
        without = await refused(host, waits["token"], replace(ANN, roles=frozenset()))

        assert without.error_code == "policy_denied"
        assert await claim(host, waits["token"]) == {"done": "bob"}, "the token is not used up by that"


async def test_of_many_who_come_with_one_token_at_once_one_is_served(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN)
        came = await asyncio.gather(*(claim(host, waits["token"]) for _ in range(16)), return_exceptions=True)

    served = [one for one in came if one == {"done": "bob"}]
    assert (len(served), office.done) == (1, ["bob"])
    assert all(isinstance(one, Denied) for one in came if one not in served)


async def test_a_token_is_good_for_nothing_to_anybody_else_and_for_nothing_else(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN)
        name, _, secret = waits["token"].partition(".")
        guesses = (f"{name}.{'x' * 43}", name, f"{name}.", secret, "", f"apr_other.{secret}", f"{name}.{secret}x")

        stolen = await refused(host, waits["token"], CLEO)
        assert stolen.error_code == "approval.token"
        assert {(await refused(host, guess)).error_code for guess in guesses} == {"approval.token"}
        other = [await refused(host, waits["token"], params={"to": "eve"})]
        other.append(await refused(host, waits["token"], params={}, name="mail.note"))
        assert {one.error_code for one in other} == {"approval.token_elsewhere"}

        assert await claim(host, waits["token"]) == {"done": "bob"}, "none of that used it up"
    assert len(secret) == 43  # 256 bits in base64


async def test_tokens_are_all_different_and_nowhere_on_disk(office: Office) -> None:
    async with office.open() as host:
        secrets = [(await held(host))["token"].partition(".")[2] for _ in range(20)]

    assert len(set(secrets)) == 20
    for file in (office.home / "data").rglob("*"):
        kept = file.read_bytes() if file.is_file() else b""
        assert not any(secret.encode() in kept for secret in secrets), file


async def test_a_token_tells_of_a_no_and_of_a_yes_that_came_to_nothing(office: Office) -> None:
    async with office.open() as host:
        waits, edited = await held(host), await held(host)
        await host.approvals.deny(waits["approval"], ANN, comment="not to him")
        await host.approvals.approve(edited["approval"], ANN, payload={"to": "cleo"})

        denied, replaced = await refused(host, waits["token"]), await refused(host, edited["token"])

    assert (denied.error_code, "not to him" in denied.message) == ("approval.denied", True)
    assert isinstance(replaced, Conflict)
    assert replaced.error_code == "approval.voided"


async def test_a_token_makes_the_call_that_was_approved_while_nobody_went_on_with_it(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        async with open_database(office.home / "data" / "paddock.db", role="command") as database:
            desk = build_approvals(database, SystemClock(), SystemRandom())
            await desk.approve("default", waits["approval"], ANN)
        assert office.done == []

        assert await claim(host, waits["token"]) == {"done": "bob"}
    assert office.done == ["bob"]


async def test_the_token_of_a_call_whose_plugin_was_gone_says_that_it_came_to_nothing(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
    async with open_host(Config(home=office.home, environ={})) as host:  # which does not bring the plugin along
        with pytest.raises(NotFound):
            await host.approvals.approve(waits["approval"], ANN)
        voided = await host.approvals.find("default", waits["approval"])
    async with office.open() as host:
        assert (voided["state"], office.done) == ("voided", [])
        assert (await refused(host, waits["token"])).error_code == "approval.voided"
