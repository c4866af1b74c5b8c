"""The Model Context Protocol, as a plugin's life needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock.capabilities.asking import Early
from paddock.core.call import CallContext
from paddock.core.events_contracts import PluginInitializeTimeout
from paddock.core.events_host import PluginProtocolViolation
from paddock.core.printable import printable
from paddock.manifest.model import CallableSpec, Form
from paddock.plugins.runtimes.mcp.elicitation import ELICIT, answer_on_wire, asked_back, question_of
from paddock.plugins.runtimes.mcp.greeting import (
    DISCOVER,
    PATIENCE,
    NotUnderstood,
    meet_by_discovery,
    meet_by_handshake,
)
from paddock.plugins.runtimes.mcp.listing import list_everything
from paddock.plugins.runtimes.mcp.results import result_of
from paddock.plugins.runtimes.mcp.revisions import Agreed, stamped
from paddock.plugins.supervision.deployment import Deployment
from paddock.plugins.supervision.diagnosis import declares_for_itself
from paddock.plugins.supervision.wire import (
    Announced,
    CallOf,
    FollowUp,
    Heard,
    Introduced,
    Listing,
    Logged,
    Message,
    Nothing,
    Progress,
    Redefined,
    Refusal,
    Refused,
    Silent,
    Talk,
    Wire,
)
from paddock.rpc.faults import METHOD_NOT_FOUND, RpcFault

PING_TIMEOUT: Final = 5.0
LIST_TIMEOUT: Final = 30.0
LONGEST_LOG: Final = 2_000

ASKED_DURING: Final = "paddock/askedDuring"
"""Where the HTTP transport writes into a server's request which of ours it belongs to; see `http_transport.py`."""

_CHANGES: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
_REFUSALS: Final = frozenset({METHOD_NOT_FOUND})
_CHANGED: Final = frozenset(_CHANGES.values())
_METHODS: Final = {
    Form.TOOL: "tools/call",
    Form.RESOURCE: "resources/read",
    Form.PROMPT: "prompts/get",
    Form.COMPLETION: "completion/complete",
}


