"""The context of one MCP request: caller, protocol revision, and ways to notify or question the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

import orjson
from msgspec import Struct

from paddock.core.call import CallContext
from paddock.core.elicitation import AskCaller, Question, QuestionAnswer
from paddock.core.ids import OperatorId, PrincipalId, Tenant
from paddock.mcp_server.revisions import LOG_LEVELS, NO_ELICITATION, ElicitationModes, ProtocolRevision
from paddock.rpc.message import MessageId

SendMessage: TypeAlias = Callable[[bytes], None]
"""Sends a message to the client, before the response."""

ElicitQuestion: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[Any]]
"""Sends `elicitation/create` with these parameters to the client and returns its result. The text is the plugin's own
key of the question, if it has one."""

ContextProvider: TypeAlias = Callable[[], Awaitable[CallContext]]
"""Returns the client's context with its current rights. Raises `PaddockError` if it is no longer authenticated."""

MAX_MESSAGE_CHARS: Final = 4_000
MAX_PROGRESS_TOKEN_CHARS: Final = 256  # it is repeated in every progress notification


class Subscriber:
    """A client that can be notified at any time, not only during its requests.

    Args:
        send: Sends it a message.
        context: Returns its current context.
    """

    def __init__(self, send: SendMessage, context: ContextProvider) -> None:
        self.send = send
        self.context = context
        self.on_close: dict[object, Callable[[], None]] = {}  # callbacks for when it disconnects, by subject

    def close(self) -> None:
        for callback in tuple(self.on_close.values()):
            callback()
        self.on_close.clear()


class McpExchange(Struct):
    """Everything beside the parameters that answering one request needs."""

    context: CallContext
    revision: ProtocolRevision
    elicitation_modes: ElicitationModes = NO_ELICITATION
    log_level: str | None = None  # minimum level of log notifications; None for none
    send: SendMessage | None = None  # None if the client accepts nothing but the response
    request_id: MessageId = 0  # the client's id of the request
    elicit: ElicitQuestion | None = None  # None if the client cannot elicit
    subscriber: Subscriber | None = None  # for later notifications, if the client supports them
    next_elicitation_id: Callable[[], str] = lambda: ""  # for revisions that require elicitation ids

    def send_to(self, send: SendMessage | None) -> None:
        """Send to another request of the client from now on; to none while it makes none."""
        self.send = send

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.send is not None:
            self.send(encode_notification(method, params))

    def event_handler(self, token: Any) -> Callable[[Mapping[str, Any]], None] | None:
        """Return a handler for the events of a call; None if the client would be told of none.

        `token` is the client's progress token, if it wants progress notifications.
        """
        wants_progress = type(token) is int or (type(token) is str and len(token) <= MAX_PROGRESS_TOKEN_CHARS)
        if self.send is None or not (wants_progress or self.log_level is not None):
            return None

        def handle_event(event: Mapping[str, Any]) -> None:
            match event.get("type"):
                case "progress" if wants_progress:
                    fields = {name: event[name] for name in ("progress", "total", "message") if name in event}
                    self.notify("notifications/progress", {"progressToken": token, **fields})
                case "log":
                    self._log(event)
                case _:
                    pass

        return handle_event

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

    async def ask_person(self, asker: str, question: Question) -> QuestionAnswer:
        """Ask the person behind the client; declined if that is impossible."""
        if self.elicit is None or not self.can_elicit(question):
            return QuestionAnswer("decline")
        return _parse_elicitation_result(await self.elicit(self._elicitation_params(asker, question), question.key))

    def question_handler(self, plugin: str) -> AskCaller | None:
        """Return a handler for questions of a plugin; None if the client cannot elicit."""
        return None if self.elicit is None else lambda question: self.ask_person(plugin, question)

    def _elicitation_params(self, asker: str, question: Question) -> dict[str, Any]:
        problems = "".join(f"\n{problem}" for problem in question.problems)
        params: dict[str, Any] = {"message": f"{asker}: {question.message}{problems}"[:MAX_MESSAGE_CHARS]}
        if question.url is not None:
            elicitation_id = {} if self.revision.stateless else {"elicitationId": self.next_elicitation_id()}
            return {"mode": "url", **params, "url": question.url, **elicitation_id}
        mode = {"mode": "form"} if self.revision.url_elicitation else {}
        schema: dict[str, Any] = {"type": "object", "properties": {}, **dict(question.schema or {})}
        return {**mode, **params, "requestedSchema": schema}


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Encode a notification."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}, default=str)


def _parse_elicitation_result(result: Any) -> QuestionAnswer:
    """Parse the client's report of what the person did; anything unknown counts as cancelled."""
    fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    action, content = fields.get("action"), fields.get("content")
    if action not in ("accept", "decline", "cancel"):
        return QuestionAnswer("cancel")
    return QuestionAnswer(action, cast("dict[str, Any]", content) if isinstance(content, dict) else {})


class RequestOwner(NamedTuple):
    """The principal of a request, and the operator who impersonates it, if any."""

    tenant: Tenant
    principal: PrincipalId
    operator: OperatorId | None


def request_owner(context: CallContext) -> RequestOwner:
    """Return the owner of what is started in this context."""
    return RequestOwner(context.tenant, context.principal.id, context.operator)
