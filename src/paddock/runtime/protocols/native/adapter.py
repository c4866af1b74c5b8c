"""The `ProtocolAdapter` for our native protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias, cast

from paddock.capabilities.artifacts.address import find_digests
from paddock.capabilities.pipes.channel import PipeChannel
from paddock.capabilities.request import CapabilityRequest, EarlyAnswer
from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.errors import NotFound, TimedOut
from paddock.core.events.contracts import PluginInitializeTimeout
from paddock.manifest.capability import HostService
from paddock.manifest.model import CallableSpec, Dialect
from paddock.plugins.dialects.envelope import raise_if_failed, request_envelope
from paddock.policy.principal import PolicyPrincipal, plugin_principal
from paddock.rpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from paddock.runtime.calls import InFlightCalls
from paddock.runtime.deployment import Deployment
from paddock.runtime.errors import describe_error, to_paddock_error
from paddock.runtime.protocol_adapter import (
    Broadcast,
    CallProgress,
    HandshakeRejected,
    HandshakeRejection,
    HandshakeResult,
    HandshakeTimeout,
    IgnoredNotification,
    OutgoingMessage,
    ParsedNotification,
    ProtocolAdapter,
    RequestSender,
)
from paddock.runtime.protocols.native import handshake, method_names

CONFIG_TIMEOUT_S = 10.0
PING_TIMEOUT_S = 5.0
_NOT_STARTED_CODES = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
_NO_ENVELOPE: Mapping[str, Any] = {}
MAX_CALLS_WITH_ARTIFACTS = 4096  # how many calls' artifacts are remembered; the oldest calls are over


AnswerRequest: TypeAlias = Callable[[CapabilityRequest, str, Mapping[str, Any]], Awaitable[Any]]
"""Answers a plugin's request to the host, by its method and parameters. A PaddockError is sent as a JSON-RPC error."""


