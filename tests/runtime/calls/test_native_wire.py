"""Our own protocol, at its edges: what counts as a number, and who need not know of settings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runtime.stage import closed_door

from paddock.core.errors import NotFound, PaddockError, TimedOut
from paddock.core.ids import DEFAULT_TENANT, Digest, PluginName
from paddock.manifest.model import CallableForm, CallableSpec, Dialect, Manifest
from paddock.rpc.errors import RpcError
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.protocol_adapter import CallProgress, HandshakeRejected, IgnoredNotification, OutgoingMessage
from paddock.runtime.protocols.native.adapter import NativeAdapter

INTRODUCTION = {
    "name": "notes",
    "version": "1.0.0",
    "api_version": 1,
    "methods": ["do.it"],
    "notifications": [],
    "capabilities_used": [],
    "features": ["events"],
}


class Answering:
    """A plugin that introduces itself and says this to everything else."""

    def __init__(self, answer: Exception | None = None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def request(self, message: OutgoingMessage, timeout_s: float) -> Any:
        del timeout_s
        self.asked.append(message.method)
        if self._answer is not None:
            raise self._answer
        return INTRODUCTION if message.method == "initialize" else {"status": "ok"}

    def notify(self, message: OutgoingMessage) -> None: ...

    def subscribe(self, message: OutgoingMessage, on_over: Any) -> None: ...

    def finish(self) -> None: ...


def wire(**fields: Any) -> NativeAdapter:
    specs = (CallableSpec("do.it", CallableForm.METHOD),)
    manifest = Manifest(PluginName("notes"), "1.0.0", Dialect.NATIVE, callables=specs, **fields)
    key = InstanceKey(DEFAULT_TENANT, manifest.name, Digest("sha256:1"))
    return NativeAdapter(Deployment(key, manifest, ()), closed_door)


@pytest.mark.parametrize(
    ("number", "meant"),
    [(1, CallProgress), (True, IgnoredNotification), (False, IgnoredNotification), (1.0, IgnoredNotification)],
)
async def test_an_event_belongs_to_a_call_by_its_number_and_true_is_no_number(number: Any, meant: type) -> None:
    native = wire()
    await native.handshake(Answering())
    assert type(native.classify("paddock.event", {"id": number, "event": {}})) is meant


async def test_who_declares_no_settings_need_not_know_the_word_at_the_start_or_later() -> None:
    unknown, native = Answering(RpcError(-32601, "what?")), wire()
    await native.configure(unknown, {}, {"shop": {}})
    await native.update_config(unknown, {})
    await native.update_project(unknown, "shop", {})
    await native.update_project(unknown, "shop", None)
    told = ["config.update", "projects.activated"]
    assert unknown.asked == [*told, *told, "projects.deactivated"]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [(RpcError(-32601, "what?"), NotFound), (RpcError(-32004, "no"), PaddockError), (TimeoutError(), TimedOut)],
)
async def test_who_declares_settings_and_does_not_take_them_is_refused_at_the_start_and_told_of_later(
    answer: Exception, refused: type[PaddockError]
) -> None:
    unwilling, native = Answering(answer), wire(config_schema={"type": "object"})
    with pytest.raises(HandshakeRejected, match="did not accept"):
        await native.configure(unwilling, {}, {})
    with pytest.raises(refused):
        await native.update_config(unwilling, {})
    with pytest.raises(refused):
        await native.update_project(unwilling, "shop", None)
