"""A bridge between an MCP client on stdio and the daemon's `/mcp` on its local socket.

The client's messages are forwarded unchanged. HTTP details stay here: that a response may be a stream, and that a
daemon may go away and come back. The client sees that in protocol terms: requests in flight get an error, and once a
daemon runs again the client continues as if it had always been the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import orjson
from msgspec import Struct

from paddock.cli.client.mcp_session import EVENT_STREAM_TYPE, MAX_RESPONSE_BYTES, McpDaemonSession
from paddock.core.errors import HostError, PaddockError, Unreachable
from paddock.net.http_client import ClientResponse, HttpConnectionLost, ResponseTooLarge
from paddock.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError, to_rpc_error
from paddock.rpc.mcp.http_headers import request_revision
from paddock.rpc.mcp.sse import SseEventTooLarge, SseParser
from paddock.rpc.message import encode_failure

NOTIFY_TIMEOUT_S: Final = 30.0  # for the daemon to accept a notification
RECONNECT_DELAY_S: Final = 0.5  # between two attempts to reach a daemon that went away
MAX_RECONNECTS: Final = 3  # resumptions without a new event of a stream that ended before the response
_INITIALIZED: Final = "notifications/initialized"

_Message: TypeAlias = dict[str, Any]
_PendingIds: TypeAlias = dict[Any, Any]  # request ids by `_id_key`


class _McpSessionLost(Exception):
    """The daemon does not know the session: it was restarted."""


class _PendingBatch(Struct):
    """Requests in flight that were sent together."""

    task: asyncio.Task[None]
    sent: asyncio.Event
    stateless: bool
    long_lived: bool  # a subscription, which ends when it is cancelled
    cancelled: bool = False  # the client cancelled it and expects no response


class McpBridge:
    """Forwards messages in both directions. Opened by `open_bridge`.

    Args:
        session: The session with the daemon.
        write: Writes a line to the client.
    """

    def __init__(self, session: McpDaemonSession, write: Callable[[bytes], None]) -> None:
        self._session = session
        self._write = write
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: dict[Any, _PendingBatch] = {}
        self._last_notification: asyncio.Task[None] | None = None  # later messages must not overtake it
        self._listening = False

    def receive_line(self, line: bytes) -> None:
        """Forward a line of the client. Responses come through `write`."""
        try:
            messages = _parse_messages(orjson.loads(line))
        except orjson.JSONDecodeError:
            self._fail([None], RpcError(PARSE_ERROR, "that is not JSON"))
            return
        requests = [message for message in messages if "method" in message and "id" in message]
        if requests:
            self._start_request(line, requests)
        elif messages:
            self._start_notify(line, messages)
        else:
            self._fail([None], RpcError(INVALID_REQUEST, "that is no message of JSON-RPC"))

    async def drain(self) -> None:
        """Wait for the requests in flight."""
        tasks = {batch.task for batch in self._pending.values() if not batch.long_lived and not batch.cancelled}
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End all tasks; the daemon cancels what is no longer waited for."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()

    # --- notifications and responses of the client --------------------------------------------------------------------

    def _start_notify(self, line: bytes, messages: list[_Message]) -> None:
        sent_events: list[asyncio.Event] = []
        for message in messages:
            if message.get("method") == "notifications/cancelled":
                batch = self._mark_cancelled(message)
                if batch is None or batch.stateless:
                    return  # closing its connection is enough for the daemon
                sent_events.append(batch.sent)
            elif message.get("method") == _INITIALIZED:
                self._session.record_initialized(line)
        self._last_notification = self._start_task(
            self._notify(line, messages[0], self._last_notification, sent_events)
        )

    async def _notify(
        self, line: bytes, message: _Message, previous: asyncio.Task[None] | None, sent_events: Iterable[asyncio.Event]
    ) -> None:
        if previous is not None:
            await asyncio.wait({previous})
        for sent in sent_events:
            await sent.wait()
        # If the daemon is gone, the next request reports it.
        with suppress(HttpConnectionLost, ResponseTooLarge, TimeoutError):
            async with asyncio.timeout(NOTIFY_TIMEOUT_S), self._session.send_request("POST", line, message) as response:
                await response.read_body(MAX_RESPONSE_BYTES)
        if message.get("method") == _INITIALIZED and self._session.id is not None and not self._listening:
            self._listening = True
            self._start_task(self._forward_server_stream())

    def _mark_cancelled(self, message: _Message) -> _PendingBatch | None:
        params: Any = message.get("params")
        request_id: Any = cast("_Message", params).get("requestId") if isinstance(params, dict) else None
        batch = self._pending.get(_id_key(request_id))
        if batch is not None:
            batch.cancelled = True
            if batch.stateless:
                batch.task.cancel()
        return batch

    # --- requests of the client ---------------------------------------------------------------------------------------

    def _start_request(self, line: bytes, requests: list[_Message]) -> None:
        first, sent = requests[0], asyncio.Event()
        task = self._start_task(self._request(line, requests, self._last_notification, sent))
        stateless = request_revision(first) is not None
        batch = _PendingBatch(task, sent, stateless, first["method"] == "subscriptions/listen")
        self._pending.update({_id_key(request["id"]): batch for request in requests})

    async def _request(
        self, line: bytes, requests: list[_Message], previous: asyncio.Task[None] | None, sent: asyncio.Event
    ) -> None:
        """Forward requests, and their responses back."""
        unanswered: _PendingIds = {_id_key(request["id"]): request["id"] for request in requests}
        fault = RpcError(INTERNAL_ERROR, "the daemon ended the stream without an answer")
        try:
            if previous is not None:
                await asyncio.wait({previous})
            await self._post_with_retry(line, requests[0], sent, unanswered)
        except HttpConnectionLost:
            fault = to_rpc_error(_connection_lost_error(was_sent=sent.is_set()))
        except (ResponseTooLarge, SseEventTooLarge) as error:
            fault = RpcError(INTERNAL_ERROR, str(error))
        except RpcError as refused:
            fault = refused
        finally:
            sent.set()
            batches = [self._pending.pop(_id_key(request["id"]), None) for request in requests]
        if not any(batch is not None and batch.cancelled for batch in batches):
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
        """Forward the response to a request, whether JSON or a stream."""
        if response.status == 404 and self._session.id is not None and request_revision(message) is None:
            raise _McpSessionLost
        if response.content_type != EVENT_STREAM_TYPE:
            body = await response.read_body(MAX_RESPONSE_BYTES)
            if not self._forward_messages(body, message, unanswered):
                raise _http_rejection_fault(response.status, body)
            return
        last_event, pause = await self._forward_stream(response, message, unanswered)
        tries = 0
        # A stream that ends before the response is resumed where it ended.
        while unanswered and last_event is not None and self._session.id is not None and tries < MAX_RECONNECTS:
            await asyncio.sleep(pause)
            async with self._session.send_request("GET", last_event=last_event) as resumed:
                if resumed.status != 200 or resumed.content_type != EVENT_STREAM_TYPE:
                    return
                last_id, pause = await self._forward_stream(resumed, message, unanswered)
                tries = tries + 1 if last_id is None else 0
                last_event = last_id or last_event

    # --- messages of the daemon ---------------------------------------------------------------------------------------

    async def _forward_server_stream(self) -> None:
        """Forward the daemon's own messages, also after it was restarted."""
        last_event: str | None = None
        while True:
            session, pause = self._session.id, RECONNECT_DELAY_S
            try:
                async with self._session.send_request("GET", last_event=last_event) as response:
                    if response.status == 200 and response.content_type == EVENT_STREAM_TYPE:
                        last_id, pause = await self._forward_stream(response, {"method": ""}, {})
                        last_event = last_id or last_event
                    elif response.status != 404:
                        return  # the daemon has no such stream
                if response.status == 404:
                    last_event = None
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
        """Forward a stream; return its last event id, and how long to wait before resuming."""
        last_event: str | None = None
        events = SseParser(MAX_RESPONSE_BYTES)
        async for chunk in response.iter_body():
            for event in events.feed(chunk):
                last_event = event.id or last_event
                if event.data:
                    self._forward_messages(event.data, message, unanswered)
        return last_event, events.retry if events.retry is not None else RECONNECT_DELAY_S

    def _forward_messages(self, data: bytes, message: _Message, unanswered: _PendingIds) -> bool:
        """Write messages to the client; return whether there were any."""
        try:
            value: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        messages = [item for item in _parse_messages(value) if item.get("jsonrpc") == "2.0"]
        if "error" in value and value.get("id") is None and len(unanswered) == 1:
            (value["id"],) = unanswered.values()  # the only request it can be about
            data = orjson.dumps(value)
        forward = bool(messages)
        for item in messages:
            if "method" not in item:
                key = _id_key(item.get("id"))
                unanswered.pop(key, None)
                self._session.observe_response(message, item)
                forward = not (key in self._pending and self._pending[key].cancelled)
        if forward:
            self._write(orjson.dumps(value) if b"\n" in data else data)
        return bool(messages)

    # --- errors and tasks ---------------------------------------------------------------------------------------------

    def _fail(self, request_ids: Iterable[Any], fault: RpcError) -> None:
        for request_id in tuple(request_ids):
            self._write(encode_failure(request_id, fault).rstrip(b"\n"))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@asynccontextmanager