class McpWire:
    """See `Wire`.

    Args:
        deployment: Whose wire it is.
        remote: Whether the server is elsewhere, so that its requests say which of ours they belong to.
    """

    def __init__(self, deployment: Deployment, *, remote: bool = False) -> None:
        self._deployment = deployment
        self._remote = remote
        self._declares_for_itself = declares_for_itself(deployment.manifest)
        self._before: Agreed | None = None  # what it was like in its last life
        self._discovers = remote  # which question it is met with
        self._agreed: Agreed | None = None
        self._subscribed = False
        self._acknowledged = False

    @property
    def stoppable(self) -> bool:
        return True

    @property
    def answers_stops(self) -> bool:
        return False

    @property
    def forgiving(self) -> bool:
        return True

    @property
    def refusals(self) -> frozenset[int]:
        # Not -32602: that is also how widespread servers say that what a tool has answered breaks its schema.
        return _REFUSALS

    def follows(self, last: Wire) -> None:
        if isinstance(last, McpWire):
            self._before = last._agreed or last._before
            self._discovers = self._before.stateless if self._before is not None else not last._discovers

    # --- the host's own requests --------------------------------------------------------------------------------------

    async def greet(self, talk: Talk) -> Introduced:
        try:
            agreed = await self._meet(talk)
        except TimeoutError:
            raise Silent(PluginInitializeTimeout(name=self._deployment.name, timeout_sec=PATIENCE), PATIENCE) from None
        except NotUnderstood as error:
            raise Refusal(self._refused(error)) from None
        self._agreed = agreed
        if agreed.stateless:
            self._subscribe(talk)
        return Introduced(features=frozenset({f"mcp:{agreed.revision}"}))

    async def _meet(self, talk: Talk) -> Agreed:
        return await (meet_by_discovery(talk) if self._discovers else meet_by_handshake(talk))

    def _refused(self, error: NotUnderstood) -> Refused:
        event = PluginProtocolViolation(
            name=self._deployment.name, violation_type="handshake", detail=printable(error.reason, 500)
        )
        data: Any = error.fault.data if error.fault is not None else None
        status = cast("dict[str, Any]", data).get("http_status") if isinstance(data, dict) else None
        if status in (401, 403):
            hint = "give it the credentials that it wants in its headers; see its documentation"
            return Refused("remote.unauthorized", error.reason, event, hint)
        return Refused("protocol_violation", error.reason, event)

    def _subscribe(self, talk: Talk) -> None:
        """Be told of changes. A stateless server tells only those who listen, and only for as long as they do."""
        agreed = self._agreed
        wanted = {f"{kind}ListChanged": True for kind in _CHANGES if agreed is not None and agreed.says_when(kind)}
        if self._subscribed or not wanted:
            return
        self._subscribed = True
        talk.follow(Message("subscriptions/listen", stamped({"notifications": wanted})), self._unsubscribed)

    def _unsubscribed(self, error: BaseException | None) -> None:
        # One that does not know the request is not asked again; any other is at the next look at its health.
        self._subscribed = isinstance(error, RpcFault) and error.code == METHOD_NOT_FOUND

    async def definitions(self, talk: Talk) -> Listing:
        agreed = self._agreed
        assert agreed is not None

        async def ask(message: Message) -> Any:
            params = stamped(message.params) if agreed.stateless else message.params
            return await talk.ask(Message(message.method, params), LIST_TIMEOUT)

        async with asyncio.timeout(2 * LIST_TIMEOUT):
            return await list_everything(ask, agreed.capabilities, agreed.instructions)

    async def configure(self, talk: Talk, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]) -> None:
        """Nothing: a server gets its settings by its environment or its headers, before it starts."""

    async def well(self, talk: Talk) -> bool:
        stateless = self._agreed is not None and self._agreed.stateless
        try:
            await talk.ask(DISCOVER if stateless else Message("ping", {}), PING_TIMEOUT)
        except RpcFault as fault:
            return fault.code == METHOD_NOT_FOUND  # it does not know the question, and is there to say so
        if stateless:
            self._subscribe(talk)
        return True

    def farewell(self, talk: Talk) -> None:
        talk.finish()

    def slow_down(self, most_a_second: int) -> Message | None:
        del most_a_second

    # --- calls --------------------------------------------------------------------------------------------------------

    def token(self, number: int) -> str:
        return f"call-{number}"

    def call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> Message:
        del context  # a server learns nothing of who calls it
        method = _METHODS.get(spec.form, "tools/call")
        if spec.form is Form.SUBSCRIPTION:
            method = f"resources/{spec.name.removeprefix('resource:')}"
        asked = dict(payload) if method != "tools/call" else {"name": spec.name, "arguments": dict(payload)}
        # Who offers to hear of progress makes the server work for it.
        params: dict[str, Any] = {**asked, "_meta": {"progressToken": token}} if listens else asked
        return Message(method, stamped(params) if self._agreed is not None and self._agreed.stateless else params)

    def stop(self, request: int, token: str) -> Message:
        del token
        return Message("notifications/cancelled", {"requestId": request, "reason": "nobody waits for it any more"})

    def follow_up(self, sent: Message, raw: Any) -> FollowUp | None:
        return asked_back(sent, raw) if self._agreed is not None and self._agreed.stateless else None

    def result(self, spec: CallableSpec, raw: Any) -> Any:
        return result_of(self._deployment.name, spec, raw, declares_for_itself=self._declares_for_itself)

    # --- what it says by itself ---------------------------------------------------------------------------------------

    def heard(self, method: str, params: Mapping[str, Any]) -> Heard:
        match method:
            case "notifications/progress":
                return _progress(params)
            case "notifications/message":
                return Logged(_log_line(params), _log_event(params))
            case "notifications/subscriptions/acknowledged":
                # While nobody listened something may have changed.
                again, self._acknowledged = self._acknowledged, True
                return Redefined() if again else Nothing()
            case "notifications/cancelled":
                return Nothing()
            case _:
                return Redefined() if method in _CHANGED else Announced()

    async def serve(self, method: str, params: Mapping[str, Any], call_of: CallOf, early: Early) -> Any:
        del early
        match method:
            case "ping":
                return {}
            case "roots/list":
                return {"roots": []}
            case _ if method == ELICIT:
                question = question_of(params)
                return answer_on_wire(question, await call_of.ask(self._asked_during(params), question))
            case _:
                raise RpcFault(METHOD_NOT_FOUND, f"this host does not do {printable(method, 80)}")

    def _asked_during(self, params: Mapping[str, Any]) -> int | None:
        """The request of ours that a server's request belongs to, where that is known."""
        meta: Any = params.get("_meta")
        number: Any = (
            cast("dict[str, Any]", meta).get(ASKED_DURING) if self._remote and isinstance(meta, dict) else None
        )
        return number if isinstance(number, int) else None


def _progress(params: Mapping[str, Any]) -> Heard:
    token, done = params.get("progressToken"), params.get("progress")
    if not isinstance(token, str) or not isinstance(done, int | float):
        return Nothing()
    event: dict[str, Any] = {"type": "progress", "progress": done}
    total, message = params.get("total"), params.get("message")
    if isinstance(total, int | float):
        event["total"] = total
    if isinstance(message, str):
        event["message"] = printable(message, LONGEST_LOG)
    return Progress(token, event)


def _log_line(params: Mapping[str, Any]) -> str:
    level, logger, data = params.get("level"), params.get("logger"), params.get("data")
    where = f" {printable(logger, 80)}:" if isinstance(logger, str) and logger else ""
    text = data if isinstance(data, str) else orjson.dumps(data).decode()
    return f"[{printable(str(level or 'info'), 20)}]{where} {printable(text, LONGEST_LOG)}"


def _log_event(params: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: params[name] for name in ("level", "logger", "data") if name in params}
    return {"type": "log", **told}
