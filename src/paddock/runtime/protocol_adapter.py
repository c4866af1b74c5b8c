"""The seam between a plugin's life and its protocol: here is what is meant, behind it how that is said.

A wire belongs to one process. It holds what the two agreed on in their first exchange and nothing else; pipes, time
limits and who waits for an answer are the conversation's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from paddock.capabilities.pipes.channel import PipeChannel
from paddock.capabilities.request import EarlyAnswer, MethodCounts
from paddock.core.call import CallContext
from paddock.core.events.event import Event
from paddock.core.ids import CallId
from paddock.manifest.model import CallableSpec
from paddock.runtime.calls import Question, QuestionAnswer
from paddock.runtime.deployment import Deployment

Json: TypeAlias = dict[str, Any]


class OutgoingMessage(NamedTuple):
    """A request or a notification."""

    method: str
    params: Json


class RequestSender(Protocol):
    """The host's own words to a plugin, beside the calls."""

    async def request(self, message: OutgoingMessage, within: float) -> Any:
        """The answer to a request.

        Raises:
            RpcFault: it is an error.
            TimeoutError: none came in time.
            PeerLost: none will come.
        """
        ...

    def notify(self, message: OutgoingMessage) -> None:
        """Send a notification; lost when the plugin is, or when it does not read."""
        ...

    def subscribe(self, message: OutgoingMessage, over: Callable[[BaseException | None], None]) -> None:
        """Send a request that is answered only when it is over; until then notifications tell what it is about.

        `over` is told how it ended: with an answer, or with what `ask` would raise.
        """
        ...

    def finish(self) -> None:
        """Say nothing more: once it has read everything the plugin sees the end of its input."""
        ...


@dataclass(frozen=True, slots=True)
class Definition:
    """Something a server says of itself that people and models read: a tool, a prompt, a resource, its instructions.

    It is kept as it came: what a person accepted is this very value.
    """

    kind: str
    name: str
    raw: Any


class DefinitionList(tuple[Definition, ...]):
    """What a server lists, as far as it was read. `left_out`: how much more there is at least."""

    omitted_count: int = 0

    @classmethod
    def truncated(cls, definitions: Iterable[Definition], left_out: int) -> DefinitionList:
        """So much was read, and so much not."""
        made = cls(definitions)
        made.omitted_count = left_out
        return made


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """A plugin that answered as it should."""

    features: frozenset[str] = frozenset()
    served_count: int = 0  # how many callables it confirmed
    missing_callables: frozenset[str] = frozenset()  # callables of the manifest that it does not serve
    undeclared_methods: tuple[str, ...] = ()  # what it serves besides, in words that can be shown
    warning: Event | None = None


@dataclass(frozen=True, slots=True)
class HandshakeRejection:
    """An answer that ends the plugin. Starting it again would end the same way."""

    code: str
    reason: str
    event: Event
    hint: str = "the plugin's author has to mend it"


class HandshakeRejected(Exception):
    """A plugin that must not run, met during its first exchange."""

    def __init__(self, refused: HandshakeRejection) -> None:
        super().__init__(refused.reason)
        self.rejection = refused


class HandshakeTimeout(Exception):
    """A plugin that did not answer the first exchange in time."""

    def __init__(self, event: Event, seconds: float) -> None:
        super().__init__(f"it did not answer the handshake within {seconds:g} s")
        self.event = event


@dataclass(frozen=True, slots=True)
class CallProgress:
    """Something a plugin tells about a call under way."""

    call: int | str  # the number of the request, or the token that names the call
    event: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Something a plugin tells everybody."""


@dataclass(frozen=True, slots=True)
class LogNotification:
    """A line for its log; and an event for whoever makes the call, where it is known which one that is."""

    line: str
    event: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ListChanged:
    """It says that what it offers has changed."""


@dataclass(frozen=True, slots=True)
class IgnoredNotification:
    """Nobody's business."""


ParsedNotification: TypeAlias = CallProgress | Broadcast | LogNotification | ListChanged | IgnoredNotification


class CallView(Protocol):
    """A call under way, as far as it matters to what the plugin asks for in it; see `Asking`."""

    @property
    def context(self) -> CallContext: ...
    @property
    def effects(self) -> frozenset[str] | None: ...
    @property
    def tally(self) -> MethodCounts | None: ...
    @property
    def atomic(self) -> bool: ...
    @property
    def call(self) -> CallId | None: ...
    @property
    def callable(self) -> str: ...
    @property
    def operation(self) -> str | None: ...
    def until_over(self, end: Callable[[], None]) -> AbstractContextManager[object]: ...


class ActiveCalls(Protocol):
    """The calls under way, as the plugin may refer to them."""

    def __call__(self, token: str) -> CallView | None:
        """The call that a token names; None where there is no such call."""
        ...

    @property
    def effects(self) -> frozenset[str] | None:
        """What all of them together may do to the world; see `Asking.underway`."""
        ...

    def note_network_use(self) -> None:
        """Note in each of them that the network was used, for one that was not named."""
        ...

    async def ask(self, request: int | None, question: Question) -> QuestionAnswer:
        """Put a question to whoever makes the call with this number. Without one it is the only call under way; where
        that is not clear, nobody is asked."""
        ...


