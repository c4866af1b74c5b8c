"""One MCP client on lines, carried to the daemon's `/mcp` over its local socket and back.

What a client says goes there as it is. What belongs to HTTP stays here: that an answer may come in a stream, and that
a daemon may go away and come back. Of that a client is told in its own words: what was under way gets an error, and
once there is a daemon again the client goes on as if it had always been that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import orjson

from paddock.cli.client.mcp_session import EVENT_STREAM_TYPE, MAX_RESPONSE_BYTES, McpDaemonSession
from paddock.core.errors import HostError, PaddockError, Unreachable
from paddock.net.http_client import ClientResponse, HttpConnectionLost, ResponseTooLarge
from paddock.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError, to_rpc_error
from paddock.rpc.mcp.http_headers import request_revision
from paddock.rpc.mcp.sse import SseEventTooLarge, SseParser
from paddock.rpc.message import encode_failure

NOTIFY_TIMEOUT_S: Final = 30.0  # seconds for the daemon to take a notification
RECONNECT_DELAY_S: Final = 0.5  # seconds between two looks for a daemon that went away
MAX_RECONNECTS: Final = 3  # how often a stream is taken up again that ended before the answer, and told nothing new
_INITIALIZED: Final = "notifications/initialized"

_Message: TypeAlias = dict[str, Any]
_PendingIds: TypeAlias = dict[Any, Any]  # ids of requests, by what tells them apart


class _McpSessionLost(Exception):
    """The daemon does not know our session: it is another one by now."""


@dataclass(slots=True)
class _PendingBatch:
    """Requests under way."""

    task: asyncio.Task[None]
    sent: asyncio.Event
    stateless: bool
    long_lived: bool  # it ends when nobody wants it any more
    cancelled: bool = False  # the client has cancelled it, and waits for no answer


class McpBridge:
    """Opened by `bridge`.

    Args:
        session: The daemon's side.
        write: Takes a line for the client.
    """

    def __init__(self, session: McpDaemonSession, write: Callable[[bytes], None]) -> None:
        self._session = session
        self._write = write
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: dict[Any, _PendingBatch] = {}
        self._last_notification: asyncio.Task[None] | None = None  # the last notification: nothing overtakes it
        self._listening = False

    def receive_line(self, line: bytes) -> None:
        """Carry a line of the client's there. What it is answered comes through `write`."""
        try:
            messages = _parse_messages(orjson.loads(line))
        except orjson.JSONDecodeError:
            self._fail([None], RpcError(PARSE_ERROR, "that is not JSON"))
            return
        requests = [one for one in messages if "method" in one and "id" in one]
        if requests:
            self._start_request(line, requests)
        elif messages:
            self._start_notify(line, messages)
        else:
            self._fail([None], RpcError(INVALID_REQUEST, "that is no message of JSON-RPC"))

    async def drain(self) -> None:
        """Wait for what is under way."""
        waiting = {one.task for one in self._pending.values() if not one.long_lived and not one.cancelled}
        if waiting:
            await asyncio.wait(waiting)

    async def close(self) -> None:
        """End everything; the daemon cancels what nobody waits for any more."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()

    # --- notifications and answers of the client's --------------------------------------------------------------------

    def _start_notify(self, line: bytes, messages: list[_Message]) -> None:
        after: list[asyncio.Event] = []
        for one in messages:
            if one.get("method") == "notifications/cancelled":
                asked = self._mark_cancelled(one)
                if asked is None or asked.stateless:
                    return  # nobody there has to be told more than that its connection ended
                after.append(asked.sent)
            elif one.get("method") == _INITIALIZED:
                self._session.record_initialized(line)
        self._last_notification = self._start_task(self._notify(line, messages[0], self._last_notification, after))

    async def _notify(
        self, line: bytes, message: _Message, before: asyncio.Task[None] | None, after: Iterable[asyncio.Event]
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        for sent in after:
            await sent.wait()
        # Where the daemon is gone, whoever asks next is told so.
        with suppress(HttpConnectionLost, ResponseTooLarge, TimeoutError):
            async with asyncio.timeout(NOTIFY_TIMEOUT_S), self._session.send_request("POST", line, message) as response:
                await response.read_body(MAX_RESPONSE_BYTES)
        if message.get("method") == _INITIALIZED and self._session.id is not None and not self._listening:
            self._listening = True
            self._start_task(self._forward_server_stream())

    def _mark_cancelled(self, message: _Message) -> _PendingBatch | None:
        params: Any = message.get("params")
        number: Any = cast("_Message", params).get("requestId") if isinstance(params, dict) else None
        asked = self._pending.get(_id_key(number))
        if asked is not None:
            asked.cancelled = True
            if asked.stateless:
                asked.task.cancel()
        return asked

    # --- requests of the client's -------------------------------------------------------------------------------------

    def _start_request(self, line: bytes, requests: list[_Message]) -> None:
        first, sent = requests[0], asyncio.Event()
        task = self._start_task(self._request(line, requests, self._last_notification, sent))
        stateless = request_revision(first) is not None
        asked = _PendingBatch(task, sent, stateless, first["method"] == "subscriptions/listen")
        self._pending.update({_id_key(one["id"]): asked for one in requests})

    async def _request(
        self, line: bytes, requests: list[_Message], before: asyncio.Task[None] | None, sent: asyncio.Event
    ) -> None:
        """Carry requests there, and their answers back."""
        unanswered: _PendingIds = {_id_key(one["id"]): one["id"] for one in requests}
        fault = RpcError(INTERNAL_ERROR, "the daemon ended the stream without an answer")
        try:
            if before is not None:
                await asyncio.wait({before})
            await self._post_with_retry(line, requests[0], sent, unanswered)
        except HttpConnectionLost:
            fault = to_rpc_error(_connection_lost_error(taken=sent.is_set()))
        except (ResponseTooLarge, SseEventTooLarge) as error:
            fault = RpcError(INTERNAL_ERROR, str(error))
        except RpcError as refused:
            fault = refused
        finally:
            sent.set()
            asked = [self._pending.pop(_id_key(one["id"]), None) for one in requests]
        if not any(one is not None and one.cancelled for one in asked):
            self._fail(unanswered.values(), fault)

    async def _post_with_retry(
        self, line: bytes, message: _Message, sent: asyncio.Event, unanswered: _PendingIds
    ) -> None:
        session = self._session.id
        try:
            async with self._session.send_request("POST", line, message, on_sent=sent.set) as response:
                await self._forward_response(response, message, unanswered)
        except _McpSessionLost:
            await self._renew_session(session)
            async with self._session.send_request("POST", line, message) as response:
                await self._forward_response(response, message, unanswered)

    async def _forward_response(self, response: ClientResponse, message: _Message, unanswered: _PendingIds) -> None:
        """Pass on what a request is answered, in whichever form that comes."""
        if response.status == 404 and self._session.id is not None and request_revision(message) is None:
            raise _McpSessionLost
        if response.content_type != EVENT_STREAM_TYPE:
            body = await response.read_body(MAX_RESPONSE_BYTES)
            if not self._forward_messages(body, message, unanswered):
                raise _http_rejection_fault(response.status, body)
            return
        last, pause = await self._forward_stream(response, message, unanswered)
        tries = 0
        # One that ends before the answer came is taken up again where it ended.
        while unanswered and last is not None and self._session.id is not None and tries < MAX_RECONNECTS:
            await asyncio.sleep(pause)
            async with self._session.send_request("GET", last_event=last) as again:
                if again.status != 200 or again.content_type != EVENT_STREAM_TYPE:
                    return
                came, pause = await self._forward_stream(again, message, unanswered)
                tries = tries + 1 if came is None else 0
                last = came or last

    # --- what the daemon says -----------------------------------------------------------------------------------------

    async def _forward_server_stream(self) -> None:
        """Hear what the daemon says by itself; also when it is another one by then."""
        last: str | None = None
        while True:
            session, pause = self._session.id, RECONNECT_DELAY_S
            try:
                async with self._session.send_request("GET", last_event=last) as response:
                    if response.status == 200 and response.content_type == EVENT_STREAM_TYPE:
                        came, pause = await self._forward_stream(response, {"method": ""}, {})
                        last = came or last
                    elif response.status != 404:
                        return  # it has no such stream
                if response.status == 404:
                    last = None
                    await self._renew_session(session)
                    continue
            except (HttpConnectionLost, ResponseTooLarge, SseEventTooLarge):
                pass
            await asyncio.sleep(pause)

    async def _renew_session(self, lost: str | None) -> None:
        for line in await self._session.renew(lost):
            self._write(line)

    async def _forward_stream(
        self, response: ClientResponse, message: _Message, unanswered: _PendingIds
    ) -> tuple[str | None, float]:
        """Pass on a stream; its last event, and how long to wait before asking for more."""
        last: str | None = None
        events = SseParser(MAX_RESPONSE_BYTES)
        async for piece in response.iter_body():
            for event in events.feed(piece):
                last = event.id or last
                if event.data:
                    self._forward_messages(event.data, message, unanswered)
        return last, events.retry if events.retry is not None else RECONNECT_DELAY_S

    def _forward_messages(self, data: bytes, message: _Message, unanswered: _PendingIds) -> bool:
        """Give messages to the client; whether there were any."""
        try:
            value: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        told = [one for one in _parse_messages(value) if one.get("jsonrpc") == "2.0"]
        if "error" in value and value.get("id") is None and len(unanswered) == 1:
            (value["id"],) = unanswered.values()  # who else could be meant
            data = orjson.dumps(value)
        wanted = bool(told)
        for one in told:
            if "method" not in one:
                number = _id_key(one.get("id"))
                unanswered.pop(number, None)
                self._session.observe_response(message, one)
                wanted = not (number in self._pending and self._pending[number].cancelled)
        if wanted:
            self._write(orjson.dumps(value) if b"\n" in data else data)
        return bool(told)

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _fail(self, numbers: Iterable[Any], fault: RpcError) -> None:
        for number in tuple(numbers):
            self._write(encode_failure(number, fault).rstrip(b"\n"))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@asynccontextmanager
async def open_bridge(
    path: Path, target: str, headers: Sequence[tuple[str, str]], write: Callable[[bytes], None]
) -> AsyncGenerator[McpBridge, None]:
    """A bridge to the daemon at this socket for as long as the block runs."""
    made = McpBridge(McpDaemonSession(path, target, headers), write)
    try:
        yield made
    finally:
        await made.close()


def _parse_messages(value: Any) -> list[_Message]:
    """The messages of a line, or of an answer: one, or several in an array; nothing where one of them is none."""
    several = cast("list[Any]", value) if isinstance(value, list) else [value]
    return cast("list[_Message]", several) if all(isinstance(one, dict) for one in several) else []


def _id_key(number: Any) -> Any:
    """What tells one request's id from another's: 1 and "1" are two, and what cannot be an id is like none."""
    return (type(number).__name__, number) if isinstance(number, str | int | float) else None


def _connection_lost_error(*, taken: bool) -> PaddockError:
    if not taken:
        return Unreachable(
            "no daemon runs any more", code="daemon.not_running", hint="start it: paddock serve; then ask again"
        )
    return HostError(
        "the daemon went away before it answered",
        code="daemon.lost",
        hint="start it again: paddock serve; what may have happened: paddock run doubt list",
    )


def _http_rejection_fault(status: int, body: bytes) -> RpcError:
    """Why a request was not even looked at, where the daemon says so in HTTP's words."""
    told: Any = None
    with suppress(orjson.JSONDecodeError):
        told = orjson.loads(body)
    problem = cast("_Message", told) if isinstance(told, dict) else dict[str, Any]()
    words = problem.get("detail") or problem.get("message") or f"the daemon answered with {status}"
    return RpcError(INVALID_REQUEST, str(words), {name: problem[name] for name in ("code", "hint") if name in problem})
