"""The daemon's connection to one warden process: its requests, and the state of each requested cage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from anyio import CancelScope

from paddock.cage.errors import CageUnavailable
from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT
from paddock.cage.spec import CageSpec, ProcessExit
from paddock.cage.warden import messages
from paddock.cage.warden.messages import (
    CageEnded,
    CageListeners,
    CageObserved,
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
    """One requested cage: first its answer, later its exit."""

    def __init__(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.listeners: list[socket.socket] = []
        self._observed: int | None = None  # the seccomp listener of a learning cage
        self.answer: asyncio.Future[CageStarted | CageRefused] = loop.create_future()
        self.ended: asyncio.Future[ProcessExit] = loop.create_future()
        self._abandoned = False

    def take_listeners(self, descriptors: Sequence[int]) -> None:
        """Keep sockets that came for it, or close them when it was abandoned."""
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        self.listeners += sockets
        if self._abandoned:
            self.abandon()

    def take_observed(self, descriptor: int) -> None:
        """Keep the seccomp listener that came for it, or close it when it was abandoned."""
        self._observed = descriptor
        if self._abandoned:
            self.abandon()

    def give_observed(self) -> int | None:
        """Hand over the seccomp listener, once."""
        observed, self._observed = self._observed, None
        return observed

    def abandon(self) -> None:
        """Close the sockets that came and those that still come."""
        self._abandoned = True
        if (observed := self.give_observed()) is not None:
            os.close(observed)
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()

    def set_answer(self, answer: CageStarted | CageRefused) -> None:
        """Set the answer: started or refused."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def set_exit(self, exit_status: ProcessExit) -> None:
        """Set the exit: nothing of it is left."""
        if not self.ended.done():
            self.ended.set_result(exit_status)


class WardenConnection:
    """The connection to one warden process. Opened by `start`; when it is lost, all its cages are gone too."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, bubblewrap: str) -> None:
        self.bubblewrap = bubblewrap  # path of the program that it builds cages with
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        self._connection = connection
        self._pending_cages: dict[int, PendingCage] = {}
        self._unsent: deque[tuple[WardenMessage, tuple[int, ...]]] = deque()
        self._last_number = 0
        self._ready: asyncio.Future[WardenReady | WardenUnfit] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._reaped = asyncio.Event()
        self._loop.add_reader(connection.fileno(), self._receive)
        self._loop.add_reader(self._pidfd, self._process_ended)

    @classmethod
    async def start(cls, bubblewrap: str, trees: Path | None = None) -> WardenConnection:
        """Start a warden and wait until it is ready.

        Args:
            bubblewrap: Path of the program that builds cages.
            trees: The directory that contains all installed plugins; plugins in it may be started from a zygote.

        Raises:
            OSError: No process or descriptor is free.
            CageUnavailable: It did not start.
        """
        connection = cls._spawn(bubblewrap, trees)
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                ready = await connection._ready
        except BaseException as error:
            connection.kill_warden()
            with CancelScope(shield=True):
                await connection.close()
            if isinstance(error, TimeoutError):
                raise CageUnavailable("the warden did not start in time", code="cage.warden_failed") from error
            raise
        if isinstance(ready, WardenUnfit):
            await connection.close()
            raise CageUnavailable(ready.message, code=ready.code, hint=ready.hint)
        if not connection.alive:
            raise CageUnavailable(
                "the warden ended at once; its reason is on standard error", code="cage.warden_failed"
            )
        return connection

    @classmethod
    def _spawn(cls, bubblewrap: str, trees: Path | None) -> WardenConnection:
        arguments = [bubblewrap] if trees is None else [bubblewrap, str(trees.resolve())]
        daemon_end, warden_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo, warden_end:
            undo.callback(daemon_end.close)
            daemon_end.setblocking(False)
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(_SERVER_PROGRAM), str(warden_end.fileno()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=[warden_end.fileno()],
                # A signal from a terminal is for the daemon; the warden ends when the daemon has ended.
                start_new_session=True,
            )
            undo.callback(process.wait)
            undo.callback(process.kill)
            connection = cls(process, daemon_end, bubblewrap)
            undo.pop_all()
            return connection

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return not self._gone.is_set()

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """What limits each resource of a cage here, as the warden found out at its start."""
        ready = self._ready.result()
        return ready.mechanisms if isinstance(ready, WardenReady) else {}

    @property
    def busy(self) -> bool:
        """Whether it has a cage."""
        return bool(self._pending_cages)

    def launch(self, spec: CageSpec, streams: Sequence[int]) -> PendingCage:
        """Request a cage. The plugin's ends of its streams are passed on, and closed here once they are sent.

        Raises:
            OSError: No descriptor is free. The streams are still the caller's.
        """
        file = messages.write_json_memfd(spec.to_json())
        self._last_number += 1
        pending = PendingCage(self._last_number)
        self._pending_cages[pending.number] = pending
        self._post(LaunchCage(pending.number), (*streams, file))
        return pending

    def signal(self, number: int, signal_number: int) -> None:
        """Send a signal to a plugin's own process."""
        if number in self._pending_cages:
            self._post(SignalPlugin(number, signal_number))

    def kill(self, number: int) -> None:
        """Kill a cage."""
        if number in self._pending_cages:
            self._post(KillCage(number))

    def kill_warden(self) -> None:
        """Kill the warden. Its cages die with it."""
        self._process.kill()
        self._on_lost()

    async def close(self) -> None:
        """Kill every cage, and end the warden. Bounded: one that does not end in time is killed."""
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
        """Send now, or as soon as the socket has room. Closes the descriptors once they are sent."""
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
        pending = self._pending_cages.get(message.number)
        if pending is None:
            _close_all(descriptors)
        elif isinstance(message, CageListeners):
            pending.take_listeners(descriptors)
        elif isinstance(message, CageObserved):
            pending.take_observed(*descriptors)
        elif isinstance(message, CageStarted):
            pending.set_answer(message)
        elif isinstance(message, CageRefused):
            del self._pending_cages[message.number]
            pending.set_answer(message)
            pending.set_exit(ProcessExit(None, cause=message.code))
        elif isinstance(message, CageEnded):
            del self._pending_cages[message.number]
            pending.set_exit(ProcessExit(message.code, message.signal, message.cause))

    def _listeners_lost(self, message: WardenMessage) -> None:
        """Refuse a cage whose sockets we had no room for: it could not be served."""
        if isinstance(message, CageListeners | CageObserved) and (pending := self._pending_cages.get(message.number)):
            pending.set_answer(
                CageRefused(pending.number, NO_DESCRIPTORS_CODE, "no descriptor is free", RAISE_NOFILE_HINT)
            )
            pending.abandon()
            self.kill(message.number)

    def _process_ended(self) -> None:
        # Messages sent before the end are still in the socket.
        self._receive()
        self._on_lost()
        self._process.wait()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
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
        for pending in self._pending_cages.values():
            pending.set_answer(
                CageRefused(pending.number, f"cage.{WARDEN_LOST_CAUSE}", "the warden ended while it built the cage")
            )
            pending.set_exit(ProcessExit(None, signal.SIGKILL, WARDEN_LOST_CAUSE))
        self._pending_cages.clear()


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
