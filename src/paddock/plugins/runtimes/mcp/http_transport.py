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

from paddock.plugins.runtimes.mcp.http_answers import UNANSWERED, refusal_of
from paddock.plugins.runtimes.mcp.http_exchange import Exchanges
from paddock.plugins.runtimes.mcp.http_headers import stateless_version
from paddock.plugins.runtimes.mcp.remote_transport import RemoteTransport
from paddock.plugins.runtimes.mcp.revisions import agreed_by_handshake
from paddock.plugins.runtimes.mcp.sse import EventSplitter, EventTooLarge, ServerEvent
from paddock.rpc.faults import INVALID_REQUEST, RpcFault
from paddock.rpc.http_client import HttpClient, HttpLost, Response, TooLarge
from paddock.rpc.message import MAX_FRAME, encode_failure
from paddock.rpc.transport import Receiver

TELL_TIMEOUT: Final = 30.0  # seconds for a server to take a notification
FAREWELL_TIMEOUT: Final = 4.0
STOP_GRACE: Final = 5.0  # seconds for a stopped call to end its stream by itself
TRIES: Final = 2  # how often a broken stream is taken up again
RETRY: Final = 1.0  # seconds before that, unless the server says otherwise
_RETRIES: Final = (0.1, 30.0)
_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class _Post:
    """A request under way."""

    task: asyncio.Task[None]
    stateless: bool


class _StreamOver(Exception):
    """A stream ended, and the answer was not in it."""

    def __init__(self, last_event: str | None, pause: float) -> None:
        super().__init__()
        self.last_event = last_event
        self.pause = pause


