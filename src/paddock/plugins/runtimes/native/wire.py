"""Our own protocol, as a plugin's life needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, cast

from paddock.capabilities.artifacts.address import digests_in
from paddock.capabilities.asking import Asking, Early
from paddock.capabilities.pipes.channel import Channel
from paddock.core.call import CallContext
from paddock.core.errors import NotFound, TimedOut
from paddock.core.events_contracts import PluginInitializeTimeout
from paddock.manifest.capability import HostService
from paddock.manifest.model import CallableSpec, Dialect
from paddock.plugins.runtimes.envelopes import envelope_for, unless_failed
from paddock.plugins.runtimes.native import handshake, names
from paddock.plugins.supervision.answers import error_of, fault_words
from paddock.plugins.supervision.deployment import Deployment
from paddock.plugins.supervision.wire import (
    Announced,
    CallOf,
    Heard,
    Introduced,
    Message,
    Nothing,
    Progress,
    Refusal,
    Refused,
    Silent,
    Talk,
    Wire,
)
from paddock.policy.subject import Subject, plugin_subject
from paddock.rpc.faults import INVALID_PARAMS, METHOD_NOT_FOUND, RpcFault

CONFIG_TIMEOUT = 10.0
PING_TIMEOUT = 5.0
_REFUSALS = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
_NO_ENVELOPE: Mapping[str, Any] = {}
MOST_HANDED_CALLS = 4096  # whose artifacts are remembered; of those that are over nobody can ask any more


class Door(Protocol):
    """The way back from a plugin into the host."""

    async def answer(self, asking: Asking, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a plugin's request.

        Raises:
            PaddockError: the answer is no; the plugin is told in JSON-RPC's words.
        """
        ...


