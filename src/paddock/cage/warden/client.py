"""Launches plugins in cages for the daemon: one warden process does the work, and is replaced if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import CancelScope  # by name: at shutdown there may be no descriptor left to import it with

from paddock.cage.bwrap.mount_stage import STAGING_FAILED_CODE
from paddock.cage.errors import CageUnavailable
from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT, is_descriptor_exhaustion
from paddock.cage.probe import Bubblewrap, find_bubblewrap, setup_error
from paddock.cage.spec import CageSpec, ProcessExit
from paddock.cage.warden.connection import PendingCage, WardenConnection
from paddock.cage.warden.messages import CageRefused, CageStarted

if TYPE_CHECKING:
    from paddock.cage.network.egress_proxy import CageNetwork

MAX_CONCURRENT_LAUNCHES = 2
LAUNCH_TIMEOUT_S = 25.0  # the warden gives up after 20 and says so; this is for a warden that does not answer
MAX_WARDEN_STARTS = 5
WARDEN_START_WINDOW_S = 60.0
_LATE_HINT = "look whether the machine is very busy or a file system hangs (ps -eo pid,stat,wchan,cmd), and try again"


class WardenClient:
    """Launches caged processes. Opened by `open_warden`.

    Args:
        network: Serves the plugins' connections; without one a spec that has a network is refused.
        find: Finds a bubblewrap that can build cages here; raises CageUnavailable when there is none.
        trees: The directory that contains all installed plugins; Python plugins in it are started from a zygote.
    """

    def __init__(self, network: CageNetwork | None, find: Callable[[], Bubblewrap], trees: Path | None = None) -> None:
        self._network = network
        self._trees = trees
        self._find_bubblewrap = find
        self._bubblewrap: Bubblewrap | None = None
        self._connection: WardenConnection | None = None
        self._connect_lock = asyncio.Lock()
        self._launch_slots = asyncio.Semaphore(MAX_CONCURRENT_LAUNCHES)
        self._warden_starts: deque[float] = deque(maxlen=MAX_WARDEN_STARTS)
        self._closed = False

    async def launch(self, spec: CageSpec) -> CagedProcess:
        """Build the cage and start its program.

        Raises:
            CageUnavailable: No cage can be built here, or the spec names something that does not exist.
        """
        if (spec.network or (spec.learning and spec.learning.network)) and self._network is None:
            raise CageUnavailable("nothing here serves a plugin's network", code="cage.no_network")
        async with self._launch_slots:
            pipes = _PluginPipes()
            try:
                connection = await self._connect()
                pending = pipes.request_cage(connection, spec)
            except OSError as error:
                pipes.close()
                raise _unavailable_error(error) from error
            try:
                pid = await self._wait_started(connection, pending, pipes)
                await self._attach(spec, pending)
            except BaseException:
                # Refused, too late or cancelled: in each case nothing of it may be left.
                pending.abandon()
                connection.kill(pending.number)
                pipes.close()
                raise
            return CagedProcess(pid, pipes.ours, pipes.artifacts, connection, pending)

    async def mechanisms(self) -> dict[str, str]:
        """What limits each resource of a cage here.

        Raises:
            CageUnavailable: No cage can be built here.
        """
        return dict((await self._connect()).mechanisms)

    async def close(self) -> None:
        """Kill every cage, and end the warden."""
        self._closed = True
        async with self._connect_lock:
            if self._connection is not None:
                await self._connection.close()

    async def _connect(self) -> WardenConnection:
        """The connection to the running warden, or to a new one."""
        async with self._connect_lock:
            if self._closed:
                raise CageUnavailable("the daemon is shutting down", code="cage.closed")
            if self._bubblewrap is None:
                # Only success is cached: what was missing may be installed while we run.
                self._bubblewrap = await asyncio.to_thread(self._find_bubblewrap)
            if self._connection is not None and self._connection.alive:
                if self._connection.bubblewrap == self._bubblewrap.program or self._connection.busy:
                    return self._connection
                # Bubblewrap has another path by now.
                await self._connection.close()
                self._warden_starts.clear()
            now = time.monotonic()
            if len(self._warden_starts) == MAX_WARDEN_STARTS and now - self._warden_starts[0] < WARDEN_START_WINDOW_S:
                raise CageUnavailable(
                    f"the warden ended {MAX_WARDEN_STARTS} times within {WARDEN_START_WINDOW_S:g} s",
                    code="cage.warden_failed",
                )
            self._warden_starts.append(now)
            if self._connection is not None:
                await self._connection.close()
            try:
                self._connection = await WardenConnection.start(self._bubblewrap.program, self._trees)
            except CageUnavailable as error:
                if error.error_code == STAGING_FAILED_CODE:
                    # It said why it ended, and shall say that again rather than that it ended too often.
                    self._warden_starts.pop()
                raise
            return self._connection

    async def _wait_started(self, connection: WardenConnection, pending: PendingCage, pipes: _PluginPipes) -> int:
        try:
            async with asyncio.timeout(LAUNCH_TIMEOUT_S):
                answer = await asyncio.shield(pending.answer)
        except TimeoutError:
            # A warden that does not even refuse in time is unusable.
            connection.kill_warden()
            raise CageUnavailable("the warden does not answer", code="cage.launch_timeout", hint=_LATE_HINT) from None
        if isinstance(answer, CageStarted):
            return answer.pid
        if answer.setup:
            # It built a cage once, and now does not: the next launch probes again, and says what is wrong.
            self._bubblewrap = None
        raise _refused_error(answer, pipes)

    async def _attach(self, spec: CageSpec, pending: PendingCage) -> None:
        network = self._network
        if network is None or not pending.listeners:
            return
        listeners = list(pending.listeners)
        pending.listeners.clear()
        pending.ended.add_done_callback(lambda _: network.detach(spec.cage_id))
        await network.attach(spec.cage_id, spec, listeners)


class CagedProcess:
    """A plugin's process in its cage. The caller of `launch` owns the descriptors and closes them.

    Attributes:
        pid: The plugin's pid as the host sees it.
        artifacts: The artifact pipes, to read from and to write to; None where the spec asks for none.
    """

    def __init__(
        self,
        pid: int,
        streams: tuple[int, int, int],
        artifacts: tuple[int, int] | None,
        connection: WardenConnection,
        pending: PendingCage,
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams
        self.artifacts = artifacts
        self._connection = connection
        self._pending = pending

    def take_listener(self) -> int | None:
        """Hand over the seccomp listener of a learning cage; None in all others. The caller closes it."""
        return self._pending.give_observed()

    async def wait(self) -> ProcessExit:
        """Wait until everything in the cage is gone, and return how the plugin ended. May be awaited again."""
        return await asyncio.shield(self._pending.ended)

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process (not to its children)."""
        self._connection.signal(self._pending.number, number)

    def kill(self) -> None:
        """Kill everything in the cage at once. Does nothing when it is gone already."""
        self._connection.kill(self._pending.number)