class HttpTransport(RemoteTransport):
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
        self._exchanges = Exchanges(http, target, headers)
        self._on_finished = on_finished
        self._posts: dict[int, _Post] = {}
        self._told: asyncio.Task[None] | None = None  # the last notification: nothing overtakes it

    # --- see `Transport` ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._inbox.start()

    def send(self, frame: bytes) -> None:
        self._require_room()
        message = cast("dict[str, Any]", orjson.loads(frame))
        if message.get("method") == "notifications/cancelled" and self._hung_up(message):
            return
        sent = self._queued(len(frame))
        after = self._told
        if "method" not in message or "id" not in message:
            self._told = self._begin(self._tell(frame, message, after, sent))
            return
        number = cast("int", message["id"])
        task = self._begin(self._ask(frame, message, after, sent))
        self._posts[number] = _Post(task, stateless_version(message) is not None)
        task.add_done_callback(lambda _: self._posts.pop(number, None))

    def finish(self) -> None:
        if self._over is None:
            self._stop_sending("nothing more is sent")
            self._begin(self._say_goodbye())

    # --- what is sent -------------------------------------------------------------------------------------------------

    async def _ask(
        self, frame: bytes, message: dict[str, Any], after: asyncio.Task[None] | None, sent: Callable[[], None]
    ) -> None:
        """Carry one request there and its answer back."""
        number = cast("int", message["id"])
        try:
            if after is not None:
                await asyncio.wait({after})
            await self._carried(frame, message, sent)
        except RpcFault as fault:
            self._inbox.feed(encode_failure(number, fault))
        except HttpLost as lost:
            if message["method"] != "subscriptions/listen":
                raise
            # A stream that is silent for hours is often cut on its way, which says nothing about the server.
            self._inbox.feed(encode_failure(number, RpcFault(UNANSWERED, str(lost))))
        finally:
            sent()

    async def _carried(self, frame: bytes, message: dict[str, Any], sent: Callable[[], None]) -> None:
        try:
            async with self._exchanges.exchange("POST", message, frame, on_sent=sent) as response:
                return await self._answered(response, message)
        except _StreamOver as over:
            stream = over
        for _ in range(TRIES):
            if stream.last_event is None or self._exchanges.session is None:
                break
            await asyncio.sleep(stream.pause)
            try:
                async with self._exchanges.exchange("GET", last_event=stream.last_event) as response:
                    if response.status == 200 and response.content_type == _STREAM:
                        return await self._streamed(response, message)
            except _StreamOver as over:
                stream = over
        raise RpcFault(UNANSWERED, "the server ended the stream without an answer")

    async def _tell(
        self, frame: bytes, message: dict[str, Any], after: asyncio.Task[None] | None, sent: Callable[[], None]
    ) -> None:
        """Carry a notification there, or an answer of ours."""
        taken = False
        try:
            if after is not None:
                await asyncio.wait({after})
            async with (
                asyncio.timeout(TELL_TIMEOUT),
                self._exchanges.exchange("POST", message, frame, on_sent=sent) as response,
            ):
                taken = response.status < 300
        except (HttpLost, TooLarge, RpcFault, TimeoutError):
            pass  # if the server is gone, the next request finds that out
        finally:
            sent()
        if taken and message.get("method") == "notifications/initialized":
            self._begin(self._listen())

    def _hung_up(self, message: dict[str, Any]) -> bool:
        """Stop a request. True where to close its stream is all that a server needs to be told."""
        post = self._posts.get(cast("dict[str, Any]", message["params"]).get("requestId", 0))
        if post is None:
            return self._exchanges.revision is None
        if post.stateless:
            post.task.cancel()
        else:
            # It need not be answered any more, and then its stream would stay open.
            asyncio.get_running_loop().call_later(STOP_GRACE, post.task.cancel)
        return post.stateless

    async def _say_goodbye(self) -> None:
        if self._exchanges.session is not None:
            with contextlib.suppress(HttpLost, TooLarge, RpcFault, TimeoutError):
                async with asyncio.timeout(FAREWELL_TIMEOUT), self._exchanges.exchange("DELETE"):
                    pass
        self._on_finished()

    # --- what arrives -------------------------------------------------------------------------------------------------

    async def _answered(self, response: Response, message: dict[str, Any]) -> None:
        """Take the answer to a request, in whichever form it comes."""
        if response.status == 404 and self._exchanges.session is not None:
            raise HttpLost("the server has ended the session")
        if not 200 <= response.status < 300:
            raise await refusal_of(response)
        if message["method"] == "initialize":
            self._exchanges.session = response.headers.get("mcp-session-id")
        match response.content_type:
            case "application/json":
                if not self._take(await response.body(MAX_FRAME), message):
                    raise RpcFault(INVALID_REQUEST, "the server answered with something else than an answer")
            case "text/event-stream":
                await self._streamed(response, message)
            case other:
                told = f"the server answered with {other or 'nothing'} and status {response.status}"
                raise RpcFault(INVALID_REQUEST, told, {"http_status": response.status})

    async def _streamed(self, response: Response, message: dict[str, Any]) -> None:
        last: str | None = None
        events = EventSplitter()
        try:
            async for event in self._events(response, events):
                last = event.id or last
                if self._take(event.data, message):
                    return
        except HttpLost:
            if last is None:
                raise  # nothing to go on from
        raise _StreamOver(last, _pause(events))

    async def _events(self, response: Response, events: EventSplitter) -> AsyncIterator[ServerEvent]:
        async for piece in response.pieces():
            for event in events.feed(piece):
                if event.kind == "message" and event.data:
                    yield event
            await self._room.wait()

    def _take(self, data: bytes, message: dict[str, Any] | None) -> bool:
        """Pass on a message; whether it is the answer to ours."""
        told = self._pass_on(data, message)
        if told is None or message is None or "method" in told:
            return False
        self._learn(told, message)
        return told.get("id") == message["id"]

    def _learn(self, told: dict[str, Any], message: dict[str, Any]) -> None:
        """Take note of what later requests need in their headers."""
        result = cast("dict[str, Any]", told["result"]) if isinstance(told.get("result"), dict) else {}
        if message["method"] == "initialize":
            agreed = agreed_by_handshake(result)
            self._exchanges.revision = agreed.revision if agreed is not None else None
        elif message["method"] == "tools/list":
            self._exchanges.headers.learn(result.get("tools"))

    async def _listen(self) -> None:
        """Hear what the server says by itself, where it has a stream for that."""
        last: str | None = None
        failures = 0
        while failures < TRIES and self._over is None:
            events = EventSplitter()
            try:
                async with self._exchanges.exchange("GET", last_event=last) as response:
                    if response.status != 200 or response.content_type != _STREAM:
                        return
                    failures = 0
                    async for event in self._events(response, events):
                        last = event.id or last
                        self._take(event.data, None)
            except RpcFault:
                return
            except (HttpLost, TooLarge, EventTooLarge):
                failures += 1
            await asyncio.sleep(_pause(events))


def _pause(events: EventSplitter) -> float:
    shortest, longest = _RETRIES
    return min(max(events.retry if events.retry is not None else RETRY, shortest), longest)