@dataclass(frozen=True, slots=True)
class InputRequired:
    """An answer that is none yet: the plugin wants to know something first and be asked again."""

    questions: tuple[Question, ...]
    build_retry: Callable[[Sequence[QuestionAnswer]], OutgoingMessage]  # the request that carries the answers
    delay_s: float = 0.0  # seconds before it is sent


class ProtocolAdapter(Protocol):
    """How one protocol says it."""

    @property
    def supports_cancel(self) -> bool:
        """Whether the plugin understands being asked to stop working on a call."""
        ...

    @property
    def confirms_cancel(self) -> bool:
        """Whether a call that was stopped is still answered, which shows that the plugin did stop."""
        ...

    @property
    def allows_early_messages(self) -> bool:
        """Whether the plugin may speak before the first exchange is over, and say something wrong there."""
        ...

    @property
    def not_started_codes(self) -> frozenset[int]:
        """The errors that a plugin answers a call with before it has begun with it, and never afterwards."""
        ...

    def resume_from(self, last: ProtocolAdapter) -> None:
        """This is the next life of the same plugin; what the last one found out need not be found out again."""
        ...

    async def handshake(self, talk: RequestSender) -> HandshakeResult:
        """The first exchange.

        Raises:
            Refusal: it must not run.
            Silent: it did not answer.
            PeerLost: it is gone.
        """
        ...

    async def list_definitions(self, talk: RequestSender) -> tuple[Definition, ...] | None:
        """What it says that it offers; None where its manifest says that.

        Raises:
            Refusal: it does not say it in a way that can be understood.
            TimeoutError, RpcFault, PeerLost: as for `Talk.ask`.
        """
        ...

    async def configure(
        self, talk: RequestSender, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Everything it has to know before its first call.

        Raises:
            Refusal: it does not accept it.
            PeerLost: it is gone.
        """
        ...

    async def ping(self, talk: RequestSender) -> bool:
        """Ask whether it is well.

        Raises:
            TimeoutError: it did not say.
            PeerLost: it is gone.
        """
        ...

    def request_shutdown(self, talk: RequestSender) -> None:
        """Ask it to end by itself."""
        ...

    def call_token(self, number: int) -> str:
        """What names the call with this number to the plugin; empty where it knows no such names."""
        ...

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        """The request for one call; `listens` says whether anybody wants to hear how far it is."""
        ...

    def build_cancel(self, request: int, token: str) -> OutgoingMessage:
        """The notification that asks it to stop working on a request."""
        ...

    def parse_input_required(self, sent: OutgoingMessage, raw: Any) -> InputRequired | None:
        """What the plugin wants before it answers this request; None for an answer."""
        ...

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        """What its answer to a call means.

        Raises:
            PaddockError: that it failed.
        """
        ...

    def classify(self, method: str, params: Mapping[str, Any]) -> ParsedNotification:
        """What a notification of it is about."""
        ...

    def serve(self, method: str, params: Mapping[str, Any], call_of: ActiveCalls, early: EarlyAnswer) -> Awaitable[Any]:
        """The answer to a request of the plugin's.

        Raises:
            RpcFault, PaddockError: the answer is no.
        """
        ...

    def build_rate_limit_notice(self, most_a_second: int) -> OutgoingMessage | None:
        """What to tell a plugin whose notifications are dropped since they are too many."""
        ...


@runtime_checkable
class ArtifactAdapter(ProtocolAdapter, Protocol):
    """A protocol in which a plugin can ask for bytes that travel beside the messages."""

    def set_artifact_channel(self, channel: PipeChannel | None) -> None:
        """These are the pipes for them; None where the plugin has none."""
        ...


@runtime_checkable
class CapabilityAdapter(ProtocolAdapter, Protocol):
    """A protocol in which a plugin can ask the host for something."""

    def update_trust(self, deployment: Deployment) -> None:
        """Its tier and what its signature is worth are these from now on."""
        ...


@runtime_checkable
class HookAdapter(ProtocolAdapter, Protocol):
    """A protocol that knows moments of a session, settings that change, and projects."""

    def build_hook(self, hook: str, payload: Mapping[str, Any], context: CallContext, token: str) -> OutgoingMessage:
        """The request that tells of a moment in a session."""
        ...

    async def update_config(self, talk: RequestSender, config: Mapping[str, Any]) -> None:
        """Its settings are these from now on.

        Raises:
            PaddockError: it refused, or did not say in time.
            PeerLost: it is gone.
        """
        ...

    async def update_project(self, talk: RequestSender, project: str, config: Mapping[str, Any] | None) -> None:
        """A project that uses it has these settings from now on; without any, the project is gone. As `tell_config`."""
        ...
