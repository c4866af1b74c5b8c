"""Launching plugins in cages, as the daemon sees it: one warden process does the work, and is replaced if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from anyio import CancelScope  # by name: at the end there may be no descriptor left to load it with

from paddock.cage.bwrap.mount_stage import STAGING_FAILED_CODE
from paddock.cage.launcher import CageUnavailable
from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT, is_descriptor_exhaustion
from paddock.cage.probe import Bubblewrap, find_bubblewrap, setup_error
from paddock.cage.spec import CageSpec, ProcessExit
from paddock.cage.warden.connection import PendingCage, WardenConnection
from paddock.cage.warden.messages import CageRefused, CageStarted

MAX_CONCURRENT_LAUNCHES = 2
LAUNCH_TIMEOUT_S = 25.0  # the warden gives up after 20 and says so; this is for a warden that says nothing
MAX_WARDEN_STARTS = 5
WARDEN_START_WINDOW_S = 60.0
_LATE_HINT = "look whether the machine is very busy or a file system hangs (ps -eo pid,stat,wchan,cmd), and try again"


class CageNetworkPort(Protocol):
    """Serves the sockets that listen inside cages."""

    async def attach(self, cage_id: str, spec: CageSpec, listeners: list[socket.socket]) -> None:
        """Begin to serve a cage; from here on the sockets are the network's."""
        ...

    def detach(self, cage_id: str) -> None:
        """The cage is gone: close everything of it. Harmless when it was never attached."""
        ...


class WardenClient:
    """Launches caged processes. Opened by `open_warden`.

    Args:
        network: Serves what plugins connect to; without one a spec that has a network is refused.
        find: Looks for a bubblewrap that can build cages here; raises CageUnavailable when there is none.
        trees: The directory around the files of all installed plugins; Python plugins in it are started warm.
    """

    def __init__(
        self, network: CageNetworkPort | None, find: Callable[[], Bubblewrap], trees: Path | None = None
    ) -> None:
        self._network = network
        self._trees = trees
        self._find = find
        self._bubblewrap: Bubblewrap | None = None
        self._link: WardenConnection | None = None
        self._opening = asyncio.Lock()
        self._launching = asyncio.Semaphore(MAX_CONCURRENT_LAUNCHES)
        self._started: deque[float] = deque(maxlen=MAX_WARDEN_STARTS)
        self._closed = False

    async def launch(self, spec: CageSpec) -> RemoteCagedProcess:
        """Build the cage and start its program.

        Raises:
            CageUnavailable: no cage can be built here, or the spec asks for what is not there.
        """
        if spec.network and self._network is None:
            raise CageUnavailable("nothing here serves a plugin's network", code="cage.no_network")
        async with self._launching:
            streams = _PluginPipes()
            try:
                link = await self._open_link()
                birth = streams.hand_over(link, spec)
            except OSError as error:
                streams.close()
                raise _unavailable_error(error) from error
            try:
                pid = await self._wait_started(link, birth, streams)
                await self._attach(spec, birth)
            except BaseException:
                # Refused, too late or no longer wanted: in each case nothing of it may be left.
                birth.abandon()
                link.kill(birth.number)
                streams.close()
                raise
            return RemoteCagedProcess(pid, streams.ours, streams.artifacts, link, birth)

    async def mechanisms(self) -> dict[str, str]:
        """What limits each resource of a cage here.

        Raises:
            CageUnavailable: no cage can be built here.
        """
        return dict((await self._open_link()).mechanisms)

    async def close(self) -> None:
        """End every cage, and the warden."""
        self._closed = True
        async with self._opening:
            if self._link is not None:
                await self._link.close()

    async def _open_link(self) -> WardenConnection:
        """The warden that is there, or a new one."""
        async with self._opening:
            if self._closed:
                raise CageUnavailable("the daemon is shutting down", code="cage.closed")
            if self._bubblewrap is None:
                # Only success is remembered: what was missing may be installed while we run.
                self._bubblewrap = await asyncio.to_thread(self._find)
            if self._link is not None and self._link.alive:
                if self._link.bubblewrap == self._bubblewrap.program or self._link.busy:
                    return self._link
                # Bubblewrap is somewhere else by now.
                await self._link.close()
                self._started.clear()
            now = time.monotonic()
            if len(self._started) == MAX_WARDEN_STARTS and now - self._started[0] < WARDEN_START_WINDOW_S:
                raise CageUnavailable(
                    f"the warden ended {MAX_WARDEN_STARTS} times within {WARDEN_START_WINDOW_S:g} s",
                    code="cage.warden_failed",
                )
            self._started.append(now)
            if self._link is not None:
                await self._link.close()
            try:
                self._link = await WardenConnection.start(self._bubblewrap.program, self._trees)
            except CageUnavailable as error:
                if error.error_code == STAGING_FAILED_CODE:
                    # It said why it ended, and shall say it again rather than that it ended too often.
                    self._started.pop()
                raise
            return self._link

    async def _wait_started(self, link: WardenConnection, birth: PendingCage, streams: _PluginPipes) -> int:
        try:
            async with asyncio.timeout(LAUNCH_TIMEOUT_S):
                answer = await asyncio.shield(birth.answer)
        except TimeoutError:
            # A warden that does not even refuse in time is of no use to anybody.
            link.kill_warden()
            raise CageUnavailable("the warden does not answer", code="cage.launch_timeout", hint=_LATE_HINT) from None
        if isinstance(answer, CageStarted):
            return answer.pid
        if answer.setup:
            # It built a cage once, and now does not: the next launch looks again, and says what is wrong with it.
            self._bubblewrap = None
        raise _refused_error(answer, streams)

    async def _attach(self, spec: CageSpec, birth: PendingCage) -> None:
        network = self._network
        if network is None or not birth.listeners:
            return
        listeners = list(birth.listeners)
        birth.listeners.clear()
        birth.ended.add_done_callback(lambda _: network.detach(spec.cage_id))
        await network.attach(spec.cage_id, spec, listeners)


