"""The transport without a daemon: requests go into the API of a host that is opened in this process.

Requests are dispatched as ASGI and authenticated like those on the daemon's socket, with this process as the peer.
The host lives in a task of its own, on an event loop that runs while a response or a prompt is waited for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from paddock.cli.client.event_loop import open_runner
from paddock.cli.client.prompt_relay import PendingPrompt, PromptRelay
from paddock.cli.client.transport import ApiRequest
from paddock.cli.output.report import print_problems
from paddock.config.project_file import working_directory
from paddock.core.clock import SystemClock, SystemRandom
from paddock.daemon.application import build_api
from paddock.host.wiring.open_host import Config, open_host
from paddock.secrets.wrapping_keys import PassphrasePrompts
from paddock.web.disconnect import client_connection
from paddock.web.security.authenticate import PeerCredentials

T = TypeVar("T")

_MAX_QUEUED_MESSAGES = 16  # of a response that is read more slowly than it is sent
_DISCONNECT_TIMEOUT_S = 5.0  # for a handler to end after its client has left


@contextmanager
def open_in_process(*, asks_passphrase: bool = False) -> Generator[InProcessTransport, None, None]:
    """Open a host for as long as the block runs. Plugins start at their first call.

    Args:
        asks_passphrase: Whether it may ask at the terminal for the passphrase of the keys.

    Raises:
        PaddockError: it cannot be opened.
    """
    with open_runner() as runner, _terminations_as_interrupts():
        opened: asyncio.Future[ASGIApp] = runner.get_loop().create_future()
        stopping = asyncio.Event()
        prompts = PromptRelay(runner.get_loop())
        passphrase = _passphrase_prompts(prompts) if asks_passphrase else None
        host = runner.get_loop().create_task(_hold_host_open(opened, stopping, passphrase))
        transport = InProcessTransport(runner, host, opened, prompts)
        try:
            transport.wait_until_open()
            yield transport
        finally:
            prompts.close()
            runner.run(_stop_host(host, opened, stopping))


def _passphrase_prompts(relay: PromptRelay) -> PassphrasePrompts | None:
    from paddock.cli.client.secret_input import passphrase_prompts

    prompts = passphrase_prompts()
    return prompts and PassphrasePrompts(partial(relay.ask, prompts.ask), partial(relay.ask, prompts.ask_new))


@contextmanager
def _terminations_as_interrupts() -> Generator[None, None, None]:
    """Let a terminated command, or one whose terminal is closed, end like an interrupted one: the host ends its
    programs, such as a git that waits for a silent server."""
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]  # not nohup's
    if threading.current_thread() is not threading.main_thread():  # as asyncio's runner with Ctrl-C
        numbers = []
    for number in numbers:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    signal.raise_signal(signal.SIGINT)


async def _hold_host_open(
    opened: asyncio.Future[ASGIApp], stopping: asyncio.Event, passphrase: PassphrasePrompts | None
) -> None:
    """Open and close the host in one task, which the task groups inside it require."""
    config = Config(role="command", start="nothing", cwd=working_directory(), passphrase=passphrase)
    async with open_host(config) as host:
        print_problems(host.loaded_settings.warnings, "!", "yellow")
        opened.set_result(build_api(host, SystemClock(), SystemRandom()))
        await stopping.wait()


async def _stop_host(host: asyncio.Task[None], opened: asyncio.Future[ASGIApp], stopping: asyncio.Event) -> None:
    stopping.set()
    if not opened.done():
        host.cancel()  # interrupted while it was being opened
    await asyncio.wait({host})
    if not host.cancelled():
        host.result()


class InProcessTransport:
    """Dispatches requests into the API of a host in this process."""

    has_daemon = False

    def __init__(
        self, runner: asyncio.Runner, host: asyncio.Task[None], app: asyncio.Future[ASGIApp], prompts: PromptRelay
    ) -> None:
        self._runner = runner
        self._host = host
        self._app = app
        self._prompts = prompts
        self._prompting_s = 0.0

    @contextmanager
    def open(self, request: ApiRequest) -> Generator[InProcessResponse, None, None]:
        deadline = None if request.timeout_s is None else self._time() + request.timeout_s
        response = InProcessResponse(self, request, deadline)
        dispatch = self._runner.get_loop().create_task(response.dispatch(self._app.result(), request.body or b""))
        try:
            response.read_start()
            yield response
        finally:
            self._runner.run(response.close(dispatch))

    def run(self, prompt: Coroutine[Any, Any, T]) -> T:
        return self.wait(prompt)

    def wait_until_open(self) -> None:
        """Wait for the host.

        Raises:
            PaddockError: it cannot be opened.
        """
        self.wait(asyncio.shield(self._app))  # an interrupt ends the wait, not the future: the host resolves that

    def wait(self, work: Awaitable[T], deadline: float | None = None) -> T:
        """Run the event loop until the work is done. What the host asks meanwhile is prompted for.

        Raises:
            TimeoutError: it was not done by the deadline, which does not count the time at prompts.
            PaddockError: the host failed meanwhile.
        """
        task = asyncio.ensure_future(work, loop=self._runner.get_loop())
        try:
            while (prompt := self._runner.run(self._until_done_or_prompt(task, deadline))) is not None:
                started = time.monotonic()
                prompt.run()
                self._prompting_s += time.monotonic() - started
            return task.result()
        finally:
            if not task.done():
                self._runner.run(_cancel(task))

    async def _until_done_or_prompt(self, task: asyncio.Future[T], deadline: float | None) -> PendingPrompt | None:
        """Wait until the task is done, or return what has to be prompted for first."""
        prompted = asyncio.create_task(self._prompts.wait())
        try:
            async with asyncio.timeout(None if deadline is None else deadline - self._time()):
                await asyncio.wait({task, self._host, prompted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            prompted.cancel()
        if task.done():
            return None
        if self._host.done():
            self._host.result()
        return self._prompts.take()

    def _time(self) -> float:
        """The time for deadlines, which stands still at prompts."""
        return time.monotonic() - self._prompting_s


async def _cancel(task: asyncio.Future[T]) -> None:
    task.cancel()
    await asyncio.wait({task})


class InProcessResponse:
    """The response to one request; its messages are queued as the application sends them."""

    def __init__(self, transport: InProcessTransport, request: ApiRequest, deadline: float | None) -> None:
        self._transport = transport
        self._deadline = deadline
        self._scope = _scope_for(request)
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue(_MAX_QUEUED_MESSAGES)
        self._disconnected = asyncio.Event()
        self._ended = False
        self.status = 0
        self.headers: dict[str, str] = {}

    def read_start(self) -> None:
        """Wait for the status and the headers."""
        message = self._next_message()
        self.status = message["status"]
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}

    def read_chunk(self) -> bytes:
        while not self._ended:
            message = self._next_message()
            self._ended = not message.get("more_body", False)
            if message.get("body"):
                return message["body"]
        return b""

    def _next_message(self) -> Message:
        message = self._transport.wait(self._messages.get(), self._deadline)
        if isinstance(message, Exception):
            self._ended = True
            raise message
        return message

    async def dispatch(self, app: ASGIApp, body: bytes) -> None:
        """Run the application for this request."""
        requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if requests:
                return requests.pop()
            await self._disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if not self._disconnected.is_set():
                await self._messages.put(message)

        try:
            await app(self._scope, receive, send)
        except Exception as error:  # the boundary to the application: raised where the response is read
            if not self._disconnected.is_set():
                await self._messages.put(error)

    async def close(self, dispatch: asyncio.Task[None]) -> None:
        """Disconnect if the response is not complete, and wait for the application."""
        if not self._ended:
            self._disconnected.set()
            client_connection(self._scope).mark_disconnected()
            while not self._messages.empty():  # a full queue blocks the application
                self._messages.get_nowait()
        await asyncio.wait({dispatch}, timeout=_DISCONNECT_TIMEOUT_S)
        dispatch.cancel()


def _scope_for(request: ApiRequest) -> Scope:
    path, _, query = request.target.partition("?")
    headers = {"host": "localhost", **request.headers, "content-length": str(len(request.body or b""))}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.lower().encode("ascii"), value.encode("ascii")) for name, value in headers.items()],
        "client": None,
        "server": None,
        "state": {"peer": PeerCredentials(os.getpid(), os.geteuid())},
    }
