"""People at the console: signing in with a link, signing out, and who is signed in."""

from __future__ import annotations

from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.host.credentials import Credentials
from paddock.ledger.append import LedgerTable
from paddock.principals.change import Change
from paddock.principals.login_links import (
    LoginLink,
    any_session_or_link,
    find_link,
    link_refused,
    make_link,
    use_link,
    void_links_of,
)
from paddock.principals.sessions import Session, end_session, end_sessions_of, find_session, open_session, sessions
from paddock.store.database import Database, Transaction


class Console:
    """Signs people in and out.

    Args:
        database: Where sessions and links are.
        credentials: Forgets whoever was signed out.
        clock, random: For tokens, and when they end.
    """

    def __init__(self, database: Database, credentials: Credentials, clock: Clock, random: Random) -> None:
        self._database = database
        self._credentials = credentials
        self._clock = clock
        self._random = random

    async def first_link(self, operator: str) -> tuple[LoginLink, Secret] | None:
        """A link for the operator of this host, where nobody ever had one: what the first start prints."""
        who = PrincipalId(f"local:{operator}")

        def unit(tx: Transaction) -> tuple[LoginLink, Secret] | None:
            if any_session_or_link(tx):
                return None
            return make_link(self._change(tx, DEFAULT_TENANT, who), who, self._random)

        return await self._database.write(unit)

    async def leads_in(self, token: str) -> LoginLink:
        """Whom a link would sign in. It is not used up by that.

        Raises:
            Denied: `auth.link_refused`, nobody.
        """
        link = await self._database.read(lambda tx: find_link(tx, token))
        if link is None or link.used_at is not None or link.expires_at <= self._clock.now().isoformat():
            raise link_refused()
        return link

    async def sign_in(self, token: str) -> tuple[Session, Secret]:
        """Use a link up, and give the session that it opens, with its token.

        Raises:
            Denied: `auth.link_refused`, it is no good.
        """

        def unit(tx: Transaction) -> tuple[Session, Secret] | None:
            link = find_link(tx, token)
            if link is None:
                return None
            change = self._change(tx, link.tenant, link.subject)
            return None if use_link(change, link) else open_session(change, link.subject, self._random, via="link")

        # Of what nobody made there is no record, nor does it take a turn to write: anybody may send it.
        known = await self._database.read(lambda tx: find_link(tx, token)) is not None
        opened = await self._database.write(unit) if known else None
        if opened is None:
            raise link_refused()
        return opened

    async def sign_out(self, token: str) -> None:
        """End the session of a token. Harmless, and nothing is written, when it has ended or is none."""

        def unit(tx: Transaction) -> None:
            found = find_session(tx, token, self._clock.now())
            if found is not None:
                end_session(self._change(tx, found.tenant, found.subject), found.id)

        if await self._database.read(lambda tx: find_session(tx, token, self._clock.now())) is not None:
            await self._database.write(unit)
            self._credentials.look_again()

    async def sessions_of(self, who: Principal) -> list[Session]:
        """Where somebody is signed in."""
        now = self._clock.now()
        return await self._database.read(lambda tx: sessions(tx, who.tenant, now, who.id))

    async def session(self, token: str) -> Session | None:
        """The session of a token, where it is good."""
        return await self._database.read(lambda tx: find_session(tx, token, self._clock.now()))

    async def end_all(self, who: Principal) -> list[Session]:
        """Sign somebody out everywhere; links that would sign them in are no good any more either."""

        def unit(tx: Transaction) -> list[Session]:
            change = self._change(tx, who.tenant, who.id)
            void_links_of(change, who.id)
            return end_sessions_of(change, who.id)

        ended = await self._database.write(unit)
        self._credentials.look_again()
        return ended

    async def end(self, who: Principal, session_id: str) -> Session:
        """Sign somebody out where they are signed in.

        Raises:
            NotFound: they have no such session.
        """
        ended = await self._database.write(
            lambda tx: end_session(self._change(tx, who.tenant, who.id), session_id, who.id)
        )
        self._credentials.look_again()
        return ended

    def _change(self, tx: Transaction, tenant: Tenant, by: PrincipalId) -> Change:
        told = LedgerTable(tx, self._clock, self._random, tenant, by=by)
        return Change(tx, tenant, by, self._clock.now().isoformat(), told)
