"""What the warden's client relies on: sockets handed over are served, and closed whatever happens."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time

import anyio
import pytest
from tests.cage.network.networked import PUBLIC, PlayedWorld, Told

from paddock.cage.network.egress_proxy import open_cage_network
from paddock.cage.spec import CageSpec
from paddock.core.errors import HostError
from paddock.net.egress import EgressGrant

SPEC = CageSpec("cage-0", "visitor", ("/bin/true",), "/", {}, network=(EgressGrant("api.example.test", 443),))


def handed_over() -> list[socket.socket]:
    """What the warden would send for this spec: a listener for its host, and the name server's socket."""
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 0))
    return [socket.create_server(("127.0.0.1", 0)), names]


async def test_what_was_connected_before_the_plugin_ended_is_still_taken() -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.set_result(await reader.read())
        finally:
            writer.close()

    world, told = PlayedWorld(), Told()
    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    world.names["api.example.test"] = [PUBLIC]
    world.servers[PUBLIC, 443] = server.sockets[0].getsockname()[1]
    async with open_cage_network(lambda _: told, outside=world) as network:
        sockets = handed_over()
        await network.attach("cage-0", SPEC, sockets)
        with socket.create_connection(sockets[0].getsockname()) as plugin:
            plugin.sendall(b"last words")
        network.detach("cage-0")  # the loop had no turn to take the connection
        (event,) = await told.connections(1)
        assert await heard == b"last words"
    assert (event.bytes_up, event.error) == (10, None)
    server.close()


async def test_sockets_that_do_not_fit_the_spec_are_refused_and_closed() -> None:
    async with open_cage_network(lambda _: Told(), outside=PlayedWorld()) as network:
        sockets = handed_over()
        sockets.pop().close()
        with pytest.raises(HostError) as refusal:
            await network.attach("cage-0", SPEC, sockets)
    assert refusal.value.error_code == "cage.network_mismatch"
    assert sockets[0].fileno() == -1


async def test_the_end_of_the_network_closes_and_records_everything() -> None:
    world, told = PlayedWorld(), Told()
    world.names["api.example.test"] = [PUBLIC]
    with socket.create_server(("127.0.0.1", 0)) as server:
        world.servers[PUBLIC, 443] = server.getsockname()[1]
        async with open_cage_network(lambda _: told, outside=world) as network:
            sockets = handed_over()
            await network.attach("cage-0", SPEC, sockets)
            reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
            far, _ = await asyncio.to_thread(server.accept)
        with far:
            assert [event.error for event in told.connected()] == ["net.plugin_ended"]
            assert [one.fileno() for one in sockets] == [-1, -1]
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()


async def test_without_free_descriptors_a_connection_waits_and_the_loop_does_not_spin() -> None:
    world, told = PlayedWorld(), Told()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with open_cage_network(lambda _: told, outside=world) as network:
        sockets = handed_over()
        await network.attach("cage-0", SPEC, sockets)
        with socket.socket() as plugin:
            plugin.connect(sockets[0].getsockname())
            free = os.dup(plugin.fileno())
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                before = time.process_time()
                await anyio.sleep(0.5)
                used = time.process_time() - before
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert used < 0.25
            (event,) = await told.connections(1)
    assert event.error == "net.unresolved"


async def test_a_cage_that_was_never_attached_or_is_detached_twice_is_no_trouble() -> None:
    told = Told()
    async with open_cage_network(lambda _: told, outside=PlayedWorld()) as network:
        network.detach("cage-7")
        await network.attach("cage-0", SPEC, handed_over())
        network.detach("cage-0")
        network.detach("cage-0")
        await network.attach("cage-1", CageSpec("cage-1", "visitor", ("/bin/true",), "/", {}), [])
    assert told.events == []


async def test_a_failure_of_the_block_comes_out_as_itself() -> None:
    with pytest.raises(KeyError):
        async with open_cage_network(lambda _: Told(), outside=PlayedWorld()) as network:
            await network.attach("cage-0", SPEC, handed_over())
            raise KeyError


async def test_what_a_cage_does_on_the_network_is_recorded_with_its_own_tenant() -> None:
    tenants: list[str] = []

    def told_for(tenant: str) -> Told:
        tenants.append(tenant)
        return Told()

    async with open_cage_network(told_for, outside=PlayedWorld()) as network:
        await network.attach("cage-1", CageSpec("cage-1", "visitor", ("/bin/true",), "/", {}, tenant="acme"), [])
    assert tenants == ["acme"]