async def open_bridge(
    path: Path, target: str, headers: Sequence[tuple[str, str]], write: Callable[[bytes], None]
) -> AsyncGenerator[McpBridge, None]:
    """Open a bridge to the daemon at this socket for as long as the block runs."""
    bridge = McpBridge(McpDaemonSession(path, target, headers), write)
    try:
        yield bridge
    finally:
        await bridge.close()


def _parse_messages(value: Any) -> list[_Message]:
    """Return the messages of a line or response, single or batched; empty if one of them is not an object."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return cast("list[_Message]", items) if all(isinstance(item, dict) for item in items) else []


def _id_key(request_id: Any) -> Any:
    """Return a key that tells request ids apart: 1 and "1" differ, and an invalid id is like none."""
    return (type(request_id).__name__, request_id) if isinstance(request_id, str | int | float) else None


def _connection_lost_error(*, was_sent: bool) -> PaddockError:
    if not was_sent:
        return Unreachable(
            "no daemon runs any more", code="daemon.not_running", hint="start it: paddock serve; then ask again"
        )
    return HostError(
        "the daemon went away before it answered",
        code="daemon.lost",
        hint="start it again: paddock serve; what may have happened: paddock call unresolved list",
    )


def _http_rejection_fault(status: int, body: bytes) -> RpcError:
    """Build the error for a request that the daemon rejected at the HTTP level."""
    parsed: Any = None
    with suppress(orjson.JSONDecodeError):
        parsed = orjson.loads(body)
    problem = cast("_Message", parsed) if isinstance(parsed, dict) else dict[str, Any]()
    message = problem.get("detail") or problem.get("message") or f"the daemon answered with {status}"
    return RpcError(
        INVALID_REQUEST, str(message), {name: problem[name] for name in ("code", "hint", "action") if name in problem}
    )
