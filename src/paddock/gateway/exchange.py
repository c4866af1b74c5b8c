"""One request under way: who made it, what its client understands, and how the client is told or asked something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import orjson

from paddock.core.call import CallContext
from paddock.core.questions import Answer, Ask, Question
from paddock.gateway.revisions import LEVELS, NOTHING, Asks, Revision
from paddock.rpc.message import MessageId

Tell: TypeAlias = Callable[[bytes], None]
"""Sends a message to the client, beside the answer and before it."""

Put: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[Any]]
"""Has the client do an `elicitation/create` with these parameters, and gives its result. The text is what the plugin
calls its question, where it does."""

ContextNow: TypeAlias = Callable[[], Awaitable[CallContext]]
"""Says in whose name a client acts, with what they may do by then. Raises `PaddockError` where that is nobody."""

LONGEST_MESSAGE: Final = 4_000
LONGEST_TOKEN: Final = 256  # it is said again with every step


class Watcher:
    """A client that can be told something at any time, not only about its requests.

    Args:
        tell: Sends it a message.
        context: Who it is by then.
    """

    def __init__(self, tell: Tell, context: ContextNow) -> None:
        self.tell = tell
        self.context = context
        self.closing: dict[object, Callable[[], None]] = {}  # what is to be done when it goes, by what it is about

    def close(self) -> None:
        for left in tuple(self.closing.values()):
            left()
        self.closing.clear()


@dataclass(slots=True)
class Exchange:
    """What answering one request needs beside its parameters."""

    context: CallContext
    revision: Revision
    asks: Asks = NOTHING
    level: str | None = None  # the least important log message that the client wants; None for none at all
    tell: Tell | None = None  # None: the answer is all that it can be told
    number: MessageId = 0  # the id that the client gave the request
    put: Put | None = None  # None: nobody can be asked
    watcher: Watcher | None = None  # the client, where it can be told something later
    named: Callable[[], str] = lambda: ""  # names a question, where the revision wants that

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.tell is not None:
            self.tell(notification(method, params))

    def hears(self, token: Any) -> Callable[[Mapping[str, Any]], None] | None:
        """What hears the events of a call; None where the client would be told of none.

        `token` is what the client calls its progress by, where it wants to hear of that.
        """
        known = type(token) is int or (type(token) is str and len(token) <= LONGEST_TOKEN)
        if self.tell is None or not (known or self.level is not None):
            return None

        def told(event: Mapping[str, Any]) -> None:
            match event.get("type"):
                case "progress" if known:
                    shown = {name: event[name] for name in ("progress", "total", "message") if name in event}
                    self.notify("notifications/progress", {"progressToken": token, **shown})
                case "log":
                    self._log(event)
                case _:
                    pass

        return told

    def _log(self, event: Mapping[str, Any]) -> None:
        level = event.get("level", "info")
        if level not in LEVELS or self.level is None or LEVELS.index(level) < LEVELS.index(self.level):
            return
        logger = {"logger": event["logger"]} if isinstance(event.get("logger"), str) else {}
        self.notify("notifications/message", {"level": level, **logger, "data": event.get("data")})

    def can_ask(self, question: Question) -> bool:
        return self.put is not None and (self.asks.url if question.url is not None else self.asks.form)

    async def ask(self, who: str, question: Question) -> Answer:
        """Put a question to the person behind the client; declined where it cannot be."""
        if self.put is None or not self.can_ask(question):
            return Answer("decline")
        return _answer(await self.put(self._elicitation(who, question), question.key))

    def asker(self, plugin: str) -> Ask | None:
        """What puts the questions of a plugin; None where nobody can be asked."""
        return None if self.put is None else lambda question: self.ask(plugin, question)

    def _elicitation(self, who: str, question: Question) -> dict[str, Any]:
        problems = "".join(f"\n{problem}" for problem in question.problems)
        params: dict[str, Any] = {"message": f"{who}: {question.message}{problems}"[:LONGEST_MESSAGE]}
        if question.url is not None:
            number = {} if self.revision.stateless else {"elicitationId": self.named()}
            return {"mode": "url", **params, "url": question.url, **number}
        mode = {"mode": "form"} if self.revision.urls else {}
        schema: dict[str, Any] = {"type": "object", "properties": {}, **dict(question.schema or {})}
        return {**mode, **params, "requestedSchema": schema}


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification as a message."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}, default=str)


def _answer(result: Any) -> Answer:
    """What a client says that the person did. One that says nothing we know went away."""
    told = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    action, content = told.get("action"), told.get("content")
    if action not in ("accept", "decline", "cancel"):
        return Answer("cancel")
    return Answer(action, cast("dict[str, Any]", content) if isinstance(content, dict) else {})
