"""Our own protocol, as a plugin's life needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, cast

from paddock.capabilities.artifacts.address import find_digests
from paddock.capabilities.pipes.channel import PipeChannel
from paddock.capabilities.request import CapabilityRequest, EarlyAnswer
from paddock.core.call import CallContext
from paddock.core.errors import NotFound, TimedOut
from paddock.core.events.contracts import PluginInitializeTimeout
from paddock.manifest.capability import HostService
from paddock.manifest.model import CallableSpec, Dialect
from paddock.plugins.dialects.envelope import raise_if_failed, request_envelope
from paddock.policy.principal import PolicyPrincipal, plugin_principal
from paddock.rpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from paddock.runtime.deployment import Deployment
from paddock.runtime.errors import describe_error, to_paddock_error
from paddock.runtime.protocol_adapter import (
    ActiveCalls,
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
MAX_CALLS_WITH_ARTIFACTS = 4096  # whose artifacts are remembered; of those that are over nobody can ask any more


class CapabilityHandler(Protocol):
    """The way back from a plugin into the host."""

    async def answer(self, request: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a plugin's request.

        Raises:
            PaddockError: the answer is no; the plugin is told in JSON-RPC's words.
        """
        ...


class NativeAdapter:
    """See `Wire`.

    Args:
        deployment: Whose wire it is.
        door: Who answers its requests.
    """

    def __init__(self, deployment: Deployment, door: CapabilityHandler) -> None:
        self._deployment = deployment
        self._manifest = deployment.manifest
        self._capabilities = door
        self._principal = _plugin_principal(deployment)
        self._features: frozenset[str] = frozenset()
        self._event_method = method_names.event_method(deployment.manifest)
        self._cancel_method = method_names.cancel_method(deployment.manifest)
        self._tokens = False
        self._channel: PipeChannel | None = None
        self._reads_artifacts = HostService("artifacts") in deployment.capabilities
        self._artifacts_by_call: dict[
            str, frozenset[str]
        ] = {}  # by the token of a call: the artifacts that its payload names

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

    def resume_from(self, last: ProtocolAdapter) -> None:
        del last

    # --- the host's own requests --------------------------------------------------------------------------------------

    async def handshake(self, talk: RequestSender) -> HandshakeResult:
        deployment = self._deployment
        hello = handshake.initialize_params(
            self._manifest, storage_available=deployment.storage_available, projects=deployment.projects
        )
        try:
            answer = await talk.request(OutgoingMessage(method_names.INITIALIZE, hello), handshake.HANDSHAKE_TIMEOUT_S)
        except TimeoutError:
            event = PluginInitializeTimeout(name=deployment.name, timeout_sec=handshake.HANDSHAKE_TIMEOUT_S)
            raise HandshakeTimeout(event, handshake.HANDSHAKE_TIMEOUT_S) from None
        except RpcError as fault:
            told = f"it refused the handshake: {describe_error(fault)}"
            raise HandshakeRejected(handshake.malformed_rejection(self._manifest, told)) from None
        verdict = handshake.evaluate_reply(self._manifest, deployment.capabilities, answer)
        if isinstance(verdict, HandshakeRejection):
            raise HandshakeRejected(verdict)
        self._features = verdict.features
        self._tokens = method_names.CALL_TOKENS in verdict.features
        talk.notify(OutgoingMessage(method_names.INITIALIZED, {}))
        return verdict

    async def list_definitions(self, talk: RequestSender) -> None:
        del talk

    async def configure(
        self, talk: RequestSender, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
    ) -> None:
        for message in (_config_message(config), *(_project_message(name, own) for name, own in projects.items())):
            try:
                await self._send_config(talk, message)
            except RpcError as fault:
                raise HandshakeRejected(self._config_rejection(message.method, describe_error(fault))) from None
            except TimeoutError:
                raise HandshakeRejected(
                    self._config_rejection(message.method, f"no answer within {CONFIG_TIMEOUT_S:g} s")
                ) from None

    async def update_config(self, talk: RequestSender, config: Mapping[str, Any]) -> None:
        await self._update_running(talk, _config_message(config))

    async def update_project(self, talk: RequestSender, project: str, config: Mapping[str, Any] | None) -> None:
        await self._update_running(talk, _project_message(project, config))

    async def _update_running(self, talk: RequestSender, message: OutgoingMessage) -> None:
        name = self._deployment.name
        try:
            await self._send_config(talk, message)
        except RpcError as fault:
            raise to_paddock_error(name, fault) from None
        except TimeoutError:
            raise TimedOut(
                f"{name} did not take {message.method} within {CONFIG_TIMEOUT_S:g} s",
                hint="it gets the new values when it starts again: paddock plugin enable",
                details={"plugin": name},
            ) from None

    async def _send_config(self, talk: RequestSender, message: OutgoingMessage) -> None:
        """Have it accept settings or a project, unless it is one that need not.

        Raises:
            RpcFault: it refuses.
            TimeoutError: it did not say.
            PeerLost: it is gone.
        """
        try:
            await talk.request(message, CONFIG_TIMEOUT_S)
        except RpcError as fault:
            # A plugin that declares no configuration need not serve it.
            if fault.code != METHOD_NOT_FOUND or self._deployment.accepts_config:
                raise

    def _config_rejection(self, method: str, words: str) -> HandshakeRejection:
        refused = handshake.malformed_rejection(self._manifest, f"it did not accept {method}: {words}")
        return HandshakeRejection("config_invalid", refused.reason, refused.event)

    async def ping(self, talk: RequestSender) -> bool:
        try:
            answer = await talk.request(OutgoingMessage(method_names.PING, {}), PING_TIMEOUT_S)
        except RpcError:
            return False
        return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("status") == "ok"

    def request_shutdown(self, talk: RequestSender) -> None:
        talk.notify(OutgoingMessage(method_names.SHUTDOWN, {}))

    def build_rate_limit_notice(self, most_a_second: int) -> OutgoingMessage | None:
        return OutgoingMessage(method_names.RATE_LIMITED, {"limit_per_second": most_a_second})

    def update_trust(self, deployment: Deployment) -> None:
        self._principal = _plugin_principal(deployment)

    def set_artifact_channel(self, channel: PipeChannel | None) -> None:
        self._channel = channel

    # --- calls --------------------------------------------------------------------------------------------------------

    def call_token(self, number: int) -> str:
        # Need not be unguessable: it counts on this plugin's own pipe only, and only while the call is under way.
        return f"call-{number}" if self._tokens else ""

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        del listens
        method, needed = method_names.call_method(self._manifest, spec), spec.required_scopes
        return self._build_request(
            method, payload, context, token, needed, request_envelope(self._manifest, context, needed)
        )

    def build_hook(self, hook: str, payload: Mapping[str, Any], context: CallContext, token: str) -> OutgoingMessage:
        """The request that tells of a moment in a session."""
        return self._build_request(method_names.hook_method(self._manifest, hook), payload, context, token)

    def _build_request(
        self,
        method: str,
        payload: Mapping[str, Any],
        context: CallContext,
        token: str,
        needed: Sequence[str] = (),
        envelope: Mapping[str, Any] = _NO_ENVELOPE,
    ) -> OutgoingMessage:
        about: dict[str, Any] = {**context.plugin_context(), **envelope}
        if needed and self._manifest.dialect is Dialect.NATIVE:
            # What kaged's document says of a context is all of it; the Kernel's and Shu's have envelopes for these.
            about["scopes"] = context.principal.granted_scopes(needed)
        if context.fence is not None and self._manifest.dialect is Dialect.NATIVE:
            about["idempotency_key"] = context.idempotency_key
        params: dict[str, Any] = {**payload, "_context": about}
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

    # --- what it says by itself ---------------------------------------------------------------------------------------

    def classify(self, method: str, params: Mapping[str, Any]) -> ParsedNotification:
        if method != self._event_method or method_names.EVENTS not in self._features:
            return Broadcast()
        number, event = params.get("id"), params.get("event")
        if type(number) is not int or not isinstance(event, dict):  # true and false are no numbers of requests
            return IgnoredNotification()
        return CallProgress(number, cast("dict[str, Any]", event))

    async def serve(self, method: str, params: Mapping[str, Any], call_of: ActiveCalls, early: EarlyAnswer) -> Any:
        own = {key: value for key, value in params.items() if key != "_call"}
        token = params.get("_call")
        call = call_of(token) if isinstance(token, str) else None
        if token is not None and call is None:
            raise NotFound("no call with this token is under way", code="call.unknown_token")
        key = self._deployment.key
        granted = self._deployment.capabilities
        asking = CapabilityRequest(
            key.tenant,
            key.plugin,
            self._manifest,
            granted,
            call.context if call is not None else None,
            instance=key.digest,
            channel=self._channel,
            answer_early=early,
            # Of a call under way only: its token was looked up above.
            artifact_digests=self._artifacts_by_call.get(token, frozenset()) if isinstance(token, str) else frozenset(),
            effects=call.effects if call is not None else None,
            process_effects=call_of.effects if call is None else None,
            used_network=call_of.note_network_use,
            on_call_end=call.until_over if call is not None else nullcontext,
            method_counts=call.tally if call is not None else None,
            callable=call.callable if call is not None else "",
            operation=call.operation if call is not None else None,
            call_id=call.call if call is not None else None,
            atomic=call is not None and call.atomic,
            principal=self._principal,
        )
        return await self._capabilities.answer(asking, method, own)


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
