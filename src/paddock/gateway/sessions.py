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
from paddock.gateway.conversation import Conversation
from paddock.gateway.exchange import ContextNow
from paddock.gateway.methods import Methods
from paddock.gateway.owners import Owner, owner_of
from paddock.gateway.streams import Ended, Streams

MOST_OF_ONE: Final = 64
"""Sessions of one caller. One more takes the place of the one that was used longest ago and does nothing."""
MOST: Final = 10_000
IDLE: Final = 1800.0
"""Seconds after which a session that nobody uses is over."""
_SWEPT: Final = 60.0  # seconds between two looks at all of them


class Session:
    """One client, for as long as it comes back."""

    def __init__(self, owner: Owner, methods: Methods, now: float, ended: Ended, again: ContextNow) -> None:
        self.id = secrets.token_urlsafe(32)
        self.owner = owner
        self.streams = Streams(ended)
        self.standing = self.streams.open(primed=False)  # for what belongs to no request
        self.again = again  # proves its client once more, by what its last request brought: tokens are renewed
        self.conversation = Conversation(methods, self.standing.put, lambda: self.again())
        self.used_at = now

    @property
    def idle(self) -> bool:
        return not self.conversation.busy and not self.standing.followed

    def close(self) -> None:
        self.conversation.close()
        self.streams.close()


class Sessions:
    """All of them.

    Args:
        methods: Answers their requests.
        clock: Tells how long one was not used.
        opened: Hears whose a new one is.
    """

    def __init__(self, methods: Methods, clock: Clock, opened: Callable[[Tenant], None]) -> None:
        self._methods = methods
        self._clock = clock
        self._opened = opened
        self._sessions: dict[str, Session] = {}
        self._of: dict[Owner, dict[str, Session]] = {}
        self._ended = Ended()
        self._swept_at = clock.monotonic()

    def open(self, context: CallContext, again: ContextNow) -> Session:
        """A new session of whoever acts in this context; `again` proves later that they still do.

        Raises:
            Busy: they have too many that do something, or all together have.
        """
        owner, now = owner_of(context), self._clock.monotonic()
        if now - self._swept_at > _SWEPT:
            self.sweep()
        theirs = self._of.get(owner, {})
        if len(theirs) >= MOST_OF_ONE and not self._end_oldest(theirs.values()):
            raise Busy(f"{MOST_OF_ONE} sessions are in use already", hint="end one of them first")
        if len(self._sessions) >= MOST and not self._end_oldest(self._of_the_largest_tenant()):
            raise Busy(f"{MOST} sessions are in use already", hint="try again later")
        session = Session(owner, self._methods, now, self._ended, again)
        self._opened(owner.tenant)
        self._sessions[session.id] = session
        self._of.setdefault(owner, {})[session.id] = session
        return session

    def _of_the_largest_tenant(self) -> list[Session]:
        """Whoever has taken most of the room makes some: one tenant must not keep the others out."""
        ((largest, _),) = Counter(one.owner.tenant for one in self._sessions.values()).most_common(1)
        return [one for one in self._sessions.values() if one.owner.tenant == largest]

    def _end_oldest(self, sessions: Iterable[Session]) -> bool:
        """End the one that was used longest ago and does nothing; whether there was one."""
        oldest = min((one for one in sessions if one.idle), key=lambda one: one.used_at, default=None)
        if oldest is not None:
            self.end(oldest)
        return oldest is not None

    def find(self, name: str, context: CallContext, again: ContextNow) -> Session | None:
        """A session by its id; None for everybody but its owner, as for one that there never was."""
        session, now = self._sessions.get(name), self._clock.monotonic()
        if session is None or session.owner != owner_of(context):
            return None
        if now - session.used_at > IDLE and session.idle:
            self.end(session)
            return None
        session.used_at, session.again = now, again
        return session

    def end(self, session: Session) -> None:
        """End a session, with all that is under way in it."""
        if self._sessions.pop(session.id, None) is None:
            return
        theirs = self._of[session.owner]
        del theirs[session.id]
        if not theirs:
            del self._of[session.owner]
        session.close()

    def sweep(self) -> None:
        """End those that nobody has used for a while."""
        self._swept_at = self._clock.monotonic()
        since = self._swept_at - IDLE
        for session in [one for one in self._sessions.values() if one.used_at < since and one.idle]:
            self.end(session)

    def all(self) -> tuple[Session, ...]:
        return tuple(self._sessions.values())

    def close(self) -> None:
        for session in self.all():
            self.end(session)
