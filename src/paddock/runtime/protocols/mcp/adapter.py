"""The `ProtocolAdapter` for Model Context Protocol servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock.capabilities.request import EarlyAnswer
from paddock.core.call import CallContext
from paddock.core.events.contracts import PluginInitializeTimeout
from paddock.core.events.plugin_runtime import PluginProtocolViolation
from paddock.core.printable import printable
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.rpc.errors import METHOD_NOT_FOUND, RpcError
from paddock.rpc.mcp.revisions import NegotiatedServer, with_protocol_meta
from paddock.runtime.calls import InFlightCalls
from paddock.runtime.deployment import Deployment
from paddock.runtime.diagnosis import has_own_manifest
from paddock.runtime.protocol_adapter import (
    Broadcast,
    CallProgress,
    DefinitionList,
    HandshakeRejected,
    HandshakeRejection,
    HandshakeResult,
    HandshakeTimeout,
    IgnoredNotification,
    InputRequired,
    ListChanged,
    LogNotification,
    OutgoingMessage,
    ParsedNotification,
    ProtocolAdapter,
    RequestSender,
)
from paddock.runtime.protocols.mcp.definitions import fetch_definitions
from paddock.runtime.protocols.mcp.elicitation import (
    ELICIT_METHOD,
    elicitation_result,
    parse_elicitation,
    parse_input_required,
)
from paddock.runtime.protocols.mcp.handshake import (
    DISCOVER_REQUEST,
    NegotiationFailed,
    negotiate_by_discovery,
    negotiate_by_handshake,
)
from paddock.runtime.protocols.mcp.results import parse_call_result

PING_TIMEOUT_S: Final = 5.0
MAX_LOG_CHARS: Final = 2_000

RELATED_REQUEST_KEY: Final = "paddock/askedDuring"
"""The `_meta` key under which the HTTP transport notes which of our requests a server's request belongs to; see
`http_exchange.py`."""

_LIST_CHANGED_METHODS: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
_NOT_STARTED_CODES: Final = frozenset({METHOD_NOT_FOUND})
_LIST_CHANGED: Final = frozenset(_LIST_CHANGED_METHODS.values())
_CALL_METHODS: Final = {
    CallableForm.TOOL: "tools/call",
    CallableForm.RESOURCE: "resources/read",
    CallableForm.PROMPT: "prompts/get",
    CallableForm.COMPLETION: "completion/complete",
}


class McpAdapter:
    """See `ProtocolAdapter`.

    Args:
        deployment: The plugin.
        timeout_s: For each answer of the handshake, and for each page of its definitions.
        remote: Whether the server is remote, so that its requests say which of ours they belong to.
    """

    def __init__(self, deployment: Deployment, timeout_s: float, *, remote: bool = False) -> None:
        self._deployment = deployment
        self._timeout_s = timeout_s
        self._remote = remote
        self._declares_for_itself = has_own_manifest(deployment.manifest)
        self._previous_server: NegotiatedServer | None = None  # negotiated in its previous process run
        self._discovers_first = remote  # whether `server/discover` is sent before `initialize`
        self._server: NegotiatedServer | None = None
        self._subscribed = False
        self._acknowledged = False

    @property
    def supports_cancel(self) -> bool:
        return True

    @property
    def confirms_cancel(self) -> bool:
        return False

    @property
    def allows_early_messages(self) -> bool:
        return True

    @property
    def not_started_codes(self) -> frozenset[int]:
        # Not -32602: widespread servers also send it if a tool's result violates its schema.
        return _NOT_STARTED_CODES

    def resume_from(self, previous: ProtocolAdapter) -> None:
        if isinstance(previous, McpAdapter):
            self._previous_server = previous._server or previous._previous_server
            self._discovers_first = (
                self._previous_server.stateless if self._previous_server is not None else not previous._discovers_first
            )

    # --- the host's own requests --------------------------------------------------------------------------------------

    async def handshake(self, sender: RequestSender) -> HandshakeResult:
        try:
            server = await self._negotiate(sender)
        except TimeoutError:
            raise HandshakeTimeout(
                PluginInitializeTimeout(name=self._deployment.name, timeout_sec=self._timeout_s), self._timeout_s
            ) from None
        except NegotiationFailed as error:
            raise HandshakeRejected(self._rejection(error)) from None
        self._server = server
        if server.stateless:
            self._subscribe(sender)
        return HandshakeResult(features=frozenset({f"mcp:{server.revision}"}))

    async def _negotiate(self, sender: RequestSender) -> NegotiatedServer:
        negotiate = negotiate_by_discovery if self._discovers_first else negotiate_by_handshake
        return await negotiate(sender, self._timeout_s)

    def _rejection(self, error: NegotiationFailed) -> HandshakeRejection:
        event = PluginProtocolViolation(
            name=self._deployment.name, violation_type="handshake", detail=printable(error.reason, 500)
        )
        data: Any = error.fault.data if error.fault is not None else None
        status = cast("dict[str, Any]", data).get("http_status") if isinstance(data, dict) else None
        if status in (401, 403):
            hint = "set the credentials that it needs in its headers; see its documentation"
            return HandshakeRejection("remote.unauthorized", error.reason, event, hint)
        return HandshakeRejection("protocol_violation", error.reason, event)

    def _subscribe(self, sender: RequestSender) -> None:
        """Subscribe to list changes. A stateless server notifies only subscribers, and only while they listen."""
        server = self._server
        notifications = {
            f"{kind}ListChanged": True
            for kind in _LIST_CHANGED_METHODS
            if server is not None and server.announces_changes(kind)
        }
        if self._subscribed or not notifications:
            return
        self._subscribed = True
        sender.subscribe(
            OutgoingMessage("subscriptions/listen", with_protocol_meta({"notifications": notifications})),
            self._unsubscribed,
        )

    def _unsubscribed(self, error: BaseException | None) -> None:
        # A server without this request is not asked again; any other is at the next health check.
        self._subscribed = isinstance(error, RpcError) and error.code == METHOD_NOT_FOUND

    async def list_definitions(self, sender: RequestSender) -> DefinitionList:
        server = self._server
        assert server is not None

        async def send_request(message: OutgoingMessage) -> Any:
            params = with_protocol_meta(message.params) if server.stateless else message.params
            return await sender.request(OutgoingMessage(message.method, params), self._timeout_s)

        async with asyncio.timeout(2 * self._timeout_s):
            return await fetch_definitions(send_request, server.capabilities, server.instructions)

    async def configure(
        self, sender: RequestSender, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Do nothing: a server gets its settings through its environment or headers before it starts."""

    async def ping(self, sender: RequestSender) -> bool:
        stateless = self._server is not None and self._server.stateless
        try:
            await sender.request(DISCOVER_REQUEST if stateless else OutgoingMessage("ping", {}), PING_TIMEOUT_S)
        except RpcError as rpc_error:
            return rpc_error.code == METHOD_NOT_FOUND  # it does not know the method, but it answers
        if stateless:
            self._subscribe(sender)
        return True

    def request_shutdown(self, sender: RequestSender) -> None:
        sender.finish()

    def build_rate_limit_notice(self, limit_per_second: int) -> OutgoingMessage | None:
        del limit_per_second

    # --- calls --------------------------------------------------------------------------------------------------------

    def call_token(self, number: int) -> str:
        return f"call-{number}"

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        del context  # a server learns nothing about its callers
        method = _CALL_METHODS.get(spec.form, "tools/call")
        if spec.form is CallableForm.SUBSCRIPTION:
            method = f"resources/{spec.name.removeprefix('resource:')}"
        call_params = dict(payload) if method != "tools/call" else {"name": spec.name, "arguments": dict(payload)}
        # A progress token makes the server do extra work, so it is sent only to a listener.
        params: dict[str, Any] = {**call_params, "_meta": {"progressToken": token}} if listens else call_params
        return OutgoingMessage(
            method, with_protocol_meta(params) if self._server is not None and self._server.stateless else params
        )

    def build_cancel(self, request: int, token: str) -> OutgoingMessage:
        del token
        return OutgoingMessage(
            "notifications/cancelled", {"requestId": request, "reason": "the caller no longer waits for it"}
        )

    def parse_input_required(self, sent: OutgoingMessage, raw: Any) -> InputRequired | None:
        return parse_input_required(sent, raw) if self._server is not None and self._server.stateless else None

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        return parse_call_result(self._deployment.name, spec, raw, declares_for_itself=self._declares_for_itself)

    # --- messages that the server sends unasked -----------------------------------------------------------------------

    def classify(self, method: str, params: Mapping[str, Any]) -> ParsedNotification:
        match method:
            case "notifications/progress":
                return _progress(params)
            case "notifications/message":
                return LogNotification(_log_line(params), _log_event(params))
            case "notifications/subscriptions/acknowledged":
                # A repeated acknowledgement: something may have changed while we were not subscribed.
                acknowledged_before, self._acknowledged = self._acknowledged, True
                return ListChanged() if acknowledged_before else IgnoredNotification()
            case "notifications/cancelled":
                return IgnoredNotification()
            case _:
                return ListChanged() if method in _LIST_CHANGED else Broadcast()

    async def serve(self, method: str, params: Mapping[str, Any], calls: InFlightCalls, early: EarlyAnswer) -> Any:
        del early
        match method:
            case "ping":
                return {}
            case "roots/list":
                return {"roots": []}
            case _ if method == ELICIT_METHOD:
                question = parse_elicitation(params)
                return elicitation_result(question, await calls.ask(self._related_request(params), question))
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"this host does not do {printable(method, 80)}")

    def _related_request(self, params: Mapping[str, Any]) -> int | None:
        """Return the id of our request that a server's request belongs to, if known."""
        meta: Any = params.get("_meta")
        request_id: Any = (
            cast("dict[str, Any]", meta).get(RELATED_REQUEST_KEY) if self._remote and isinstance(meta, dict) else None
        )
        return request_id if isinstance(request_id, int) else None


def _progress(params: Mapping[str, Any]) -> ParsedNotification:
    token, done = params.get("progressToken"), params.get("progress")
    if not isinstance(token, str) or not isinstance(done, int | float):
        return IgnoredNotification()
    event: dict[str, Any] = {"type": "progress", "progress": done}
    total, message = params.get("total"), params.get("message")
    if isinstance(total, int | float):
        event["total"] = total
    if isinstance(message, str):
        event["message"] = printable(message, MAX_LOG_CHARS)
    return CallProgress(token, event)


def _log_line(params: Mapping[str, Any]) -> str:
    level, logger, data = params.get("level"), params.get("logger"), params.get("data")
    logger_text = f" {printable(logger, 80)}:" if isinstance(logger, str) and logger else ""
    text = data if isinstance(data, str) else orjson.dumps(data).decode()
    return f"[{printable(str(level or 'info'), 20)}]{logger_text} {printable(text, MAX_LOG_CHARS)}"


def _log_event(params: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: params[name] for name in ("level", "logger", "data") if name in params}
    return {"type": "log", **fields}
