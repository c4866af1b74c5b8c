"""The seam between a plugin's life and its protocol: here is what is meant, behind it how that is said.

A wire belongs to one process. It holds what the two agreed on in their first exchange and nothing else; pipes, time
limits and who waits for an answer are the conversation's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from paddock.core.call import CallContext
from paddock.core.event import Event
from paddock.manifest.model import CallableSpec

Json: TypeAlias = dict[str, Any]


class Message(NamedTuple):
    """A request or a notification."""

    method: str
    params: Json


class Talk(Protocol):
    """The host's own words to a plugin, beside the calls."""

    async def ask(self, message: Message, within: float) -> Any:
        """The answer to a request.

        Raises:
            RpcFault: it is an error.
            TimeoutError: none came in time.
            PeerLost: none will come.
        """
        ...

    def tell(self, message: Message) -> None:
        """Send a notification; lost when the plugin is, or when it does not read."""
        ...


@dataclass(frozen=True, slots=True)
class Definition:
    """Something a server says of itself that people and models read: a tool, a prompt, a resource, its instructions.

    It is kept as it came: what a person accepted is this very value.
    """

    kind: str
    name: str
    raw: Any


@dataclass(frozen=True, slots=True)
class Introduced:
    """A plugin that answered as it should."""

    features: frozenset[str] = frozenset()
    serves: int = 0  # how many callables it confirmed
    missing: frozenset[str] = frozenset()  # callables of the manifest that it does not serve
    warning: Event | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that ends the plugin. Starting it again would end the same way."""

    code: str
    reason: str
    event: Event
    hint: str = "the plugin's author has to mend it"


class Refusal(Exception):
    """A plugin that must not run, met during its first exchange."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class Silent(Exception):
    """A plugin that did not answer the first exchange in time."""

    def __init__(self, event: Event, seconds: float) -> None:
        super().__init__(f"it did not answer the handshake within {seconds:g} s")
        self.event = event


@dataclass(frozen=True, slots=True)
class Progress:
    """Something a plugin tells about a call under way."""

    call: int | str  # the number of the request, or the token that names the call
    event: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Announced:
    """Something a plugin tells everybody."""


@dataclass(frozen=True, slots=True)
class Redefined:
    """It says that what it offers has changed."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nobody's business."""


Heard: TypeAlias = Progress | Announced | Redefined | Nothing

# The call that a token names, where it is under way; None where there is no such call.
CallOf: TypeAlias = Callable[[str], CallContext | None]


class Wire(Protocol):
    """How one protocol says it."""

    @property
    def stoppable(self) -> bool:
        """Whether the plugin understands being asked to stop working on a call."""
        ...

    async def greet(self, talk: Talk) -> Introduced:
        """The first exchange.

        Raises:
            Refusal: it must not run.
            Silent: it did not answer.
            PeerLost: it is gone.
        """
        ...

    async def definitions(self, talk: Talk) -> tuple[Definition, ...] | None:
        """What it says that it offers; None where its manifest says that.

        Raises:
            Refusal: it does not say it in a way that can be understood.
            TimeoutError, RpcFault, PeerLost: as for `Talk.ask`.
        """
        ...

    async def configure(self, talk: Talk, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]) -> None:
        """Everything it has to know before its first call.

        Raises:
            Refusal: it does not accept it.
            PeerLost: it is gone.
        """
        ...

    async def well(self, talk: Talk) -> bool:
        """Ask whether it is well.

        Raises:
            TimeoutError: it did not say.
            PeerLost: it is gone.
        """
        ...

    def farewell(self, talk: Talk) -> None:
        """Ask it to end by itself."""
        ...

    def token(self, number: int) -> str:
        """What names the call with this number to the plugin; empty where it knows no such names."""
        ...

    def call(self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str) -> Message:
        """The request for one call."""
        ...

    def stop(self, request: int, token: str) -> Message:
        """The notification that asks it to stop working on a request."""
        ...

    def result(self, spec: CallableSpec, raw: Any) -> Any:
        """What its answer to a call means.

        Raises:
            PaddockError: that it failed.
        """
        ...

    def heard(self, method: str, params: Mapping[str, Any]) -> Heard:
        """What a notification of it is about."""
        ...

    def serve(self, method: str, params: Mapping[str, Any], call_of: CallOf) -> Awaitable[Any]:
        """The answer to a request of the plugin's.

        Raises:
            RpcFault, PaddockError: the answer is no.
        """
        ...

    def slow_down(self, most_a_second: int) -> Message | None:
        """What to tell a plugin whose notifications are dropped since they are too many."""
        ...


@runtime_checkable
class HookingWire(Wire, Protocol):
    """A protocol that knows moments of a session, settings that change, and projects."""

    def hook(self, hook: str, payload: Mapping[str, Any], context: CallContext, token: str) -> Message:
        """The request that tells of a moment in a session."""
        ...

    def new_config(self, config: Mapping[str, Any]) -> Message: ...

    def project_activated(self, project: str, config: Mapping[str, Any]) -> Message: ...

    def project_deactivated(self, project: str) -> Message: ...
