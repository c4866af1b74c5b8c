"""A connection to a server elsewhere: each message is a request of its own, and answers come back in streams.

A peer sees the same as over pipes. What belongs to HTTP stays here: sessions, which stream an answer comes in, and
that to close a stream means that nobody waits for the call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from paddock.net.http_client import ClientResponse, HttpClient, HttpConnectionLost, ResponseTooLarge
from paddock.rpc.errors import INVALID_REQUEST, RpcError
from paddock.rpc.mcp.http_headers import request_revision
from paddock.rpc.mcp.revisions import parse_initialize_result
from paddock.rpc.mcp.sse import SseEvent, SseEventTooLarge, SseParser
from paddock.rpc.message import MAX_FRAME_BYTES, encode_failure
from paddock.rpc.transport import Receiver
from paddock.runtime.protocols.mcp.http_exchange import NO_ANSWER_CODE, McpHttpClient, response_error
from paddock.runtime.protocols.mcp.remote_transport import RemoteTransport

NOTIFY_TIMEOUT_S: Final = 30.0  # seconds for a server to take a notification
SESSION_DELETE_TIMEOUT_S: Final = 4.0
CANCEL_GRACE_S: Final = 5.0  # seconds for a stopped call to end its stream by itself
MAX_RESUME_ATTEMPTS: Final = 2  # how often a broken stream is taken up again
DEFAULT_RETRY_S: Final = 1.0  # seconds before that, unless the server says otherwise
_RETRY_BOUNDS_S: Final = (0.1, 30.0)
_EVENT_STREAM_TYPE: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class _PendingPost:
    """A request under way."""

    task: asyncio.Task[None]
    stateless: bool


class _StreamEnded(Exception):
    """A stream ended, and the answer was not in it."""

    def __init__(self, last_event: str | None, pause: float) -> None:
        super().__init__()
        self.last_event = last_event
        self.pause = pause


class StreamableHttpTransport(RemoteTransport):
    """See `Transport`.

    Args:
        http: Connections to the server; closed with the transport.
        target: What to ask for there.
        headers: A person's own, sent with each request.
        receiver: Who gets what arrives.
        on_finished: Told when `finish` has said goodbye.
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
        self._last_notification: asyncio.Task[None] | None = None  # the last notification: nothing overtakes it

    # --- see `Transport` ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._inbox.start()

    def send(self, frame: bytes) -> None:
        self._require_room()
        message = cast("dict[str, Any]", orjson.loads(frame))
        if message.get("method") == "notifications/cancelled" and self._cancel_request(message):
            return
        sent = self._count_queued(len(frame))
        after = self._last_notification
        if "method" not in message or "id" not in message:
            self._last_notification = self._start_task(self._post_notification(frame, message, after, sent))
            return
        number = cast("int", message["id"])
        task = self._start_task(self._post_request(frame, message, after, sent))
        self._posts[number] = _PendingPost(task, request_revision(message) is not None)
        task.add_done_callback(lambda _: self._posts.pop(number, None))

    def finish(self) -> None:
        if self._closed_reason is None:
            self._stop_sending("nothing more is sent")
            self._start_task(self._delete_session())

    # --- what is sent -------------------------------------------------------------------------------------------------

    async def _post_request(
        self, frame: bytes, message: dict[str, Any], after: asyncio.Task[None] | None, sent: Callable[[], None]
    ) -> None:
        """Carry one request there and its answer back."""
        number = cast("int", message["id"])
        try:
            if after is not None:
                await asyncio.wait({after})
            await self._post_with_resume(frame, message, sent)
        except RpcError as fault:
            self._inbox.feed(encode_failure(number, fault))
        except HttpConnectionLost as lost:
            if message["method"] != "subscriptions/listen":
                raise
            # A stream that is silent for hours is often cut on its way, which says nothing about the server.
            self._inbox.feed(encode_failure(number, RpcError(NO_ANSWER_CODE, str(lost))))
        finally:
            sent()

    async def _post_with_resume(self, frame: bytes, message: dict[str, Any], sent: Callable[[], None]) -> None:
        try:
            async with self._client.send_request("POST", message, frame, on_sent=sent) as response:
                return await self._read_response(response, message)
        except _StreamEnded as over:
            stream = over
        for _ in range(MAX_RESUME_ATTEMPTS):
            if stream.last_event is None or self._client.session is None:
                break
            await asyncio.sleep(stream.pause)
            try:
                async with self._client.send_request("GET", last_event=stream.last_event) as response:
                    if response.status == 200 and response.content_type == _EVENT_STREAM_TYPE:
                        return await self._read_stream(response, message)
            except _StreamEnded as over:
                stream = over
        raise RpcError(NO_ANSWER_CODE, "the server ended the stream without an answer")

    async def _post_notification(
        self, frame: bytes, message: dict[str, Any], after: asyncio.Task[None] | None, sent: Callable[[], None]
    ) -> None:
        """Carry a notification there, or an answer of ours."""
        taken = False
        try:
            if after is not None:
                await asyncio.wait({after})
            async with (
                asyncio.timeout(NOTIFY_TIMEOUT_S),
                self._client.send_request("POST", message, frame, on_sent=sent) as response,
            ):
                taken = response.status < 300
        except (HttpConnectionLost, ResponseTooLarge, RpcError, TimeoutError):
            pass  # if the server is gone, the next request finds that out
        finally:
            sent()
        if taken and message.get("method") == "notifications/initialized":
            self._start_task(self._listen_for_server_messages())

    def _cancel_request(self, message: dict[str, Any]) -> bool:
        """Stop a request. True where to close its stream is all that a server needs to be told."""
        post = self._posts.get(cast("dict[str, Any]", message["params"]).get("requestId", 0))
        if post is None:
            return self._client.revision is None
        if post.stateless:
            post.task.cancel()
        else:
            # It need not be answered any more, and then its stream would stay open.
            asyncio.get_running_loop().call_later(CANCEL_GRACE_S, post.task.cancel)
        return post.stateless

    async def _delete_session(self) -> None:
        if self._client.session is not None:
            with contextlib.suppress(HttpConnectionLost, ResponseTooLarge, RpcError, TimeoutError):
                async with asyncio.timeout(SESSION_DELETE_TIMEOUT_S), self._client.send_request("DELETE"):
                    pass
        self._on_finished()

    # --- what arrives -------------------------------------------------------------------------------------------------

    async def _read_response(self, response: ClientResponse, message: dict[str, Any]) -> None:
        """Take the answer to a request, in whichever form it comes."""
        if response.status == 404 and self._client.session is not None:
            raise HttpConnectionLost("the server has ended the session")
        if not 200 <= response.status < 300:
            raise await response_error(response)
        if message["method"] == "initialize":
            self._client.session = response.headers.get("mcp-session-id")
        match response.content_type:
            case "application/json":
                if not self._take_message(await response.read_body(MAX_FRAME_BYTES), message):
                    raise RpcError(INVALID_REQUEST, "the server answered with something else than an answer")
            case "text/event-stream":
                await self._read_stream(response, message)
            case other:
                told = f"the server answered with {other or 'nothing'} and status {response.status}"
                raise RpcError(INVALID_REQUEST, told, {"http_status": response.status})

    async def _read_stream(self, response: ClientResponse, message: dict[str, Any]) -> None:
        last: str | None = None
        events = SseParser()
        try:
            async for event in self._stream_events(response, events):
                last = event.id or last
                if self._take_message(event.data, message):
                    return
        except HttpConnectionLost:
            if last is None:
                raise  # nothing to go on from
        raise _StreamEnded(last, _retry_delay(events))

    async def _stream_events(self, response: ClientResponse, events: SseParser) -> AsyncIterator[SseEvent]:
        async for piece in response.iter_body():
            for event in events.feed(piece):
                if event.kind == "message" and event.data:
                    yield event
            await self._may_receive.wait()

    def _take_message(self, data: bytes, message: dict[str, Any] | None) -> bool:
        """Pass on a message; whether it is the answer to ours."""
        told = self._deliver(data, message)
        if told is None or message is None or "method" in told:
            return False
        self._note_headers(told, message)
        return told.get("id") == message["id"]

    def _note_headers(self, told: dict[str, Any], message: dict[str, Any]) -> None:
        """Take note of what later requests need in their headers."""
        result = cast("dict[str, Any]", told["result"]) if isinstance(told.get("result"), dict) else {}
        if message["method"] == "initialize":
            agreed = parse_initialize_result(result)
            self._client.revision = agreed.revision if agreed is not None else None
        elif message["method"] == "tools/list":
            self._client.headers.learn_tools(result.get("tools"))

    async def _listen_for_server_messages(self) -> None:
        """Hear what the server says by itself, where it has a stream for that."""
        last: str | None = None
        failures = 0
        while failures < MAX_RESUME_ATTEMPTS and self._closed_reason is None:
            events = SseParser()
            try:
                async with self._client.send_request("GET", last_event=last) as response:
                    if response.status != 200 or response.content_type != _EVENT_STREAM_TYPE:
                        return
                    failures = 0
                    async for event in self._stream_events(response, events):
                        last = event.id or last
                        self._take_message(event.data, None)
            except RpcError:
                return
            except (HttpConnectionLost, ResponseTooLarge, SseEventTooLarge):
                failures += 1
            await asyncio.sleep(_retry_delay(events))


def _retry_delay(events: SseParser) -> float:
    shortest, longest = _RETRY_BOUNDS_S
    return min(max(events.retry if events.retry is not None else DEFAULT_RETRY_S, shortest), longest)
