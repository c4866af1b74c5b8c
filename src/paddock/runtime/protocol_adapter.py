"""The contract between a plugin's connection and its protocol: what to say here, how to say it in each adapter.

An adapter belongs to one process run. It holds the state that the handshake negotiated and nothing else; pipes,
timeouts and waiting callers belong to the connection.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from paddock.capabilities.request import EarlyAnswer
from paddock.core.call import CallContext
from paddock.core.elicitation import Question, QuestionAnswer
from paddock.core.events.event import Event
from paddock.manifest.model import CallableSpec
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.runtime.calls import InFlightCalls

Json: TypeAlias = dict[str, Any]


class OutgoingMessage(NamedTuple):
    """A request or a notification to send."""

    method: str
    params: Json


class RequestSender(Protocol):
    """Sends the host's own messages to a plugin, apart from calls."""

    async def request(self, message: OutgoingMessage, timeout_s: float) -> Any:
        """Send a request and return its result.

        Raises:
            RpcError: the plugin answered with an error.
            TimeoutError: no answer came in time.
            PeerLost: the plugin is gone.
        """
        ...

    def notify(self, message: OutgoingMessage) -> None:
        """Send a notification. It is lost if the plugin is gone or does not read."""
        ...

    def subscribe(self, message: OutgoingMessage, on_over: Callable[[BaseException | None], None]) -> None:
        """Send a request that is answered only when it is over; until then notifications carry its results.

        `on_over` gets how it ended: None for an answer, else the error that `request` would raise.
        """
        ...

    def finish(self) -> None:
        """Close the sending side: once the plugin has read everything it sees the end of its input."""
        ...


class DefinitionList(tuple[Definition, ...]):
    """The definitions a server lists, as far as they were read. `omitted_count` is how many more there are at least."""

    omitted_count: int = 0

    @classmethod
    def truncated(cls, definitions: Iterable[Definition], omitted_count: int) -> DefinitionList:
        """Build a list of which `omitted_count` entries were not read."""
        result = cls(definitions)
        result.omitted_count = omitted_count
        return result


class HandshakeResult(Struct, frozen=True):
    """The outcome of a successful handshake."""

    features: frozenset[str] = frozenset()
    served_count: int = 0  # callables that it confirmed
    missing_callables: frozenset[str] = frozenset()  # callables of the manifest that it does not serve
    undeclared_methods: tuple[str, ...] = ()  # further methods that it serves, made printable
    warning: Event | None = None


class HandshakeRejection(Struct, frozen=True):
    """A handshake answer that disqualifies the plugin. It would repeat at the next start."""

    code: str
    reason: str
    event: Event
    hint: str = "the plugin's author has to fix it"


class HandshakeRejected(Exception):
    """The handshake showed that the plugin must not run."""

    def __init__(self, rejection: HandshakeRejection) -> None:
        super().__init__(rejection.reason)
        self.rejection = rejection


class HandshakeTimeout(Exception):
    """The plugin did not answer the handshake in time."""

    def __init__(self, event: Event, seconds: float) -> None:
        super().__init__(f"it did not answer the handshake within {seconds:g} s")
        self.event = event


@dataclasses.dataclass(frozen=True, slots=True)
class CallProgress:
    """An event that a plugin sends about an in-flight call."""

    call: int | str  # the request id, or the call token
    event: Mapping[str, Any] = dataclasses.field(repr=False)


class Broadcast(Struct, frozen=True):
    """A notification for everyone."""


class LogNotification(Struct, frozen=True):
    """A line for the plugin's log, and an event for the caller where it is known which call it belongs to."""

    line: str
    event: Mapping[str, Any] | None = None


class ListChanged(Struct, frozen=True):
    """The plugin says that its definitions changed."""


class IgnoredNotification(Struct, frozen=True):
    """A notification without meaning for the host."""


ParsedNotification: TypeAlias = CallProgress | Broadcast | LogNotification | ListChanged | IgnoredNotification


class InputRequired(Struct, frozen=True):
    """An interim answer: the plugin wants input first and then be asked again."""

    questions: tuple[Question, ...]
    build_retry: Callable[[Sequence[QuestionAnswer]], OutgoingMessage]  # builds the request that carries the answers
    delay_s: float = 0.0  # pause before the retry is sent


class ProtocolAdapter(Protocol):
    """Encodes and decodes one plugin protocol."""

    @property
    def supports_cancel(self) -> bool:
        """Whether the plugin understands a cancellation."""
        ...

    @property
    def confirms_cancel(self) -> bool:
        """Whether a cancelled call is still answered, which shows that the plugin stopped."""
        ...

    @property
    def allows_early_messages(self) -> bool:
        """Whether the plugin may send messages before the handshake is over, even invalid ones."""
        ...

    @property
    def not_started_codes(self) -> frozenset[int]:
        """Error codes that a plugin sends only before it has started a call, never afterwards."""
        ...

    def resume_from(self, previous: ProtocolAdapter) -> None:
        """Take over what the adapter of the plugin's previous process run learned."""
        ...

    async def handshake(self, sender: RequestSender) -> HandshakeResult:
        """Perform the handshake.

        Raises:
            HandshakeRejected: the plugin must not run.
            HandshakeTimeout: it did not answer.
            PeerLost: it is gone.
        """
        ...

    async def list_definitions(self, sender: RequestSender) -> tuple[Definition, ...] | None:
        """Fetch the definitions it offers; None if its manifest declares them.

        Raises:
            HandshakeRejected: its lists are malformed.
            TimeoutError, RpcError, PeerLost: as for `RequestSender.request`.
        """
        ...

    async def configure(
        self, sender: RequestSender, config: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Send everything it has to know before its first call.

        Raises:
            HandshakeRejected: it does not accept it.
            PeerLost: it is gone.
        """
        ...

    async def ping(self, sender: RequestSender) -> bool:
        """Ask whether it is healthy.

        Raises:
            TimeoutError: it did not answer.
            PeerLost: it is gone.
        """
        ...

    def request_shutdown(self, sender: RequestSender) -> None:
        """Ask it to end by itself."""
        ...

    def call_token(self, number: int) -> str:
        """Return the token that names the call with this number; empty if the plugin does not use tokens."""
        ...

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        """Build the request for one call; `listens` says whether anyone wants progress events."""
        ...

    def build_cancel(self, request: int, token: str) -> OutgoingMessage:
        """Build the notification that cancels a request."""
        ...

    def parse_input_required(self, sent: OutgoingMessage, raw: Any) -> InputRequired | None:
        """Return the input the plugin requires before it answers; None if `raw` is the answer."""
        ...

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        """Parse the answer to a call.

        Raises:
            PaddockError: the answer says that the call failed.
        """
        ...

    def classify(self, method: str, params: Mapping[str, Any]) -> ParsedNotification:
        """Parse a notification of the plugin."""
        ...

    def serve(self, method: str, params: Mapping[str, Any], calls: InFlightCalls, early: EarlyAnswer) -> Awaitable[Any]:
        """Answer a request of the plugin; `calls` are those that it may belong to.

        Raises:
            RpcError, PaddockError: the request is refused.
        """
        ...

    def build_rate_limit_notice(self, limit_per_second: int) -> OutgoingMessage | None:
        """Build the notification for a plugin whose notifications are dropped because there are too many."""
        ...
