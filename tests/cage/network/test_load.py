"""A plugin's network under load, and at its end: much data, many connections, floods, and nothing left behind."""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from tests.cage.network.networked import PATIENCE, PUBLIC, Told, Yard, open_yard
from tests.cage.network.private_ca import certificate_for

from paddock.cage.network.relay import NetworkLimits
from paddock.core.events.index import Event

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
MEGABYTE = 1024 * 1024


@asynccontextmanager
async def outside(
    yard: Yard, serve: Serve, port: int = 443, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[None, None]:
    """A server behind api.example.test."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    yard.world.names["api.example.test"] = [PUBLIC]
    yard.world.servers[PUBLIC, port] = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


async def parrot(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        writer.write(b"heard " + await reader.read())
        await writer.drain()
    finally:
        writer.close()


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.read(MEGABYTE):
            pass
    except ConnectionError:
        pass
    finally:
        writer.close()


def sockets() -> int:
    """How many sockets this process holds."""
    opened = (one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink())
    return sum(target.name.startswith("socket:") for target in opened)


async def longest_pause(plugin_told: Awaitable[object]) -> float:
    """How long the loop was ever kept from others until the plugin told something."""
    worst = 0.0
    waiting = asyncio.ensure_future(plugin_told)
    while not waiting.done():
        before = anyio.current_time()
        await anyio.sleep(0.001)
        worst = max(worst, anyio.current_time() - before)
    await waiting
    return worst


async def test_ten_megabytes_pass_each_way_untouched(tmp_path: Path) -> None:
    down = os.urandom(10 * MEGABYTE)
    heard: list[str] = []

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(hashlib.sha256(await reader.read()).hexdigest())
        writer.write(down)
        await writer.drain()
        writer.close()

    async with open_yard(tmp_path) as yard, outside(yard, exchange):
        plugin = await yard.start(
            """
import hashlib
data = os.urandom(10 << 20)
with socket.create_connection(("api.example.test", 443)) as connection:
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    back = b"".join(iter(lambda: connection.recv(1 << 18), b""))
tell([hashlib.sha256(one).hexdigest() for one in (data, back)])
""",
            "net:api.example.test:443",
        )
        assert await plugin.told() == [*heard, hashlib.sha256(down).hexdigest()]
        await plugin.ended()
        (event,) = yard.told.connected()
        assert (event.bytes_up, event.bytes_down, event.error) == (10 * MEGABYTE, 10 * MEGABYTE, None)


async def test_thirty_two_connections_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard, outside(yard, parrot):
        plugin = await yard.start(
            """
answers = {}
def one(n):
    answers[n] = outcome(talk, "api.example.test", 443, b"%d." % n * 5000)
threads = [threading.Thread(target=one, args=(n,)) for n in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
tell([n for n in range(32) if answers.get(n) != "heard " + f"{n}." * 5000])
""",
            "net:api.example.test:443",
        )
        assert await plugin.told() == []
        await plugin.ended()
        assert len([event for event in yard.told.connected() if event.error is None]) == 32


async def test_tls_passes_untouched_with_the_name_that_the_plugin_asked_for(tmp_path: Path) -> None:
    authority, server_side = certificate_for("api.example.test", tmp_path)
    asked: list[str | None] = []
    server_side.sni_callback = lambda _socket, name, _context: asked.append(name)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"over tls")
        await writer.drain()
        writer.close()

    async with open_yard(tmp_path / "plugins") as yard, outside(yard, greet, tls=server_side):
        plugin = await yard.start(
            f"""
context = ssl.create_default_context(cadata={authority!r})
with socket.create_connection(("api.example.test", 443)) as plain:
    with context.wrap_socket(plain, server_hostname="api.example.test") as secure:
        tell([secure.recv(100).decode(), secure.version()])
""",
            "net:api.example.test:443",
        )
        assert await plugin.told() == ["over tls", "TLSv1.3"]
    assert asked == ["api.example.test"]


async def test_a_plugin_killed_in_the_middle_leaves_nothing_open(tmp_path: Path) -> None:
    pouring = asyncio.Semaphore(0)
    over = asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(MEGABYTE)
        pouring.release()
        await swallow(reader, writer)
        over.release()

    async with open_yard(tmp_path) as yard, outside(yard, serve):
        first = await yard.start("tell('up')", "net:api.example.test:443")  # what is opened once is open now
        await first.told()
        await first.ended()
        before = sockets()
        plugin = await yard.start(
            """
def pour():
    connection = socket.create_connection(("api.example.test", 443))
    while True:
        connection.sendall(bytes(1 << 18))
for _ in range(8): threading.Thread(target=pour).start()
""",
            "net:api.example.test:443",
        )
        with anyio.fail_after(PATIENCE):
            for _ in range(8):
                await pouring.acquire()
            plugin.process.kill()
            await plugin.ended()
            events = await yard.told.connections(8)
            for _ in range(8):
                await over.acquire()
        assert {event.error for event in events} <= {None, "net.plugin_ended", "net.reset"}
        assert all(event.bytes_up > 0 for event in events)
        await anyio.wait_all_tasks_blocked()
        assert sockets() <= before


async def test_what_a_plugin_sent_last_arrives_although_it_is_gone(tmp_path: Path) -> None:
    arrived: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    gone = asyncio.Event()

    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone.wait()
        arrived.set_result(len(await reader.read()))
        writer.close()

    async with open_yard(tmp_path) as yard, outside(yard, read_late):
        plugin = await yard.start(
            "with socket.create_connection(('api.example.test', 443)) as one: one.sendall(bytes(100_000))",
            "net:api.example.test:443",
        )
        await plugin.ended()
        gone.set()
        with anyio.fail_after(PATIENCE):
            assert await arrived == 100_000


async def test_a_connection_that_the_other_side_keeps_does_not_outlive_its_plugin_for_long(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def never_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await over.wait()
        writer.close()

    async with open_yard(tmp_path, limits=NetworkLimits(linger_seconds=0.2)) as yard, outside(yard, never_close):
        plugin = await yard.start(
            "one = socket.create_connection(('api.example.test', 443)); one.sendall(b'x'); tell('sent')",
            "net:api.example.test:443",
        )
        await plugin.told()
        await plugin.ended()
        (event,) = await yard.told.connections(1)
        assert (event.bytes_up, event.error) == (1, "net.plugin_ended")
        over.set()


async def test_more_connections_than_a_plugin_may_hold_are_reset_and_recorded(tmp_path: Path) -> None:
    async with open_yard(tmp_path, limits=NetworkLimits(connections=5)) as yard, outside(yard, swallow):
        plugin = await yard.start(
            """
held = [socket.create_connection(("api.example.test", 443)) for _ in range(8)]
for one in held: one.settimeout(10)
tell(sum(outcome(one.recv, 1) == "cut off" for one in held[5:]))
for one in held[:5]: one.close()
input()
tell(outcome(talk, "api.example.test", 443, b""))
""",
            "net:api.example.test:443",
        )
        assert await plugin.told() == 3
        assert sum(event.times for event in yard.told.denied()) >= 1
        assert {event.reason for event in yard.told.denied()} == {"net.too_many_connections"}
        await yard.told.connections(5)
        plugin.go_on()
        assert await plugin.told() == ""


async def test_a_flood_of_connections_and_names_leaves_the_loop_to_others_and_the_log_readable(tmp_path: Path) -> None:
    limits = NetworkLimits(connections=10, connections_a_second=20, names_a_second=100)
    async with open_yard(tmp_path, limits=limits) as yard, outside(yard, parrot):
        plugin = await yard.start(
            """
import time
end = time.monotonic() + 2
def connect():
    while time.monotonic() < end:
        try: socket.create_connection(("api.example.test", 443), 0.5).close()
        except OSError: pass
def ask():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    head, tail = bytes([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]), bytes([4, *b"evil", 0, 0, 1, 0, 1])
    n = 0
    while time.monotonic() < end:
        n += 1
        label = b"x%d" % n
        server.sendto(head + bytes([len(label)]) + label + tail, ("127.77.0.1", 53))
threads = [threading.Thread(target=work) for work in (connect, connect, connect, ask)]
for thread in threads: thread.start()
for thread in threads: thread.join()
tell("done")
""",
            "net:api.example.test:443",
        )
        began = anyio.current_time()
        assert await longest_pause(plugin.told()) < 1
        seconds = anyio.current_time() - began + 1
        await plugin.ended()
        denied = yard.told.denied()
        names = sum(event.times for event in denied if event.port is None)
        assert 100 <= names <= 100 + 100 * seconds
        assert len(denied) < 110  # a hundred different ones, and the rest as a number
        refused = sum(event.times for event in denied if event.port is not None)
        assert 10 <= len(yard.told.connected()) + refused <= 2 * 10 + 20 * seconds


async def test_a_host_that_never_answers_and_a_connection_that_falls_silent_end_in_time(tmp_path: Path) -> None:
    limits = NetworkLimits(connect_seconds=0.3, idle_seconds=0.3)
    async with open_yard(tmp_path, limits=limits) as yard, outside(yard, swallow):
        yard.world.names["silent.example.test"] = ["8.8.4.4"]
        yard.world.silent.add("8.8.4.4")
        plugin = await yard.start(
            """
tell(outcome(talk, "silent.example.test", 443))
with socket.create_connection(("api.example.test", 443), 10) as connection:
    tell(outcome(connection.recv, 1))
""",
            "net:api.example.test:443",
            "net:silent.example.test:443",
        )
        assert [await plugin.told(), await plugin.told()] == ["cut off", "cut off"]
        assert [event.error for event in yard.told.connected()] == ["net.timeout", "net.idle"]


async def test_what_cannot_be_recorded_is_not_carried_and_other_plugins_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Told.publish

    def refuse_one(told: Told, event: Event) -> None:
        if getattr(event, "name", "") == "unlucky":
            raise OSError("the disk is full")
        publish(told, event)

    monkeypatch.setattr(Told, "publish", refuse_one)
    async with open_yard(tmp_path) as yard, outside(yard, parrot):
        script = "while True:\n  tell(outcome(talk, 'api.example.test', 443)); input()"
        unlucky = await yard.start(script, "net:api.example.test:443", name="unlucky")
        lucky = await yard.start(script, "net:api.example.test:443", name="lucky")
        assert await unlucky.told() == "heard hello"
        for _ in range(2):
            assert await lucky.told() == "heard hello"
            lucky.go_on()
        unlucky.go_on()
        assert await unlucky.told() == "ECONNREFUSED"
