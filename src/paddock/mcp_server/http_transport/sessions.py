"""The sessions of clients that began with a handshake over HTTP. Each belongs to who began it, and is nobody else's."""

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
"""Sessions of one caller. One more takes the place of the one that was used longest ago and does nothing."""
MAX_SESSIONS: Final = 10_000
SESSION_IDLE_TIMEOUT_S: Final = 1800.0
"""Seconds after which a session that nobody uses is over."""
_SWEEP_INTERVAL_S: Final = 60.0  # seconds between two looks at all of them


class McpHttpSession:
    """One client, for as long as it comes back."""

    def __init__(
        self, owner: RequestOwner, methods: McpMethods, now: float, ended: EndedStreams, again: ContextProvider
    ) -> None:
        self.id = secrets.token_urlsafe(32)
        self.owner = owner
        self.streams = SessionStreams(ended)
        self.notification_stream = self.streams.open(primed=False)  # for what belongs to no request
        self.reauthenticate = again  # proves its client once more, by what its last request brought: tokens are renewed
        self.server_session = ServerSession(methods, self.notification_stream.put, lambda: self.reauthenticate())
        self.used_at = now

    @property
    def idle(self) -> bool:
        return not self.server_session.busy and not self.notification_stream.has_reader

    def close(self) -> None:
        self.server_session.close()
        self.streams.close()


class McpHttpSessions:
    """All of them.

    Args:
        methods: Answers their requests.
        clock: Tells how long one was not used.
        opened: Hears whose a new one is.
    """

    def __init__(self, methods: McpMethods, clock: Clock, opened: Callable[[Tenant], None]) -> None:
        self._methods = methods
        self._clock = clock
        self._opened = opened
        self._sessions: dict[str, McpHttpSession] = {}
        self._by_owner: dict[RequestOwner, dict[str, McpHttpSession]] = {}
        self._ended = EndedStreams()
        self._swept_at = clock.monotonic()

    def open(self, context: CallContext, again: ContextProvider) -> McpHttpSession:
        """A new session of whoever acts in this context; `again` proves later that they still do.

        Raises:
            Busy: they have too many that do something, or all together have.
        """
        owner, now = request_owner(context), self._clock.monotonic()
        if now - self._swept_at > _SWEEP_INTERVAL_S:
            self.sweep()
        theirs = self._by_owner.get(owner, {})
        if len(theirs) >= MAX_SESSIONS_PER_OWNER and not self._end_oldest(theirs.values()):
            raise Busy(f"{MAX_SESSIONS_PER_OWNER} sessions are in use already", hint="end one of them first")
        if len(self._sessions) >= MAX_SESSIONS and not self._end_oldest(self._sessions_of_largest_tenant()):
            raise Busy(f"{MAX_SESSIONS} sessions are in use already", hint="try again later")
        session = McpHttpSession(owner, self._methods, now, self._ended, again)
        self._opened(owner.tenant)
        self._sessions[session.id] = session
        self._by_owner.setdefault(owner, {})[session.id] = session
        return session

    def _sessions_of_largest_tenant(self) -> list[McpHttpSession]:
        """Whoever has taken most of the room makes some: one tenant must not keep the others out."""
        ((largest, _),) = Counter(one.owner.tenant for one in self._sessions.values()).most_common(1)
        return [one for one in self._sessions.values() if one.owner.tenant == largest]

    def _end_oldest(self, sessions: Iterable[McpHttpSession]) -> bool:
        """End the one that was used longest ago and does nothing; whether there was one."""
        oldest = min((one for one in sessions if one.idle), key=lambda one: one.used_at, default=None)
        if oldest is not None:
            self.end(oldest)
        return oldest is not None

    def find(self, name: str, context: CallContext, again: ContextProvider) -> McpHttpSession | None:
        """A session by its id; None for everybody but its owner, as for one that there never was."""
        session, now = self._sessions.get(name), self._clock.monotonic()
        if session is None or session.owner != request_owner(context):
            return None
        if now - session.used_at > SESSION_IDLE_TIMEOUT_S and session.idle:
            self.end(session)
            return None
        session.used_at, session.reauthenticate = now, again
        return session

    def end(self, session: McpHttpSession) -> None:
        """End a session, with all that is under way in it."""
        if self._sessions.pop(session.id, None) is None:
            return
        theirs = self._by_owner[session.owner]
        del theirs[session.id]
        if not theirs:
            del self._by_owner[session.owner]
        session.close()

    def sweep(self) -> None:
        """End those that nobody has used for a while."""
        self._swept_at = self._clock.monotonic()
        since = self._swept_at - SESSION_IDLE_TIMEOUT_S
        for session in [one for one in self._sessions.values() if one.used_at < since and one.idle]:
            self.end(session)

    def all(self) -> tuple[McpHttpSession, ...]:
        return tuple(self._sessions.values())

    def close(self) -> None:
        for session in self.all():
            self.end(session)
