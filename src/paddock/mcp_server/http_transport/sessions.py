"""Sessions of MCP clients that started with a handshake over HTTP. Only its owner can use a session."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import Busy
from paddock.core.ids import Tenant
from paddock.mcp_server.exchange import ContextProvider, RequestOwner, request_owner
from paddock.mcp_server.http_transport.event_streams import EndedStreams, SessionStreams
from paddock.mcp_server.methods import McpMethods
from paddock.mcp_server.server_session import ServerSession

MAX_SESSIONS_PER_OWNER: Final = 64
"""Sessions per owner. One more replaces the least recently used idle one."""
MAX_SESSIONS: Final = 10_000
SESSION_IDLE_TIMEOUT_S: Final = 1800.0
"""Time after which an unused session ends."""
_SWEEP_INTERVAL_S: Final = 60.0  # between two sweeps of idle sessions


class McpHttpSession:
    """The session of one client."""

    def __init__(
        self,
        owner: RequestOwner,
        methods: McpMethods,
        now: float,
        ended_streams: EndedStreams,
        reauthenticate: ContextProvider,
    ) -> None:
        self.id = secrets.token_urlsafe(32)
        self.owner = owner
        self.streams = SessionStreams(ended_streams)
        self.notification_stream = self.streams.open(primed=False)  # for messages that belong to no request
        self.reauthenticate = reauthenticate  # with the credential of its last request: tokens are renewed
        self.server_session = ServerSession(methods, self.notification_stream.put, lambda: self.reauthenticate())
        self.used_at = now

    def note_request(self, now: float, reauthenticate: ContextProvider) -> None:
        self.used_at, self.reauthenticate = now, reauthenticate

    @property
    def idle(self) -> bool:
        return not self.server_session.busy and not self.notification_stream.has_reader

    def close(self) -> None:
        self.server_session.close()
        self.streams.close()


class McpHttpSessions:
    """All sessions.

    Args:
        methods: Answers requests.
        clock: For idle times.
        on_open: Called with the tenant of each new session.
    """

    def __init__(self, methods: McpMethods, clock: Clock, on_open: Callable[[Tenant], None]) -> None:
        self._methods = methods
        self._clock = clock
        self._on_open = on_open
        self._sessions: dict[str, McpHttpSession] = {}
        self._by_owner: dict[RequestOwner, dict[str, McpHttpSession]] = {}
        self._ended_streams = EndedStreams()
        self._swept_at = clock.monotonic()

    def open(self, context: CallContext, reauthenticate: ContextProvider) -> McpHttpSession:
        """Open a session for the caller; `reauthenticate` checks later whether the credential is still valid.

        Raises:
            Busy: the caller, or all callers together, have too many busy sessions.
        """
        owner, now = request_owner(context), self._clock.monotonic()
        if now - self._swept_at > _SWEEP_INTERVAL_S:
            self.sweep()
        owned = self._by_owner.get(owner, {})
        if len(owned) >= MAX_SESSIONS_PER_OWNER and not self._end_oldest(owned.values()):
            raise Busy(f"{MAX_SESSIONS_PER_OWNER} sessions are in use already", hint="end one of them first")
        if len(self._sessions) >= MAX_SESSIONS and not self._end_oldest(self._sessions_of_largest_tenant()):
            raise Busy(f"{MAX_SESSIONS} sessions are in use already", hint="try again later")
        session = McpHttpSession(owner, self._methods, now, self._ended_streams, reauthenticate)
        self._on_open(owner.tenant)
        self._sessions[session.id] = session
        self._by_owner.setdefault(owner, {})[session.id] = session
        return session

    def _sessions_of_largest_tenant(self) -> list[McpHttpSession]:
        """Return the sessions of the tenant that has most: one tenant must not lock out the others."""
        ((largest, _),) = Counter(session.owner.tenant for session in self._sessions.values()).most_common(1)
        return [session for session in self._sessions.values() if session.owner.tenant == largest]

    def _end_oldest(self, sessions: Iterable[McpHttpSession]) -> bool:
        """End the least recently used idle session; returns whether there was one."""
        oldest = min(
            (session for session in sessions if session.idle), key=lambda session: session.used_at, default=None
        )
        if oldest is not None:
            self.end(oldest)
        return oldest is not None

    def find(self, session_id: str, context: CallContext, reauthenticate: ContextProvider) -> McpHttpSession | None:
        """Return a session by its id; None for anybody but its owner, as if it did not exist."""
        session, now = self._sessions.get(session_id), self._clock.monotonic()
        if session is None or session.owner != request_owner(context):
            return None
        if now - session.used_at > SESSION_IDLE_TIMEOUT_S and session.idle:
            self.end(session)
            return None
        session.note_request(now, reauthenticate)
        return session

    def end(self, session: McpHttpSession) -> None:
        """End a session and cancel its requests."""
        if self._sessions.pop(session.id, None) is None:
            return
        owned = self._by_owner[session.owner]
        del owned[session.id]
        if not owned:
            del self._by_owner[session.owner]
        session.close()

    def sweep(self) -> None:
        """End sessions that have been idle too long."""
        self._swept_at = self._clock.monotonic()
        cutoff = self._swept_at - SESSION_IDLE_TIMEOUT_S
        for session in [
            candidate for candidate in self._sessions.values() if candidate.used_at < cutoff and candidate.idle
        ]:
            self.end(session)

    def all(self) -> tuple[McpHttpSession, ...]:
        return tuple(self._sessions.values())

    def close(self) -> None:
        for session in self.all():
            self.end(session)
