"""A plugin's network, in real cages: it reaches what was granted and nothing else, and everything is on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cage.network.networked import PUBLIC, Yard, open_yard


@pytest.fixture(params=["cold", "warm"])
async def yard(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Yard, None]:
    """Both ways to start a plugin, which must make no difference."""
    async with open_yard(tmp_path, warm=request.param == "warm") as opened:
        opened.world.names["api.example.test"] = [PUBLIC]
        yield opened


@asynccontextmanager
async def parrot(yard: Yard, *ports: int, at: str = PUBLIC) -> AsyncGenerator[int, None]:
    """A server of the outside world that says what it heard. Gives its real port on this machine's loopback."""

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"heard " + await reader.read())
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(repeat, "127.0.0.1", 0)
    real: int = server.sockets[0].getsockname()[1]
    yard.world.servers |= {(at, port): real for port in ports}
    try:
        yield real
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.req("O-12", "domains")
@pytest.mark.req("G-48", "host and port")
async def test_a_granted_host_is_reached_by_name_and_the_connection_is_on_record(yard: Yard) -> None:
    async with parrot(yard, 443):
        plugin = await yard.start("tell(outcome(talk, 'api.example.test', 443))", "net:api.example.test:443")
        assert await plugin.told() == "heard hello"
        await plugin.ended()
    (event,) = yard.told.connected()
    assert (event.name, event.cage_id) == ("visitor", "cage-0")
    assert (event.host, event.port, event.address) == ("api.example.test", 443, PUBLIC)
    assert (event.bytes_up, event.bytes_down, event.error) == (5, 11, None)
    assert yard.told.denied() == []


@pytest.mark.req("O-12", "domains")
@pytest.mark.req("G-48", "host and port")
async def test_a_name_that_is_not_granted_does_not_exist_and_never_leaves_the_machine(yard: Yard) -> None:
    plugin = await yard.start(
        "tell(outcome(talk, 'c2VjcmV0.evil.example.test', 443))\n"
        "tell(outcome(socket.getaddrinfo, 'example.test', 443))",
        "net:api.example.test:443",
    )
    assert [await plugin.told(), await plugin.told()] == ["no such name", "no such name"]
    await plugin.ended()
    denied = {(event.host, event.reason) for event in yard.told.denied()}
    assert denied == {("c2VjcmV0.evil.example.test".lower(), "net.not_granted"), ("example.test", "net.not_granted")}
    assert yard.world.asked == []


@pytest.mark.req("G-48", "host and port")
async def test_another_port_of_a_granted_host_is_refused(yard: Yard) -> None:
    async with parrot(yard, 443, 80):
        plugin = await yard.start("tell(outcome(talk, 'api.example.test', 80))", "net:api.example.test:443")
        assert await plugin.told() == "ECONNREFUSED"
    assert yard.world.dialled == []


async def test_with_one_host_granted_no_address_no_datagram_and_no_raw_socket_gets_out(yard: Yard) -> None:
    async with parrot(yard, 443) as real:
        plugin = await yard.start(
            f"""
def datagram(address, port=53, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.settimeout(2)
        one.connect((address, port))
        one.send(b"data")
        return repr(one.recv(100))

tell(dict(
    address=outcome(talk, "{PUBLIC}", 443),
    metadata=outcome(talk, "169.254.169.254", 80),
    private=outcome(talk, "10.0.0.1", 80),
    ipv6=outcome(talk, "2606:4700::1111", 443),
    loopback=outcome(talk, "127.0.0.1", {real}),
    loopback6=outcome(talk, "::1", {real}),
    udp=outcome(datagram, "8.8.8.8"),
    udp6=outcome(datagram, "2606:4700::1111", 53, socket.AF_INET6),
    udp_to_name=outcome(datagram, "api.example.test", 443),
))
tell([outcome(socket.socket, family, kind, protocol) for family, kind, protocol in (
    (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), (socket.AF_INET6, socket.SOCK_RAW, 58),
    (socket.AF_PACKET, socket.SOCK_RAW, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 12), (socket.AF_VSOCK, 1, 0),
)])
""",
            "net:api.example.test:443",
        )
        assert await plugin.told() == {
            "address": "ENETUNREACH",
            "metadata": "ENETUNREACH",
            "private": "ENETUNREACH",
            "ipv6": "ENETUNREACH",
            "loopback": "ECONNREFUSED",
            "loopback6": "ECONNREFUSED",
            "udp": "ENETUNREACH",
            "udp6": "ENETUNREACH",
            "udp_to_name": "ECONNREFUSED",
        }
        assert set(await plugin.told()) <= {"EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT"}
    assert yard.world.dialled == []


