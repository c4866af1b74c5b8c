"""The daemon's end of one warden process: what was asked of it, and what it said about each cage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from anyio import CancelScope

from paddock.cage.launcher import CageUnavailable
from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT
from paddock.cage.spec import CageSpec, ProcessExit
from paddock.cage.warden import messages
from paddock.cage.warden.messages import (
    CageEnded,
    CageListeners,
    CageRefused,
    CageStarted,
    DescriptorsLost,
    KillCage,
    LaunchCage,
    SignalPlugin,
    WardenMessage,
    WardenReady,
    WardenUnfit,
)

WARDEN_LOST_CAUSE = "warden_lost"
_SERVER_PROGRAM = Path(__file__).with_name("server.py")
_READY_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 5.0


class PendingCage:
    """What is known about one cage that was asked for: first its answer, later its end."""

    def __init__(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.listeners: list[socket.socket] = []
        self.answer: asyncio.Future[CageStarted | CageRefused] = loop.create_future()
        self.ended: asyncio.Future[ProcessExit] = loop.create_future()
        self._abandoned = False

    def take_listeners(self, descriptors: Sequence[int]) -> None:
        """Keep sockets that came for it, or close them when nobody waits any more."""
        made = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        self.listeners += made
        if self._abandoned:
            self.abandon()

    def abandon(self) -> None:
        """Nobody waits for it any more: what came and what still comes is closed."""
        self._abandoned = True
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()

    def set_answer(self, answer: CageStarted | CageRefused) -> None:
        """It was started or refused."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def set_exit(self, how: ProcessExit) -> None:
        """Nothing of it is left."""
        if not self.ended.done():
            self.ended.set_result(how)


