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

from paddock.cli.mcp_session import LARGEST_ANSWER, STREAM, DaemonSession
from paddock.core.errors import HostError, PaddockError, Unreachable
from paddock.plugins.runtimes.mcp.http_headers import stateless_version
from paddock.plugins.runtimes.mcp.sse import EventSplitter, EventTooLarge
from paddock.rpc.faults import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcFault, fault_of
from paddock.rpc.http_client import HttpLost, Response, TooLarge
from paddock.rpc.message import encode_failure

TELLING: Final = 30.0  # seconds for the daemon to take a notification
COMING_BACK: Final = 0.5  # seconds between two looks for a daemon that went away
TRIES: Final = 3  # how often a stream is taken up again that ended before the answer, and told nothing new
_INITIALIZED: Final = "notifications/initialized"

_Message: TypeAlias = dict[str, Any]
_Unanswered: TypeAlias = dict[Any, Any]  # ids of requests, by what tells them apart


class _SessionLost(Exception):
    """The daemon does not know our session: it is another one by now."""


@dataclass(slots=True)
class _Asked:
    """Requests under way."""

    task: asyncio.Task[None]
    sent: asyncio.Event
    stateless: bool
    listens: bool  # it ends when nobody wants it any more
    unwanted: bool = False  # the client has cancelled it, and waits for no answer


