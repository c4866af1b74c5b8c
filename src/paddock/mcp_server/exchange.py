"""One request under way: who made it, what its client understands, and how the client is told or asked something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

import orjson

from paddock.core.call import CallContext
from paddock.core.elicitation import AskCaller, Question, QuestionAnswer
from paddock.core.ids import OperatorId, PrincipalId, Tenant
from paddock.mcp_server.revisions import LOG_LEVELS, NO_ELICITATION, ElicitationModes, ProtocolRevision
from paddock.rpc.message import MessageId

SendMessage: TypeAlias = Callable[[bytes], None]
"""Sends a message to the client, beside the answer and before it."""

ElicitQuestion: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[Any]]
"""Has the client do an `elicitation/create` with these parameters, and gives its result. The text is what the plugin
calls its question, where it does."""

ContextProvider: TypeAlias = Callable[[], Awaitable[CallContext]]
"""Says in whose name a client acts, with what they may do by then. Raises `PaddockError` where that is nobody."""

MAX_MESSAGE_CHARS: Final = 4_000
MAX_PROGRESS_TOKEN_CHARS: Final = 256  # it is said again with every step


class Subscriber:
    """A client that can be told something at any time, not only about its requests.

    Args:
        tell: Sends it a message.
        context: Who it is by then.
    """

    def __init__(self, tell: SendMessage, context: ContextProvider) -> None:
        self.send = tell
        self.context = context
        self.on_close: dict[object, Callable[[], None]] = {}  # what is to be done when it goes, by what it is about

    def close(self) -> None:
        for left in tuple(self.on_close.values()):
            left()
        self.on_close.clear()


@dataclass(slots=True)
class McpExchange:
    """What answering one request needs beside its parameters."""

    context: CallContext
    revision: ProtocolRevision
    elicitation_modes: ElicitationModes = NO_ELICITATION
    log_level: str | None = None  # the least important log message that the client wants; None for none at all
    send: SendMessage | None = None  # None: the answer is all that it can be told
    request_id: MessageId = 0  # the id that the client gave the request
    elicit: ElicitQuestion | None = None  # None: nobody can be asked
    subscriber: Subscriber | None = None  # the client, where it can be told something later
    next_elicitation_id: Callable[[], str] = lambda: ""  # names a question, where the revision wants that

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.send is not None:
            self.send(encode_notification(method, params))

    def event_handler(self, token: Any) -> Callable[[Mapping[str, Any]], None] | None:
        """What hears the events of a call; None where the client would be told of none.

        `token` is what the client calls its progress by, where it wants to hear of that.
        """
        known = type(token) is int or (type(token) is str and len(token) <= MAX_PROGRESS_TOKEN_CHARS)
        if self.send is None or not (known or self.log_level is not None):
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
        if (
            level not in LOG_LEVELS
            or self.log_level is None
            or LOG_LEVELS.index(level) < LOG_LEVELS.index(self.log_level)
        ):
            return
        logger = {"logger": event["logger"]} if isinstance(event.get("logger"), str) else {}
        self.notify("notifications/message", {"level": level, **logger, "data": event.get("data")})

    def can_elicit(self, question: Question) -> bool:
        return self.elicit is not None and (
            self.elicitation_modes.url if question.url is not None else self.elicitation_modes.form
        )

    async def ask_person(self, who: str, question: Question) -> QuestionAnswer:
        """Put a question to the person behind the client; declined where it cannot be."""
        if self.elicit is None or not self.can_elicit(question):
            return QuestionAnswer("decline")
        return _parse_elicitation_result(await self.elicit(self._elicitation_params(who, question), question.key))

    def question_handler(self, plugin: str) -> AskCaller | None:
        """What puts the questions of a plugin; None where nobody can be asked."""
        return None if self.elicit is None else lambda question: self.ask_person(plugin, question)

    def _elicitation_params(self, who: str, question: Question) -> dict[str, Any]:
        problems = "".join(f"\n{problem}" for problem in question.problems)
        params: dict[str, Any] = {"message": f"{who}: {question.message}{problems}"[:MAX_MESSAGE_CHARS]}
        if question.url is not None:
            number = {} if self.revision.stateless else {"elicitationId": self.next_elicitation_id()}
            return {"mode": "url", **params, "url": question.url, **number}
        mode = {"mode": "form"} if self.revision.url_elicitation else {}
        schema: dict[str, Any] = {"type": "object", "properties": {}, **dict(question.schema or {})}
        return {**mode, **params, "requestedSchema": schema}


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification as a message."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}, default=str)


def _parse_elicitation_result(result: Any) -> QuestionAnswer:
    """What a client says that the person did. One that says nothing we know went away."""
    told = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    action, content = told.get("action"), told.get("content")
    if action not in ("accept", "decline", "cancel"):
        return QuestionAnswer("cancel")
    return QuestionAnswer(action, cast("dict[str, Any]", content) if isinstance(content, dict) else {})


class RequestOwner(NamedTuple):
    """Whoever acts, and who acts in their name."""

    tenant: Tenant
    principal: PrincipalId
    operator: OperatorId | None


def request_owner(context: CallContext) -> RequestOwner:
    """Whose whatever is that begins in this context."""
    return RequestOwner(context.tenant, context.principal.id, context.operator)