@pytest.mark.req("O-12", "network")
@pytest.mark.req("G-48", "none")
@pytest.mark.req("G-31", "no-network plugin")
async def test_a_plugin_without_network_reaches_nothing(yard: Yard) -> None:
    async with parrot(yard, 443) as real:
        plugin = await yard.start(
            f"""
tell([outcome(talk, host, port) for host, port in
      (("api.example.test", 443), ("{PUBLIC}", 443), ("1.1.1.1", 53), ("2606:4700::1111", 443), ("169.254.169.254", 80),
       ("127.0.0.1", {real}), ("127.77.0.2", 443), ("127.77.0.1", 53))])
""",
            "net:[]",
        )
        unreachable = ["ENETUNREACH"] * 4
        assert await plugin.told() == ["no such name", *unreachable, *["ECONNREFUSED"] * 3]
        await plugin.ended()
    assert yard.told.events == []


@pytest.mark.req("G-48", "all ports of a host")
async def test_all_ports_of_a_granted_host_are_reached_and_no_other_hosts(yard: Yard) -> None:
    async with parrot(yard, 443, 5432):
        plugin = await yard.start(
            "tell([outcome(talk, 'api.example.test', port) for port in (443, 5432, 9)])\n"
            "tell([outcome(talk, 'other.example.test', 443), outcome(talk, '30.77.0.9', 443)])",
            "net:api.example.test:*",
        )
        assert await plugin.told() == ["heard hello", "heard hello", "cut off"]
        assert await plugin.told() == ["no such name", "ENETUNREACH"]
        await plugin.ended()
    told = [(event.port, event.error) for event in yard.told.connected()]
    assert told == [(443, None), (5432, None), (9, "net.refused")]
    assert [event.host for event in yard.told.denied()][:1] == ["other.example.test"]


async def test_the_way_that_redirected_connections_take_leads_nowhere_by_itself(yard: Yard) -> None:
    async with parrot(yard, 1, at="127.0.0.1"):
        plugin = await yard.start("tell(outcome(talk, '127.0.0.1', 1))", "net:api.example.test:*", "net:localhost:8080")
        assert await plugin.told() == "cut off"
        await plugin.ended()
    (event,) = yard.told.denied()
    assert (event.host, event.port, event.reason) == ("localhost", 1, "net.not_granted")
    assert yard.world.dialled == []


@pytest.mark.req("G-48", "everything public")
async def test_a_grant_of_everything_reaches_every_public_host_by_name_and_by_address(yard: Yard) -> None:
    yard.world.names["other.example.test"] = ["8.8.4.4"]
    async with parrot(yard, 443), parrot(yard, 25, at="8.8.4.4"), parrot(yard, 443, at="2606:4700::1111"):
        plugin = await yard.start(
            f"tell([outcome(talk, 'api.example.test', 443), outcome(talk, 'Other.Example.Test', 25)])\n"
            f"tell([outcome(talk, host, 443) for host in ('{PUBLIC}', '2606:4700::1111', 'nowhere.example.test')])",
            "net:*",
        )
        assert await plugin.told() == ["heard hello", "heard hello"]
        assert await plugin.told() == ["heard hello", "heard hello", "cut off"]
        await plugin.ended()
    told = [(event.host, event.address, event.error) for event in yard.told.connected()]
    assert told == [
        ("api.example.test", PUBLIC, None),
        ("other.example.test", "8.8.4.4", None),
        (PUBLIC, PUBLIC, None),
        ("2606:4700::1111", "2606:4700::1111", None),
        ("nowhere.example.test", None, "net.unresolved"),
    ]