class _PluginPipes:
    """The pipes to a plugin: our ends do not block, its ends are passed to the warden."""

    def __init__(self) -> None:
        self._open: list[int] = []
        self.ours = (-1, -1, -1)
        self.artifacts: tuple[int, int] | None = None

    def request_cage(self, connection: WardenConnection, spec: CageSpec) -> PendingCage:
        """Create the pipes and request the cage.

        Raises:
            OSError: No descriptor is free; `close` closes what was created.
        """
        stdin, stdout, stderr = (self._pipe() for _ in range(3))
        self.ours = (stdin[1], stdout[0], stderr[0])
        plugin_ends: tuple[int, ...] = (stdin[0], stdout[1], stderr[1])
        if spec.artifacts:
            # Pipes, not a socket: over a socket a plugin could pass descriptors out, and read our credentials.
            to_plugin, from_plugin = self._pipe(), self._pipe()
            self.artifacts = (from_plugin[0], to_plugin[1])
            plugin_ends += (to_plugin[0], from_plugin[1])
        own_ends = [*self.ours, *(self.artifacts or ())]
        for descriptor in own_ends:
            os.set_blocking(descriptor, False)
        pending = connection.launch(spec, plugin_ends)
        self._open = own_ends
        return pending

    def first_stderr_line(self) -> str:
        """The first line of stderr: where no program ran, it is bubblewrap's."""
        try:
            output = os.read(self.ours[2], 4096)
        except OSError:
            return ""
        return output.decode("utf-8", "replace").strip().partition("\n")[0]

    def close(self) -> None:
        """Close every end that is still ours."""
        for descriptor in self._open:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open.clear()

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_CLOEXEC)
        self._open += ends
        return ends


@asynccontextmanager
async def open_warden(
    *, network: CageNetwork | None = None, path: str | None = None, trees: Path | None = None
) -> AsyncGenerator[WardenClient, None]:
    """Give a launcher of caged processes for the duration of the block; afterwards every cage is gone.

    Nothing is started or probed before the first launch.

    Args:
        network: Serves the plugins' connections.
        path: Search path for bubblewrap, as in PATH; None for the daemon's own.
        trees: The directory that contains all installed plugins. Python plugins in it are started from a zygote
            where that makes no other difference than the time it takes.
    """
    warden = WardenClient(network, lambda: find_bubblewrap(path), trees)
    try:
        yield warden
    finally:
        # Shielded: a cancelled daemon must not leave plugins running. Bounded within.
        with CancelScope(shield=True):
            await warden.close()


def _refused_error(answer: CageRefused, pipes: _PluginPipes) -> CageUnavailable:
    if answer.setup:
        return setup_error(pipes.first_stderr_line() or answer.message)
    return CageUnavailable(f"the cage cannot be built: {answer.message}", code=answer.code, hint=answer.hint)


def _unavailable_error(error: OSError) -> CageUnavailable:
    if is_descriptor_exhaustion(error):
        return CageUnavailable("no descriptor is free", code=NO_DESCRIPTORS_CODE, hint=RAISE_NOFILE_HINT)
    return CageUnavailable(f"the cage cannot be built: {error}", code="cage.start_failed")