class WardenConnection:
    """One warden process. Opened by `start`; when it is lost, everything that it kept is gone with it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, bubblewrap: str) -> None:
        self.bubblewrap = bubblewrap  # the program that it builds cages with
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._handle = os.pidfd_open(process.pid)
        self._connection = connection
        self._pending_cages: dict[int, PendingCage] = {}
        self._unsent: deque[tuple[WardenMessage, tuple[int, ...]]] = deque()
        self._numbers = 0
        self._ready: asyncio.Future[WardenReady | WardenUnfit] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._reaped = asyncio.Event()
        self.mechanisms: dict[str, str] = {}
        self._loop.add_reader(connection.fileno(), self._receive)
        self._loop.add_reader(self._handle, self._process_ended)

    @classmethod
    async def start(cls, bubblewrap: str, trees: Path | None = None) -> WardenConnection:
        """Start a warden and wait until it is ready.

        Args:
            bubblewrap: The program that builds cages.
            trees: The directory around the files of all installed plugins; plugins in it may be started warm.

        Raises:
            OSError: no process or descriptor is free.
            CageUnavailable: it did not start.
        """
        link = cls._spawn(bubblewrap, trees)
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                hello = await link._ready
        except BaseException as error:
            link.kill_warden()
            with CancelScope(shield=True):
                await link.close()
            if isinstance(error, TimeoutError):
                raise CageUnavailable("the warden did not start in time", code="cage.warden_failed") from error
            raise
        if isinstance(hello, WardenUnfit):
            await link.close()
            raise CageUnavailable(hello.message, code=hello.code, hint=hello.hint)
        link.mechanisms = dict(hello.mechanisms)
        if not link.alive:
            raise CageUnavailable(
                "the warden ended at once; its reason is on standard error", code="cage.warden_failed"
            )
        return link

    @classmethod
    def _spawn(cls, bubblewrap: str, trees: Path | None) -> WardenConnection:
        arguments = [bubblewrap] if trees is None else [bubblewrap, str(trees.resolve())]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(ours.close)
            ours.setblocking(False)
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(_SERVER_PROGRAM), str(theirs.fileno()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=[theirs.fileno()],
                # A signal from a terminal is for the daemon; the warden goes when the daemon has gone.
                start_new_session=True,
            )
            undo.callback(process.wait)
            undo.callback(process.kill)
            link = cls(process, ours, bubblewrap)
            undo.pop_all()
            return link

    @property
    def alive(self) -> bool:
        """Whether it can still be asked for something."""
        return not self._gone.is_set()

    @property
    def busy(self) -> bool:
        """Whether it has a cage."""
        return bool(self._pending_cages)

    def launch(self, spec: CageSpec, streams: Sequence[int]) -> PendingCage:
        """Ask for a cage, and give the plugin's ends of its streams away: they are closed here once they are sent.

        Raises:
            OSError: no descriptor is free. The streams are still the caller's.
        """
        file = messages.write_json_memfd(spec.to_json())
        self._numbers += 1
        birth = PendingCage(self._numbers)
        self._pending_cages[birth.number] = birth
        self._post(LaunchCage(birth.number), (*streams, file))
        return birth

    def signal(self, number: int, which: int) -> None:
        """Send a signal to a plugin's own process."""
        if number in self._pending_cages:
            self._post(SignalPlugin(number, which))

    def kill(self, number: int) -> None:
        """End a cage."""
        if number in self._pending_cages:
            self._post(KillCage(number))

    def kill_warden(self) -> None:
        """Give up on it. Its cages die with it."""
        self._process.kill()
        self._on_lost()

    async def close(self) -> None:
        """End every cage, and the warden. Bounded: one that does not go is killed."""
        if self.alive:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._reaped.wait()
        except TimeoutError:
            self.kill_warden()
            await self._reaped.wait()

    def _post(self, message: WardenMessage, descriptors: tuple[int, ...] = ()) -> None:
        """Send now, or as soon as the warden has room. Closes the descriptors once they are sent."""
        if not self.alive:
            _close_all(descriptors)
            return
        self._unsent.append((message, descriptors))
        if len(self._unsent) == 1:
            self._send()

    def _send(self) -> None:
        while self._unsent:
            message, descriptors = self._unsent[0]
            try:
                messages.send(self._connection, message, descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._connection.fileno(), self._send)
                return
            except OSError:
                self._on_lost()
                return
            self._unsent.popleft()
            _close_all(descriptors)
        self._loop.remove_writer(self._connection.fileno())

    def _receive(self) -> None:
        while self.alive:
            try:
                received = messages.receive(self._connection)
            except BlockingIOError:
                return
            except DescriptorsLost as error:
                self._listeners_lost(error.lost)
                continue
            except OSError:
                received = None
            if received is None:
                self._on_lost()
                return
            self._handle_message(*received)

    def _handle_message(self, message: WardenMessage, descriptors: list[int]) -> None:
        if isinstance(message, WardenReady | WardenUnfit):
            if not self._ready.done():
                self._ready.set_result(message)
            return
        birth = self._pending_cages.get(message.number)
        if birth is None:
            _close_all(descriptors)
        elif isinstance(message, CageListeners):
            birth.take_listeners(descriptors)
        elif isinstance(message, CageStarted):
            birth.set_answer(message)
        elif isinstance(message, CageRefused):
            del self._pending_cages[message.number]
            birth.set_answer(message)
            birth.set_exit(ProcessExit(None, cause=message.code))
        elif isinstance(message, CageEnded):
            del self._pending_cages[message.number]
            birth.set_exit(ProcessExit(message.code, message.signal, message.cause))

    def _listeners_lost(self, message: WardenMessage) -> None:
        """We had no room for a cage's sockets: it could not be served, so it is not wanted."""
        if isinstance(message, CageListeners) and (birth := self._pending_cages.get(message.number)):
            birth.set_answer(CageRefused(birth.number, NO_DESCRIPTORS_CODE, "no descriptor is free", RAISE_NOFILE_HINT))
            birth.abandon()
            self.kill(message.number)

    def _process_ended(self) -> None:
        # What it said before it ended is still to be heard.
        self._receive()
        self._on_lost()
        self._process.wait()
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self._reaped.set()

    def _on_lost(self) -> None:
        if self._gone.is_set():
            return
        self._gone.set()
        self._loop.remove_reader(self._connection.fileno())
        self._loop.remove_writer(self._connection.fileno())
        self._connection.close()
        for _, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()
        if not self._ready.done():
            self._ready.set_result(WardenReady({}))
        for birth in self._pending_cages.values():
            birth.set_answer(
                CageRefused(birth.number, f"cage.{WARDEN_LOST_CAUSE}", "the warden ended while it built the cage")
            )
            birth.set_exit(ProcessExit(None, signal.SIGKILL, WARDEN_LOST_CAUSE))
        self._pending_cages.clear()


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