class NativeWire:
    """See `Wire`.

    Args:
        deployment: Whose wire it is.
        door: Who answers its requests.
    """

    def __init__(self, deployment: Deployment, door: Door) -> None:
        self._deployment = deployment
        self._manifest = deployment.manifest
        self._door = door
        self._subject = _subject(deployment)
        self._features: frozenset[str] = frozenset()
        self._event_method = names.event_method(deployment.manifest)
        self._stop_method = names.cancel_method(deployment.manifest)
        self._tokens = False
        self._channel: Channel | None = None
        self._reads_artifacts = HostService("artifacts") in deployment.capabilities
        self._handed: dict[str, frozenset[str]] = {}  # by the token of a call: the artifacts that its payload names

    @property
    def stoppable(self) -> bool:
        return names.CANCEL in self._features

    @property
    def answers_stops(self) -> bool:
        return True

    @property
    def forgiving(self) -> bool:
        return False

    @property
    def refusals(self) -> frozenset[int]:
        return _REFUSALS

    def follows(self, last: Wire) -> None:
        del last

    # --- the host's own requests --------------------------------------------------------------------------------------

    async def greet(self, talk: Talk) -> Introduced:
        deployment = self._deployment
        hello = handshake.initialize_params(
            self._manifest, storage_available=deployment.storage_available, projects=deployment.projects
        )
        try:
            answer = await talk.ask(Message(names.INITIALIZE, hello), handshake.TIMEOUT)
        except TimeoutError:
            event = PluginInitializeTimeout(name=deployment.name, timeout_sec=handshake.TIMEOUT)
            raise Silent(event, handshake.TIMEOUT) from None
        except RpcFault as fault:
            told = f"it refused the handshake: {fault_words(fault)}"
            raise Refusal(handshake.malformed(self._manifest, told)) from None
        verdict = handshake.judge(self._manifest, deployment.capabilities, answer)
        if isinstance(verdict, Refused):
            raise Refusal(verdict)
        self._features = verdict.features
        self._tokens = names.CALL_TOKENS in verdict.features
        talk.tell(Message(names.INITIALIZED, {}))
        return verdict

    async def definitions(self, talk: Talk) -> None:
        del talk

    async def configure(self, talk: Talk, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]) -> None:
        for message in (_new_config(config), *(_project(name, own) for name, own in projects.items())):
            try:
                await self._offer(talk, message)
            except RpcFault as fault:
                raise Refusal(self._refused_config(message.method, fault_words(fault))) from None
            except TimeoutError:
                raise Refusal(self._refused_config(message.method, f"no answer within {CONFIG_TIMEOUT:g} s")) from None

    async def tell_config(self, talk: Talk, config: Mapping[str, Any]) -> None:
        await self._tell_meanwhile(talk, _new_config(config))

    async def tell_project(self, talk: Talk, project: str, config: Mapping[str, Any] | None) -> None:
        await self._tell_meanwhile(talk, _project(project, config))

    async def _tell_meanwhile(self, talk: Talk, message: Message) -> None:
        name = self._deployment.name
        try:
            await self._offer(talk, message)
        except RpcFault as fault:
            raise error_of(name, fault) from None
        except TimeoutError:
            raise TimedOut(
                f"{name} did not take {message.method} within {CONFIG_TIMEOUT:g} s",
                hint="it gets the new values when it starts again: paddock plugin enable",
                details={"plugin": name},
            ) from None

    async def _offer(self, talk: Talk, message: Message) -> None:
        """Have it accept settings or a project, unless it is one that need not.

        Raises:
            RpcFault: it refuses.
            TimeoutError: it did not say.
            PeerLost: it is gone.
        """
        try:
            await talk.ask(message, CONFIG_TIMEOUT)
        except RpcFault as fault:
            # A plugin that declares no configuration need not serve it.
            if fault.code != METHOD_NOT_FOUND or self._deployment.takes_config:
                raise

    def _refused_config(self, method: str, words: str) -> Refused:
        refused = handshake.malformed(self._manifest, f"it did not accept {method}: {words}")
        return Refused("config_invalid", refused.reason, refused.event)

    async def well(self, talk: Talk) -> bool:
        try:
            answer = await talk.ask(Message(names.PING, {}), PING_TIMEOUT)
        except RpcFault:
            return False
        return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("status") == "ok"

    def farewell(self, talk: Talk) -> None:
        talk.tell(Message(names.SHUTDOWN, {}))

    def slow_down(self, most_a_second: int) -> Message | None:
        return Message(names.RATE_LIMITED, {"limit_per_second": most_a_second})

    def trust(self, deployment: Deployment) -> None:
        self._subject = _subject(deployment)

    def carry(self, channel: Channel | None) -> None:
        self._channel = channel

    # --- calls --------------------------------------------------------------------------------------------------------

    def token(self, number: int) -> str:
        # Need not be unguessable: it counts on this plugin's own pipe only, and only while the call is under way.
        return f"call-{number}" if self._tokens else ""

    def call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> Message:
        del listens
        method, needed = names.method_of(self._manifest, spec), spec.required_scopes
        return self._addressed(method, payload, context, token, needed, envelope_for(self._manifest, context, needed))

    def hook(self, hook: str, payload: Mapping[str, Any], context: CallContext, token: str) -> Message:
        """The request that tells of a moment in a session."""
        return self._addressed(names.hook_method(self._manifest, hook), payload, context, token)

    def _addressed(
        self,
        method: str,
        payload: Mapping[str, Any],
        context: CallContext,
        token: str,
        needed: Sequence[str] = (),
        envelope: Mapping[str, Any] = _NO_ENVELOPE,
    ) -> Message:
        about: dict[str, Any] = {**context.plugin_context(), **envelope}
        if needed and self._manifest.dialect is Dialect.NATIVE:
            # What kaged's document says of a context is all of it; the Kernel's and Shu's have envelopes for these.
            about["scopes"] = context.principal.holds(needed)
        if context.fence is not None and self._manifest.dialect is Dialect.NATIVE:
            about["idempotency_key"] = context.idempotency_key
        params: dict[str, Any] = {**payload, "_context": about}
        if token:
            params["_call"] = token
            if self._reads_artifacts:
                self._hand_over(token, payload)
        return Message(method, params)

    def _hand_over(self, token: str, payload: Mapping[str, Any]) -> None:
        digests = digests_in(dict(payload))
        if digests:
            self._handed[token] = digests
            if len(self._handed) > MOST_HANDED_CALLS:
                del self._handed[next(iter(self._handed))]

    def stop(self, request: int, token: str) -> Message:
        del token
        return Message(self._stop_method, {"id": request})

    def follow_up(self, sent: Message, raw: Any) -> None:
        del sent, raw

    def result(self, spec: CallableSpec, raw: Any) -> Any:
        del spec
        return unless_failed(self._manifest, raw)

    # --- what it says by itself ---------------------------------------------------------------------------------------

    def heard(self, method: str, params: Mapping[str, Any]) -> Heard:
        if method != self._event_method or names.EVENTS not in self._features:
            return Announced()
        number, event = params.get("id"), params.get("event")
        if type(number) is not int or not isinstance(event, dict):  # true and false are no numbers of requests
            return Nothing()
        return Progress(number, cast("dict[str, Any]", event))

    async def serve(self, method: str, params: Mapping[str, Any], call_of: CallOf, early: Early) -> Any:
        own = {key: value for key, value in params.items() if key != "_call"}
        token = params.get("_call")
        call = call_of(token) if isinstance(token, str) else None
        if token is not None and call is None:
            raise NotFound("no call with this token is under way", code="call.unknown_token")
        key = self._deployment.key
        granted = self._deployment.capabilities
        asking = Asking(
            key.tenant,
            key.plugin,
            self._manifest,
            granted,
            call.context if call is not None else None,
            instance=key.digest,
            channel=self._channel,
            early=early,
            # Of a call under way only: its token was looked up above.
            handed=self._handed.get(token, frozenset()) if isinstance(token, str) else frozenset(),
            effects=call.effects if call is not None else None,
            underway=call_of.effects if call is None else None,
            used_network=call_of.used_network,
            until_over=call.until_over if call is not None else nullcontext,
            tally=call.tally if call is not None else None,
            callable=call.callable if call is not None else "",
            operation=call.operation if call is not None else None,
            call_id=call.call if call is not None else None,
            atomic=call is not None and call.atomic,
            subject=self._subject,
        )
        return await self._door.answer(asking, method, own)


def _subject(deployment: Deployment) -> Subject:
    return plugin_subject(
        deployment.manifest, deployment.key.tenant, tier=deployment.tier, signature=deployment.signature
    )


def _new_config(config: Mapping[str, Any]) -> Message:
    return Message(names.CONFIG_UPDATE, {"config": dict(config)})


def _project(project: str, config: Mapping[str, Any] | None) -> Message:
    if config is None:
        return Message(names.PROJECT_DEACTIVATED, {"project": project})
    return Message(names.PROJECT_ACTIVATED, {"project": project, "config": dict(config)})