class RemoteCagedProcess:
    """A plugin's process in its cage; see `launcher.CagedProcess`."""

    def __init__(
        self,
        pid: int,
        streams: tuple[int, int, int],
        artifacts: tuple[int, int] | None,
        link: WardenConnection,
        birth: PendingCage,
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams
        self.artifacts = artifacts
        self._link = link
        self._pending = birth

    async def wait(self) -> ProcessExit:
        """How it ended, once everything that was in the cage is gone. May be awaited again."""
        return await asyncio.shield(self._pending.ended)

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process (not to its children)."""
        self._link.signal(self._pending.number, number)

    def kill(self) -> None:
        """End everything in the cage, at once. Harmless when it is gone already."""
        self._link.kill(self._pending.number)


class _PluginPipes:
    """The pipes to a plugin: our ends do not block, its ends are given away."""

    def __init__(self) -> None:
        self._open: list[int] = []
        self.ours = (-1, -1, -1)
        self.artifacts: tuple[int, int] | None = None

    def hand_over(self, link: WardenConnection, spec: CageSpec) -> PendingCage:
        """Make the pipes and ask for the cage.

        Raises:
            OSError: no descriptor is free; `close` closes what was made.
        """
        inward, outward, errors = (self._pipe() for _ in range(3))
        self.ours = (inward[1], outward[0], errors[0])
        theirs: tuple[int, ...] = (inward[0], outward[1], errors[1])
        if spec.artifacts:
            # Pipes too, and no socket: over a socket a plugin could hand descriptors out, and ask who we are.
            sending, arriving = self._pipe(), self._pipe()
            self.artifacts = (arriving[0], sending[1])
            theirs += (sending[0], arriving[1])
        kept = [*self.ours, *(self.artifacts or ())]
        for descriptor in kept:
            os.set_blocking(descriptor, False)
        birth = link.launch(spec, theirs)
        self._open = kept
        return birth

    def first_complaint(self) -> str:
        """The first line on standard error: where no program ran, it is bubblewrap's."""
        try:
            said = os.read(self.ours[2], 4096)
        except OSError:
            return ""
        return said.decode("utf-8", "replace").strip().partition("\n")[0]

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
    *, network: CageNetworkPort | None = None, path: str | None = None, trees: Path | None = None
) -> AsyncGenerator[WardenClient, None]:
    """A launcher of caged processes, for as long as the block runs; afterwards every cage is gone.

    No warden is started, and nothing is looked for, before the first launch.

    Args:
        network: Serves what plugins connect to.
        path: Where bubblewrap is looked for, as in PATH; None for the daemon's own.
        trees: The directory around the files of all installed plugins. Python plugins in it are started from a warm
            interpreter where that makes no other difference than the time it takes.
    """
    warden = WardenClient(network, lambda: find_bubblewrap(path), trees)
    try:
        yield warden
    finally:
        # Shielded: a cancelled daemon must not leave plugins running. Bounded within.
        with CancelScope(shield=True):
            await warden.close()


def _refused_error(answer: CageRefused, streams: _PluginPipes) -> CageUnavailable:
    if answer.setup:
        return setup_error(streams.first_complaint() or answer.message)
    return CageUnavailable(f"the cage cannot be built: {answer.message}", code=answer.code, hint=answer.hint)


def _unavailable_error(error: OSError) -> CageUnavailable:
    if is_descriptor_exhaustion(error):
        return CageUnavailable("no descriptor is free", code=NO_DESCRIPTORS_CODE, hint=RAISE_NOFILE_HINT)
    return CageUnavailable(f"the cage cannot be built: {error}", code="cage.start_failed")