class Bridge:
    """Opened by `bridge`.

    Args:
        session: The daemon's side.
        write: Takes a line for the client.
    """

    def __init__(self, session: DaemonSession, write: Callable[[bytes], None]) -> None:
        self._session = session
        self._write = write
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[Any, _Asked] = {}
        self._told: asyncio.Task[None] | None = None  # the last notification: nothing overtakes it
        self._listens = False

    def feed(self, line: bytes) -> None:
        """Carry a line of the client's there. What it is answered comes through `write`."""
        try:
            messages = _messages(orjson.loads(line))
        except orjson.JSONDecodeError:
            self._fail([None], RpcFault(PARSE_ERROR, "that is not JSON"))
            return
        requests = [one for one in messages if "method" in one and "id" in one]
        if requests:
            self._begin_asking(line, requests)
        elif messages:
            self._begin_telling(line, messages)
        else:
            self._fail([None], RpcFault(INVALID_REQUEST, "that is no message of JSON-RPC"))

    async def finished(self) -> None:
        """Wait for what is under way."""
        waiting = {one.task for one in self._asked.values() if not one.listens and not one.unwanted}
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

    def _begin_telling(self, line: bytes, messages: list[_Message]) -> None:
        after: list[asyncio.Event] = []
        for one in messages:
            if one.get("method") == "notifications/cancelled":
                asked = self._cancelled(one)
                if asked is None or asked.stateless:
                    return  # nobody there has to be told more than that its connection ended
                after.append(asked.sent)
            elif one.get("method") == _INITIALIZED:
                self._session.initialized(line)
        self._told = self._begin(self._tell(line, messages[0], self._told, after))

    async def _tell(
        self, line: bytes, message: _Message, before: asyncio.Task[None] | None, after: Iterable[asyncio.Event]
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        for sent in after:
            await sent.wait()
        # Where the daemon is gone, whoever asks next is told so.
        with suppress(HttpLost, TooLarge, TimeoutError):
            async with asyncio.timeout(TELLING), self._session.exchange("POST", line, message) as response:
                await response.body(LARGEST_ANSWER)
        if message.get("method") == _INITIALIZED and self._session.id is not None and not self._listens:
            self._listens = True
            self._begin(self._listen())

    def _cancelled(self, message: _Message) -> _Asked | None:
        params: Any = message.get("params")
        number: Any = cast("_Message", params).get("requestId") if isinstance(params, dict) else None
        asked = self._asked.get(_key(number))
        if asked is not None:
            asked.unwanted = True
            if asked.stateless:
                asked.task.cancel()
        return asked

    # --- requests of the client's -------------------------------------------------------------------------------------

    def _begin_asking(self, line: bytes, requests: list[_Message]) -> None:
        first, sent = requests[0], asyncio.Event()
        task = self._begin(self._ask(line, requests, self._told, sent))
        stateless = stateless_version(first) is not None
        asked = _Asked(task, sent, stateless, first["method"] == "subscriptions/listen")
        self._asked.update({_key(one["id"]): asked for one in requests})

    async def _ask(
        self, line: bytes, requests: list[_Message], before: asyncio.Task[None] | None, sent: asyncio.Event
    ) -> None:
        """Carry requests there, and their answers back."""
        unanswered: _Unanswered = {_key(one["id"]): one["id"] for one in requests}
        fault = RpcFault(INTERNAL_ERROR, "the daemon ended the stream without an answer")
        try:
            if before is not None:
                await asyncio.wait({before})
            await self._carried(line, requests[0], sent, unanswered)
        except HttpLost:
            fault = fault_of(_lost(taken=sent.is_set()))
        except (TooLarge, EventTooLarge) as error:
            fault = RpcFault(INTERNAL_ERROR, str(error))
        except RpcFault as refused:
            fault = refused
        finally:
            sent.set()
            asked = [self._asked.pop(_key(one["id"]), None) for one in requests]
        if not any(one is not None and one.unwanted for one in asked):
            self._fail(unanswered.values(), fault)

    async def _carried(self, line: bytes, message: _Message, sent: asyncio.Event, unanswered: _Unanswered) -> None:
        session = self._session.id
        try:
            async with self._session.exchange("POST", line, message, on_sent=sent.set) as response:
                await self._answered(response, message, unanswered)
        except _SessionLost:
            await self._renew(session)
            async with self._session.exchange("POST", line, message) as response:
                await self._answered(response, message, unanswered)

    async def _answered(self, response: Response, message: _Message, unanswered: _Unanswered) -> None:
        """Pass on what a request is answered, in whichever form that comes."""
        if response.status == 404 and self._session.id is not None and stateless_version(message) is None:
            raise _SessionLost
        if response.content_type != STREAM:
            body = await response.body(LARGEST_ANSWER)
            if not self._passed(body, message, unanswered):
                raise _refusal(response.status, body)
            return
        last, pause = await self._passed_on(response, message, unanswered)
        tries = 0
        # One that ends before the answer came is taken up again where it ended.
        while unanswered and last is not None and self._session.id is not None and tries < TRIES:
            await asyncio.sleep(pause)
            async with self._session.exchange("GET", last_event=last) as again:
                if again.status != 200 or again.content_type != STREAM:
                    return
                came, pause = await self._passed_on(again, message, unanswered)
                tries = tries + 1 if came is None else 0
                last = came or last

    # --- what the daemon says -----------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Hear what the daemon says by itself; also when it is another one by then."""
        last: str | None = None
        while True:
            session, pause = self._session.id, COMING_BACK
            try:
                async with self._session.exchange("GET", last_event=last) as response:
                    if response.status == 200 and response.content_type == STREAM:
                        came, pause = await self._passed_on(response, {"method": ""}, {})
                        last = came or last
                    elif response.status != 404:
                        return  # it has no such stream
                if response.status == 404:
                    last = None
                    await self._renew(session)
                    continue
            except (HttpLost, TooLarge, EventTooLarge):
                pass
            await asyncio.sleep(pause)

    async def _renew(self, lost: str | None) -> None:
        for line in await self._session.renew(lost):
            self._write(line)

    async def _passed_on(
        self, response: Response, message: _Message, unanswered: _Unanswered
    ) -> tuple[str | None, float]:
        """Pass on a stream; its last event, and how long to wait before asking for more."""
        last: str | None = None
        events = EventSplitter(LARGEST_ANSWER)
        async for piece in response.pieces():
            for event in events.feed(piece):
                last = event.id or last
                if event.data:
                    self._passed(event.data, message, unanswered)
        return last, events.retry if events.retry is not None else COMING_BACK

    def _passed(self, data: bytes, message: _Message, unanswered: _Unanswered) -> bool:
        """Give messages to the client; whether there were any."""
        try:
            value: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        told = [one for one in _messages(value) if one.get("jsonrpc") == "2.0"]
        if "error" in value and value.get("id") is None and len(unanswered) == 1:
            (value["id"],) = unanswered.values()  # who else could be meant
            data = orjson.dumps(value)
        wanted = bool(told)
        for one in told:
            if "method" not in one:
                number = _key(one.get("id"))
                unanswered.pop(number, None)
                self._session.learn(message, one)
                wanted = not (number in self._asked and self._asked[number].unwanted)
        if wanted:
            self._write(orjson.dumps(value) if b"\n" in data else data)
        return bool(told)

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _fail(self, numbers: Iterable[Any], fault: RpcFault) -> None:
        for number in tuple(numbers):
            self._write(encode_failure(number, fault).rstrip(b"\n"))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@asynccontextmanager
async def bridge(
    path: Path, target: str, headers: Sequence[tuple[str, str]], write: Callable[[bytes], None]
) -> AsyncGenerator[Bridge, None]:
    """A bridge to the daemon at this socket for as long as the block runs."""
    made = Bridge(DaemonSession(path, target, headers), write)
    try:
        yield made
    finally:
        await made.close()


def _messages(value: Any) -> list[_Message]:
    """The messages of a line, or of an answer: one, or several in an array; nothing where one of them is none."""
    several = cast("list[Any]", value) if isinstance(value, list) else [value]
    return cast("list[_Message]", several) if all(isinstance(one, dict) for one in several) else []


def _key(number: Any) -> Any:
    """What tells one request's id from another's: 1 and "1" are two, and what cannot be an id is like none."""
    return (type(number).__name__, number) if isinstance(number, str | int | float) else None


def _lost(*, taken: bool) -> PaddockError:
    if not taken:
        return Unreachable(
            "no daemon runs any more", code="daemon.not_running", hint="start it: paddock serve; then ask again"
        )
    return HostError(
        "the daemon went away before it answered",
        code="daemon.lost",
        hint="start it again: paddock serve; what may have happened: paddock run doubt list",
    )


def _refusal(status: int, body: bytes) -> RpcFault:
    """Why a request was not even looked at, where the daemon says so in HTTP's words."""
    told: Any = None
    with suppress(orjson.JSONDecodeError):
        told = orjson.loads(body)
    problem = cast("_Message", told) if isinstance(told, dict) else dict[str, Any]()
    words = problem.get("detail") or problem.get("message") or f"the daemon answered with {status}"
    return RpcFault(INVALID_REQUEST, str(words), {name: problem[name] for name in ("code", "hint") if name in problem})