class NativeAdapter:
    """See `ProtocolAdapter`.

    Args:
        deployment: The plugin.
        answer_request: Answers its requests.
    """

    def __init__(self, deployment: Deployment, answer_request: AnswerRequest) -> None:
        self._deployment = deployment
        self._manifest = deployment.manifest
        self._answer_request = answer_request
        self._principal = _plugin_principal(deployment)
        self._features: frozenset[str] = frozenset()
        self._event_method = method_names.event_method(deployment.manifest)
        self._cancel_method = method_names.cancel_method(deployment.manifest)
        self._tokens = False
        self._channel: PipeChannel | None = None
        self._reads_artifacts = HostService("artifacts") in deployment.capabilities
        # By call token: the artifacts that the call's payload names.
        self._artifacts_by_call: dict[str, frozenset[str]] = {}

    @property
    def supports_cancel(self) -> bool:
        return method_names.CANCEL in self._features

    @property
    def confirms_cancel(self) -> bool:
        return True

    @property
    def allows_early_messages(self) -> bool:
        return False

    @property
    def not_started_codes(self) -> frozenset[int]:
        return _NOT_STARTED_CODES

    def resume_from(self, previous: ProtocolAdapter) -> None:
        del previous

    # --- the host's own requests --------------------------------------------------------------------------------------

    async def handshake(self, sender: RequestSender) -> HandshakeResult:
        deployment = self._deployment
        params = handshake.initialize_params(
            self._manifest,
            deployment.capabilities,
            storage_available=deployment.storage_available,
            projects=deployment.projects,
        )
        try:
            answer = await sender.request(
                OutgoingMessage(method_names.INITIALIZE, params), handshake.HANDSHAKE_TIMEOUT_S
            )
        except TimeoutError:
            event = PluginInitializeTimeout(name=deployment.name, timeout_sec=handshake.HANDSHAKE_TIMEOUT_S)
            raise HandshakeTimeout(event, handshake.HANDSHAKE_TIMEOUT_S) from None
        except RpcError as rpc_error:
            reason = f"it refused the handshake: {describe_error(rpc_error)}"
            raise HandshakeRejected(handshake.malformed_rejection(self._manifest, reason)) from None
        verdict = handshake.evaluate_reply(self._manifest, deployment.capabilities, answer)
        if isinstance(verdict, HandshakeRejection):
            raise HandshakeRejected(verdict)
        self._features = verdict.features
        self._tokens = method_names.CALL_TOKENS in verdict.features
        sender.notify(OutgoingMessage(method_names.INITIALIZED, {}))
        return verdict

    async def list_definitions(self, sender: RequestSender) -> None:
        del sender

    async def configure(
        self, sender: RequestSender, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
    ) -> None:
        for message in (
            _config_message(config),
            *(_project_message(name, project_config) for name, project_config in projects.items()),
        ):
            try:
                await self._send_config(sender, message)
            except RpcError as rpc_error:
                raise HandshakeRejected(self._config_rejection(message.method, describe_error(rpc_error))) from None
            except TimeoutError:
                raise HandshakeRejected(
                    self._config_rejection(message.method, f"no answer within {CONFIG_TIMEOUT_S:g} s")
                ) from None

    async def update_config(self, sender: RequestSender, config: Mapping[str, Any]) -> None:
        await self._update_running(sender, _config_message(config))

    async def update_project(self, sender: RequestSender, project: str, config: Mapping[str, Any] | None) -> None:
        await self._update_running(sender, _project_message(project, config))

    async def _update_running(self, sender: RequestSender, message: OutgoingMessage) -> None:
        name = self._deployment.name
        try:
            await self._send_config(sender, message)
        except RpcError as rpc_error:
            raise to_paddock_error(name, rpc_error) from None
        except TimeoutError:
            raise TimedOut(
                f"{name} did not answer {message.method} within {CONFIG_TIMEOUT_S:g} s",
                hint="it gets the new values at its next start",
                action=Action.of("plugin.enable", plugin=name, tenant=self._deployment.key.tenant),
                details={"plugin": name},
            ) from None

    async def _send_config(self, sender: RequestSender, message: OutgoingMessage) -> None:
        """Send configuration or a project, and tolerate a plugin that need not accept it.

        Raises:
            RpcError: it refuses.
            TimeoutError: it did not answer.
            PeerLost: it is gone.
        """
        try:
            await sender.request(message, CONFIG_TIMEOUT_S)
        except RpcError as rpc_error:
            # A plugin that declares no configuration need not serve it.
            if rpc_error.code != METHOD_NOT_FOUND or self._deployment.accepts_config:
                raise

    def _config_rejection(self, method: str, detail: str) -> HandshakeRejection:
        rejection = handshake.malformed_rejection(self._manifest, f"it did not accept {method}: {detail}")
        return HandshakeRejection("config_invalid", rejection.reason, rejection.event)

    async def ping(self, sender: RequestSender) -> bool:
        try:
            answer = await sender.request(OutgoingMessage(method_names.PING, {}), PING_TIMEOUT_S)
        except RpcError:
            return False
        return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("status") == "ok"

    def request_shutdown(self, sender: RequestSender) -> None:
        sender.notify(OutgoingMessage(method_names.SHUTDOWN, {}))

    def build_rate_limit_notice(self, limit_per_second: int) -> OutgoingMessage | None:
        return OutgoingMessage(method_names.RATE_LIMITED, {"limit_per_second": limit_per_second})

    def update_trust(self, deployment: Deployment) -> None:
        self._principal = _plugin_principal(deployment)

    def set_artifact_channel(self, channel: PipeChannel | None) -> None:
        self._channel = channel

    # --- calls --------------------------------------------------------------------------------------------------------

    def call_token(self, number: int) -> str:
        # Need not be unguessable: it is valid only on this plugin's own pipe while the call is in flight.
        return f"call-{number}" if self._tokens else ""

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        del listens
        method, required_scopes = method_names.call_method(self._manifest, spec), spec.required_scopes
        return self._build_request(
            method, payload, context, token, required_scopes, request_envelope(self._manifest, context, required_scopes)
        )

    def build_hook(self, hook: str, payload: Mapping[str, Any], context: CallContext, token: str) -> OutgoingMessage:
        """Build the request for a session hook."""
        return self._build_request(method_names.hook_method(self._manifest, hook), payload, context, token)

    def _build_request(
        self,
        method: str,
        payload: Mapping[str, Any],
        context: CallContext,
        token: str,
        required_scopes: Sequence[str] = (),
        envelope: Mapping[str, Any] = _NO_ENVELOPE,
    ) -> OutgoingMessage:
        call_context: dict[str, Any] = {**context.plugin_context(), **envelope}
        if required_scopes and self._manifest.dialect is Dialect.NATIVE:
            # kaged's specification of the context is exhaustive; the Kernel's and Shu's have envelopes for these.
            call_context["scopes"] = context.principal.granted_scopes(required_scopes)
        if context.fence is not None and self._manifest.dialect is Dialect.NATIVE:
            call_context["idempotency_key"] = context.idempotency_key
        params: dict[str, Any] = {**payload, "_context": call_context}
        if token:
            params["_call"] = token
            if self._reads_artifacts:
                self._remember_artifacts(token, payload)
        return OutgoingMessage(method, params)

    def _remember_artifacts(self, token: str, payload: Mapping[str, Any]) -> None:
        digests = find_digests(dict(payload))
        if digests:
            self._artifacts_by_call[token] = digests
            if len(self._artifacts_by_call) > MAX_CALLS_WITH_ARTIFACTS:
                del self._artifacts_by_call[next(iter(self._artifacts_by_call))]

    def build_cancel(self, request: int, token: str) -> OutgoingMessage:
        del token
        return OutgoingMessage(self._cancel_method, {"id": request})

    def parse_input_required(self, sent: OutgoingMessage, raw: Any) -> None:
        del sent, raw

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        del spec
        return raise_if_failed(self._manifest, raw)

    # --- messages that the plugin sends unasked -----------------------------------------------------------------------

    def classify(self, method: str, params: Mapping[str, Any]) -> ParsedNotification:
        if method != self._event_method or method_names.EVENTS not in self._features:
            return Broadcast()
        request_id, event = params.get("id"), params.get("event")
        if type(request_id) is not int or not isinstance(event, dict):  # not isinstance: bool is an int
            return IgnoredNotification()
        return CallProgress(request_id, cast("dict[str, Any]", event))

    async def serve(self, method: str, params: Mapping[str, Any], calls: InFlightCalls, early: EarlyAnswer) -> Any:
        method_params = {key: value for key, value in params.items() if key != "_call"}
        token = params.get("_call")
        call = calls.by_token(token) if isinstance(token, str) else None
        if token is not None and call is None:
            raise NotFound("no call with this token is under way", code="call.unknown_token")
        key = self._deployment.key
        granted = self._deployment.capabilities
        request = CapabilityRequest(
            key.tenant,
            key.plugin,
            self._manifest,
            granted,
            call.context if call is not None else None,
            self._principal,
            instance=key.digest,
            channel=self._channel,
            answer_early=early,
            # Only for an in-flight call: its token was looked up above.
            artifact_digests=self._artifacts_by_call.get(token, frozenset()) if isinstance(token, str) else frozenset(),
            effects=call.effects if call is not None else None,
            process_effects=calls.effects if call is None else None,
            used_network=calls.note_network_use,
            on_call_end=call.until_over if call is not None else nullcontext,
            method_counts=call.method_counts if call is not None else None,
            callable=call.callable if call is not None else "",
            operation=call.operation if call is not None else None,
            call_id=call.call if call is not None else None,
            atomic=call is not None and call.atomic,
        )
        return await self._answer_request(request, method, method_params)


def _plugin_principal(deployment: Deployment) -> PolicyPrincipal:
    return plugin_principal(
        deployment.manifest, deployment.key.tenant, tier=deployment.tier, signature=deployment.signature
    )


def _config_message(config: Mapping[str, Any]) -> OutgoingMessage:
    return OutgoingMessage(method_names.CONFIG_UPDATE, {"config": dict(config)})


def _project_message(project: str, config: Mapping[str, Any] | None) -> OutgoingMessage:
    if config is None:
        return OutgoingMessage(method_names.PROJECT_DEACTIVATED, {"project": project})
    return OutgoingMessage(method_names.PROJECT_ACTIVATED, {"project": project, "config": dict(config)})
