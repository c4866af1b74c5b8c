"""Real plugins in real cages with a network, and a small world outside that a test plays."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from tests.cage.warm.warming import is_warm

from fixtures.packages import native, write_file
from paddock.cage.network.egress_proxy import CageNetwork, open_cage_network
from paddock.cage.network.relay import NetworkLimits
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.spec import Learning, ProcessExit
from paddock.cage.warden.client import CagedProcess, WardenClient, open_warden
from paddock.core.events.index import Event, PluginNetConnected, PluginNetDenied
from paddock.manifest.read import read_package
from paddock.net.dial import SystemNetwork

PATIENCE = 30  # seconds; for a machine that does much else
PUBLIC = "93.184.216.34"  # the played world's only public address, unless a test says otherwise

# What a plugin of these tests can do: try something and tell what came of it.
PRELUDE = """
import errno, json, os, socket, ssl, sys, threading

def tell(value):
    print(json.dumps(value), flush=True)

def outcome(action, *arguments):
    try:
        return action(*arguments)
    except socket.gaierror:
        return "no such name"
    except TimeoutError:
        return "timeout"
    except OSError as error:
        # Which of these it is depends on how far one got before the reset arrived.
        cut_off = error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
        return "cut off" if cut_off else errno.errorcode.get(error.errno, str(error))

def talk(host, port, sent=b"hello"):
    with socket.create_connection((host, port), 10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
"""

E = TypeVar("E", bound=Event)


class Told:
    """What was published, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = anyio.Event()

    def publish(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def connections(self, count: int) -> list[PluginNetConnected]:
        """The connections on record, once there are that many."""
        with anyio.fail_after(PATIENCE):
            while len(self.connected()) < count:
                self._news = anyio.Event()
                await self._news.wait()
        return self.connected()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def connected(self) -> list[PluginNetConnected]:
        return self.of(PluginNetConnected)

    def denied(self) -> list[PluginNetDenied]:
        return self.of(PluginNetDenied)


class PlayedWorld:
    """The outside: names with addresses, and servers of this machine's loopback behind public addresses."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.servers: dict[tuple[str, int], int] = {}
        self.silent: set[str] = set()  # names and addresses that never answer
        self.asked: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host in self.silent:
            await anyio.sleep_forever()
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]

    def is_local_address(self, address: str) -> bool:
        return address.startswith("127.") or address == "::1"

    async def connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        if address in self.silent:
            await anyio.sleep_forever()
        if (address, port) not in self.servers:
            raise ConnectionRefusedError
        return await SystemNetwork().connect("127.0.0.1", self.servers[address, port])


class Inside:
    """One plugin in its cage."""

    def __init__(self, process: CagedProcess) -> None:
        self.process = process
        self._rest = b""

    async def told(self) -> Any:
        """The next thing that the plugin tells."""
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._rest:
                await anyio.wait_readable(self.process.stdout)
                more = os.read(self.process.stdout, 65536)
                if not more:
                    raise AssertionError(f"the plugin ended and said: {self._complaints()}")
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def ended(self) -> ProcessExit:
        with anyio.fail_after(PATIENCE):
            return await self.process.wait()

    def go_on(self) -> None:
        """Let a plugin that waits for a line continue."""
        os.write(self.process.stdin, b"\n")

    def close(self) -> None:
        self.process.kill()
        for descriptor in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.close(descriptor)

    def _complaints(self) -> str:
        try:
            return os.read(self.process.stderr, 65536).decode("utf-8", "replace")
        except BlockingIOError:
            return "(nothing)"


class Yard:
    """Starts plugins: the warden, the network, the world and what was recorded, together."""

    def __init__(
        self, folder: Path, warden: WardenClient, network: CageNetwork, world: PlayedWorld, told: Told
    ) -> None:
        self.world = world
        self.told = told
        self.network = network
        self._folder = folder
        self._warden = warden
        self._started: list[Inside] = []

    async def start(
        self, script: str, *capabilities: str, name: str = "visitor", learning: Learning | None = None
    ) -> Inside:
        """A Python plugin with these grants, running."""
        number = len(self._started)
        root = native(
            self._folder / f"{name}-{number}",
            name,
            runtime={"command": ["python3", "plugin.py"]},
            capabilities=list(capabilities),
        )
        write_file(root / "plugin.py", PRELUDE + script)
        manifest = read_package(root).single()
        spec = compile_cage(
            cage_id=f"cage-{number}",
            manifest=manifest,
            root=str(root),
            capabilities=manifest.capabilities,
            environment=spawn_environment(manifest, str(root), "info"),
            host_paths=HostPaths(python="/usr/bin/python3"),
            filesystem=DiskFilesystem(),
            learning=learning,
        )
        with anyio.fail_after(PATIENCE):
            inside = Inside(await self._warden.launch(spec))
        self._started.append(inside)
        return inside

    async def warm_up(self) -> None:
        """From now on plugins come from a warm interpreter."""
        with anyio.fail_after(PATIENCE):
            warm = False
            while not warm:
                plugin = await self.start("input()")
                warm = is_warm(plugin.process.pid)
                self._started.remove(plugin)
                plugin.close()
                await plugin.ended()

    def close(self) -> None:
        for inside in self._started:
            inside.close()


@asynccontextmanager
async def open_yard(
    folder: Path, *, limits: NetworkLimits | None = None, warm: bool = False
) -> AsyncGenerator[Yard, None]:
    """A place to let plugins run, for as long as the block does; `warm` starts them from a warm interpreter."""
    world, told = PlayedWorld(), Told()
    async with (
        open_cage_network(lambda _: told, outside=world, limits=limits) as network,
        open_warden(network=network, trees=folder if warm else None) as warden,
    ):
        yard = Yard(folder, warden, network, world, told)
        try:
            if warm:
                await yard.warm_up()
            yield yard
        finally:
            yard.close()
