"""The streamable HTTP transport: each message is an HTTP request of its own, and answers come back in streams.

A peer sees the same as over pipes. HTTP specifics stay here: sessions, which stream an answer comes in, and that
closing a stream means that nobody waits for the call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, cast

import orjson
from msgspec import Struct

from paddock.net.http_client import ClientResponse, HttpClient, HttpConnectionLost, ResponseTooLarge
from paddock.rpc.errors import INVALID_REQUEST, NO_ANSWER, RpcError
from paddock.rpc.mcp.http_headers import request_revision
from paddock.rpc.mcp.sse import SseEvent, SseEventTooLarge, SseParser
from paddock.rpc.message import MAX_FRAME_BYTES, encode_failure
from paddock.rpc.transport import Receiver
from paddock.runtime.protocols.mcp.http_exchange import McpHttpClient, response_error
from paddock.runtime.protocols.mcp.remote_transport import RemoteTransport

NOTIFY_TIMEOUT_S: Final = 30.0  # for a server to accept a notification
SESSION_DELETE_TIMEOUT_S: Final = 4.0
CANCEL_GRACE_S: Final = 5.0  # for a cancelled call to end its stream by itself
MAX_RESUME_ATTEMPTS: Final = 2  # how often a broken stream is resumed
DEFAULT_RETRY_S: Final = 1.0  # pause before that, unless the server sets another
_RETRY_BOUNDS_S: Final = (0.1, 30.0)
_EVENT_STREAM_TYPE: Final = "text/event-stream"


class _PendingPost(Struct, frozen=True):
    """A request in flight."""

    task: asyncio.Task[None]
    stateless: bool


class _StreamEnded(Exception):
    """The stream ended without the answer."""

    def __init__(self, last_event: str | None, retry_delay_s: float) -> None:
        super().__init__()
        self.last_event = last_event
        self.retry_delay_s = retry_delay_s


class StreamableHttpTransport(RemoteTransport):
    """See `Transport`.

    Args:
        http: Connections to the server; closed with the transport.
        target: The request target there.
        headers: The user's own headers, sent with each request.
        receiver: Gets what arrives.
        on_finished: Called once `finish` has deleted the session.
    """

    def __init__(
        self,
        http: HttpClient,
        target: str,
        headers: Mapping[str, str],
        receiver: Receiver,
        *,
        on_finished: Callable[[], None],
    ) -> None:
        super().__init__(http, receiver)
        self._client = McpHttpClient(http, target, headers)
        self._on_finished = on_finished
        self._posts: dict[int, _PendingPost] = {}
        self._last_notification: asyncio.Task[None] | None = None  # later messages wait for it, so nothing overtakes it

    # --- see `Transport` ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._inbox.start()

    def send(self, frame: bytes) -> None:
        self._require_room()
        message = cast("dict[str, Any]", orjson.loads(frame))
        if message.get("method") == "notifications/cancelled" and self._cancel_request(message):
            return
        mark_sent = self._count_queued(len(frame))
        after = self._last_notification
        if "method" not in message or "id" not in message:
            self._last_notification = self._start_task(self._post_notification(frame, message, after, mark_sent))
            return
        request_id = cast("int", message["id"])
        task = self._start_task(self._post_request(frame, message, after, mark_sent))
        self._posts[request_id] = _PendingPost(task, request_revision(message) is not None)
        task.add_done_callback(lambda _: self._posts.pop(request_id, None))

    def finish(self) -> None:
        if self._closed_reason is None:
            self._stop_sending("nothing more is sent")
            self._start_task(self._delete_session())

    # --- sending ------------------------------------------------------------------------------------------------------

    async def _post_request(
        self, frame: bytes, message: dict[str, Any], after: asyncio.Task[None] | None, mark_sent: Callable[[], None]
    ) -> None:
        """Send one request and deliver its answer."""
        request_id = cast("int", message["id"])
        try:
            if after is not None:
                await asyncio.wait({after})
            await self._post_with_resume(frame, message, mark_sent)
        except RpcError as rpc_error:
            self._inbox.feed(encode_failure(request_id, rpc_error))
        except HttpConnectionLost as lost:
            if message["method"] != "subscriptions/listen":
                raise
            # A stream that is silent for hours is often cut in between, which says nothing about the server.
            self._inbox.feed(encode_failure(request_id, RpcError(NO_ANSWER, str(lost))))
        finally:
            mark_sent()

    async def _post_with_resume(self, frame: bytes, message: dict[str, Any], mark_sent: Callable[[], None]) -> None:
        try:
            async with self._client.send_request("POST", message, frame, on_sent=mark_sent) as response:
                return await self._read_response(response, message)
        except _StreamEnded as ended:
            stream = ended
        for _ in range(MAX_RESUME_ATTEMPTS):
            if stream.last_event is None or self._client.session is None:
                break
            await asyncio.sleep(stream.retry_delay_s)
            try:
                async with self._client.send_request("GET", last_event=stream.last_event) as response:
                    if response.status == 200 and response.content_type == _EVENT_STREAM_TYPE:
                        return await self._read_stream(response, message)
            except _StreamEnded as ended:
                stream = ended
        raise RpcError(NO_ANSWER, "the server ended the stream without an answer")

    async def _post_notification(
        self, frame: bytes, message: dict[str, Any], after: asyncio.Task[None] | None, mark_sent: Callable[[], None]
    ) -> None:
        """Send a notification or one of our answers."""
        accepted = False
        try:
            if after is not None:
                await asyncio.wait({after})
            async with (
                asyncio.timeout(NOTIFY_TIMEOUT_S),
                self._client.send_request("POST", message, frame, on_sent=mark_sent) as response,
            ):
                accepted = response.status < 300
        except (HttpConnectionLost, ResponseTooLarge, RpcError, TimeoutError):
            pass  # if the server is gone, the next request finds that out
        finally:
            mark_sent()
        if accepted and message.get("method") == "notifications/initialized":
            self._start_task(self._listen_for_server_messages())

    def _cancel_request(self, message: dict[str, Any]) -> bool:
        """Cancel a request. Returns True if closing its stream is all that the server needs."""
        post = self._posts.get(cast("dict[str, Any]", message["params"]).get("requestId", 0))
        if post is None:
            return self._client.revision is None
        if post.stateless:
            post.task.cancel()
        else:
            # The server need not answer it any more, and then its stream would stay open.
            asyncio.get_running_loop().call_later(CANCEL_GRACE_S, post.task.cancel)
        return post.stateless

    async def _delete_session(self) -> None:
        if self._client.session is not None:
            with contextlib.suppress(HttpConnectionLost, ResponseTooLarge, RpcError, TimeoutError):
                async with asyncio.timeout(SESSION_DELETE_TIMEOUT_S), self._client.send_request("DELETE"):
                    pass
        self._on_finished()

    # --- receiving ----------------------------------------------------------------------------------------------------

    async def _read_response(self, response: ClientResponse, message: dict[str, Any]) -> None:
        """Read the response to a request, in either of its forms."""
        if response.status == 404 and self._client.session is not None:
            raise HttpConnectionLost("the server has ended the session")
        if not 200 <= response.status < 300:
            raise await response_error(response)
        self._client.note_response(message, response)
        match response.content_type:
            case "application/json":
                if not self._take_message(await response.read_body(MAX_FRAME_BYTES), message):
                    raise RpcError(INVALID_REQUEST, "the server answered with something else than an answer")
            case "text/event-stream":
                await self._read_stream(response, message)
            case content_type:
                error_text = f"the server answered with {content_type or 'nothing'} and status {response.status}"
                raise RpcError(INVALID_REQUEST, error_text, {"http_status": response.status})

    async def _read_stream(self, response: ClientResponse, message: dict[str, Any]) -> None:
        last_event: str | None = None
        events = SseParser()
        try:
            async for event in self._stream_events(response, events):
                last_event = event.id or last_event
                if self._take_message(event.data, message):
                    return
        except HttpConnectionLost:
            if last_event is None:
                raise  # nothing to resume from
        raise _StreamEnded(last_event, _retry_delay(events))

    async def _stream_events(self, response: ClientResponse, events: SseParser) -> AsyncIterator[SseEvent]:
        async for chunk in response.iter_body():
            for event in events.feed(chunk):
                if event.kind == "message" and event.data:
                    yield event
            await self._may_receive.wait()

    def _take_message(self, data: bytes, message: dict[str, Any] | None) -> bool:
        """Deliver a message; returns whether it is the answer to `message`."""
        received = self._deliver(data, message)
        if received is None or message is None or "method" in received:
            return False
        self._client.note_answer(message, received)
        return received.get("id") == message["id"]

    async def _listen_for_server_messages(self) -> None:
        """Receive the messages that the server sends unasked, if it has a stream for them."""
        last_event: str | None = None
        failures = 0
        while failures < MAX_RESUME_ATTEMPTS and self._closed_reason is None:
            events = SseParser()
            try:
                async with self._client.send_request("GET", last_event=last_event) as response:
                    if response.status != 200 or response.content_type != _EVENT_STREAM_TYPE:
                        return
                    failures = 0
                    async for event in self._stream_events(response, events):
                        last_event = event.id or last_event
                        self._take_message(event.data, None)
            except RpcError:
                return
            except (HttpConnectionLost, ResponseTooLarge, SseEventTooLarge):
                failures += 1
            await asyncio.sleep(_retry_delay(events))


def _retry_delay(events: SseParser) -> float:
    shortest, longest = _RETRY_BOUNDS_S
    return min(max(events.retry if events.retry is not None else DEFAULT_RETRY_S, shortest), longest)