@pytest.mark.req("G-48", "everything public")
@pytest.mark.req("B-23", "SSRF")
async def test_even_a_grant_of_everything_reaches_nothing_private(yard: Yard) -> None:
    yard.world.names |= {"rebound.example.test": ["169.254.169.254"], "inner.example.test": ["10.0.0.1", "127.0.0.1"]}
    async with parrot(yard, 80, at="169.254.169.254"), parrot(yard, 80, at="10.0.0.1") as real:
        plugin = await yard.start(
            f"""
def datagram(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(2)
        one.connect((address, port))
        one.send(b"data")
        return repr(one.recv(100))

tell([outcome(talk, host, 80) for host in
      ("169.254.169.254", "10.0.0.1", "192.168.1.1", "100.64.0.1", "rebound.example.test", "inner.example.test",
       "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1")])
tell([outcome(talk, host, {real}) for host in ("127.0.0.1", "localhost", "::1")] + [outcome(datagram, "8.8.8.8", 53)])
""",
            "net:*",
        )
        assert await plugin.told() == ["cut off"] * 9
        assert await plugin.told() == ["ECONNREFUSED"] * 4
        await plugin.ended()
    denied = {(event.host, event.port): event.reason for event in yard.told.denied()}
    assert set(denied.values()) == {"net.private_address"}
    assert set(denied) == {
        (host, 80)
        for host in (
            "169.254.169.254",
            "10.0.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "rebound.example.test",
            "inner.example.test",
            "fd00::1",
            "64:ff9b::a00:1",
        )
    }
    assert yard.world.dialled == []


@pytest.mark.req("B-23", "SSRF")
async def test_a_name_that_turns_from_public_to_private_is_refused_the_second_time(yard: Yard) -> None:
    async with parrot(yard, 443), parrot(yard, 443, at="127.0.0.1"):
        plugin = await yard.start(
            "tell(outcome(talk, 'api.example.test', 443)); input()\ntell(outcome(talk, 'api.example.test', 443))",
            "net:api.example.test:443",
        )
        assert await plugin.told() == "heard hello"
        yard.world.names["api.example.test"] = ["127.0.0.1"]
        plugin.go_on()
        assert await plugin.told() == "cut off"
        await plugin.ended()
    (event,) = yard.told.denied()
    assert (event.host, event.address, event.reason) == ("api.example.test", "127.0.0.1", "net.private_address")
    assert yard.world.dialled == [(PUBLIC, 443)]


@pytest.mark.req("G-48", "a private address by name")
async def test_a_private_address_is_reached_where_the_grant_names_it(yard: Yard) -> None:
    async with parrot(yard, 5432, at="10.0.0.5"), parrot(yard, 5432, at="fd00::5"):
        plugin = await yard.start(
            "tell([outcome(talk, host, port) for host, port in"
            " (('10.0.0.5', 5432), ('fd00::5', 5432), ('10.0.0.5', 22), ('10.0.0.6', 5432))])",
            "net:10.0.0.5:5432",
            "net:[fd00::5]:5432",
        )
        assert await plugin.told() == ["heard hello", "heard hello", "ECONNREFUSED", "ENETUNREACH"]


@pytest.mark.req("G-48", "a private address by name")
@pytest.mark.parametrize("form", ["net:localhost:{}", "net:127.0.0.1:{}", "net:localhost:*"])
async def test_the_hosts_own_loopback_is_reached_only_where_it_is_granted(yard: Yard, form: str) -> None:
    async with parrot(yard) as real:
        yard.world.servers["127.0.0.1", real] = real
        plugin = await yard.start(
            f"tell([outcome(talk, host, {real}) for host in ('localhost', '127.0.0.1')])", form.format(real)
        )
        assert await plugin.told() == ["heard hello", "heard hello"]


@pytest.mark.req("G-38", "sockets")
async def test_two_plugins_reach_each_what_it_was_granted_and_not_each_other(yard: Yard) -> None:
    yard.world.names["other.example.test"] = [PUBLIC]
    script = """
server = socket.create_server(("127.0.0.1", 5000))
both = [outcome(talk, host, 443) for host in ("api.example.test", "other.example.test")]
tell(both)
input()
tell([outcome(socket.create_connection, (host, 5000), 2) for host in ("127.0.0.2", "30.77.0.2")])
"""
    async with parrot(yard, 443):
        one = await yard.start(script, "net:api.example.test:443", name="one")
        other = await yard.start(script.replace("5000", "5001", 1), "net:other.example.test:443", name="other")
        assert await one.told() == ["heard hello", "no such name"]
        assert await other.told() == ["no such name", "heard hello"]
        other.go_on()
        assert await other.told() == ["ECONNREFUSED", "ECONNREFUSED"]
    assert {(event.name, event.host) for event in yard.told.connected()} == {
        ("one", "api.example.test"),
        ("other", "other.example.test"),
    }
    assert {(event.name, event.host) for event in yard.told.denied()} == {
        ("one", "other.example.test"),
        ("other", "api.example.test"),
    }
