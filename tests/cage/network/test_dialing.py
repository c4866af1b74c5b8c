"""Looking up, judging and connecting: only an address that was judged is dialled."""

from __future__ import annotations

import socket

import anyio
import pytest
from tests.cage.network.networked import PUBLIC, PlayedWorld

from paddock.net.dial import REFUSED, TIMED_OUT, UNRESOLVED, DialFailed, SystemNetwork, dial
from paddock.net.egress import OWN_ADDRESS, PRIVATE_ADDRESS, Destination, EgressGrant, EgressPolicy

API = Destination("api.example.test", 443)


async def dialled(
    world: PlayedWorld, *grants: EgressGrant, to: Destination = API, seconds: float = 5
) -> tuple[socket.socket, str]:
    return await dial(to, EgressPolicy(grants), world, lookups=anyio.Semaphore(1), seconds=seconds)


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00::1"])
async def test_a_granted_name_that_leads_to_a_private_address_is_refused_and_nothing_is_dialled(address: str) -> None:
    world = PlayedWorld()
    world.names["api.example.test"] = [address]
    with pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443))
    assert (refusal.value.code, refusal.value.address, refusal.value.denied) == (PRIVATE_ADDRESS, address, True)
    assert world.dialled == []


@pytest.mark.parametrize("place", [0, 1, 11])
async def test_a_name_of_which_one_address_is_private_is_refused_and_nothing_is_dialled(place: int) -> None:
    world = PlayedWorld()
    addresses = [f"8.8.8.{number}" for number in range(1, 12)]
    world.names["api.example.test"] = [*addresses[:place], "10.0.0.1", *addresses[place:]]
    with pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443))
    assert (refusal.value.code, refusal.value.address, refusal.value.denied) == (PRIVATE_ADDRESS, "10.0.0.1", True)
    assert world.dialled == []
    world.names["api.example.test"] += ["10.0.0.2"]
    with pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443), EgressGrant("10.0.0.1", 443))
    assert refusal.value.code == REFUSED, "unless one is granted, and then the others are left out"
    assert ("10.0.0.2", 443) not in world.dialled


async def test_a_private_address_that_is_granted_itself_is_dialled_for_its_name_too() -> None:
    world = PlayedWorld()
    world.names["api.example.test"] = ["10.0.0.1"]
    with pytest.raises(DialFailed):
        await dialled(world, EgressGrant("api.example.test", 443), EgressGrant("10.0.0.1", 443))
    assert world.dialled == [("10.0.0.1", 443)]


async def test_this_machines_public_address_is_dialled_only_where_it_is_granted_itself() -> None:
    class AtHome(PlayedWorld):
        def is_local_address(self, address: str) -> bool:
            return address == PUBLIC

    world = AtHome()
    world.names["api.example.test"] = [PUBLIC]
    with pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443))
    assert (refusal.value.code, refusal.value.denied) == (OWN_ADDRESS, True)
    with pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443), EgressGrant(PUBLIC, 443))
    assert refusal.value.code == REFUSED


async def test_a_name_that_nobody_knows_is_told_as_such() -> None:
    with pytest.raises(DialFailed) as refusal:
        await dialled(PlayedWorld(), EgressGrant("api.example.test", 443))
    assert (refusal.value.code, refusal.value.denied) == (UNRESOLVED, False)


async def test_localhost_and_addresses_are_never_looked_up() -> None:
    world = PlayedWorld()
    for host in ("localhost", "10.0.0.1"):
        with pytest.raises(DialFailed):
            await dialled(world, EgressGrant(host, 80), to=Destination(host, 80))
    assert world.asked == []
    assert world.dialled == [("127.0.0.1", 80), ("::1", 80), ("10.0.0.1", 80)]


async def test_an_address_that_never_answers_does_not_hide_the_next() -> None:
    world = PlayedWorld()
    world.silent.add("8.8.4.4")
    world.names["api.example.test"] = ["8.8.4.4", PUBLIC]
    with socket.create_server(("127.0.0.1", 0)) as server:
        world.servers[PUBLIC, 443] = server.getsockname()[1]
        connection, address = await dialled(world, EgressGrant("api.example.test", 443), seconds=0.5)
    connection.close()
    assert address == PUBLIC


async def test_when_nobody_answers_it_ends_in_time() -> None:
    world = PlayedWorld()
    world.silent |= {"8.8.4.4", PUBLIC}
    world.names["api.example.test"] = ["8.8.4.4", PUBLIC]
    with anyio.fail_after(5), pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443), seconds=0.2)
    assert refusal.value.code == TIMED_OUT


async def test_a_slow_name_server_is_not_waited_for_longer_than_for_a_connection() -> None:
    world = PlayedWorld()
    world.silent.add("api.example.test")
    with anyio.fail_after(5), pytest.raises(DialFailed) as refusal:
        await dialled(world, EgressGrant("api.example.test", 443), seconds=0.1)
    assert refusal.value.code == TIMED_OUT


async def test_the_real_outside_knows_this_machines_addresses_and_its_names() -> None:
    outside = SystemNetwork()
    assert outside.is_local_address("127.0.0.1")
    assert not outside.is_local_address("192.0.2.1")
    assert "127.0.0.1" in await outside.resolve("localhost")
    with pytest.raises(ConnectionRefusedError):
        await outside.connect("127.0.0.1", 1)
