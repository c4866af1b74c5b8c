"""People at the console: signing in with a link, signing out, and who is signed in."""

from __future__ import annotations

from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.host.identity.credentials import CredentialVerifier
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.login_links import (
    LoginLink,
    consume_link,
    find_link,
    has_ever_signed_in,
    invalid_link_error,
    make_link,
    void_links_for,
)
from paddock.principals.sessions import (
    ConsoleSession,
    end_all_sessions,
    end_session,
    find_session,
    list_sessions,
    open_session,
)
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Database, Transaction


class ConsoleSessions:
    """Signs people in and out.

    Args:
        database: Where sessions and links are.
        credentials: Forgets whoever was signed out.
        clock, random: For tokens, and when they end.
    """

    def __init__(self, database: Database, credentials: CredentialVerifier, clock: Clock, random: Random) -> None:
        self._database = database
        self._credentials = credentials
        self._clock = clock
        self._random = random

    async def create_first_link(self, operator: str) -> tuple[LoginLink, Secret] | None:
        """A link for the operator of this host, where nobody ever had one: what the first start prints."""
        who = PrincipalId(f"local:{operator}")

        def unit(tx: Transaction) -> tuple[LoginLink, Secret] | None:
            if has_ever_signed_in(tx):
                return None
            return make_link(self._begin_change(tx, DEFAULT_TENANT, who), who, self._random)

        return await self._database.write(unit)

    async def require_valid_link(self, token: str) -> LoginLink:
        """Whom a link would sign in. It is not used up by that.

        Raises:
            Denied: `auth.link_refused`, nobody.
        """
        link = await self._database.read(lambda tx: find_link(tx, token))
        if link is None or link.used_at is not None or link.expires_at <= self._clock.now().isoformat():
            raise invalid_link_error()
        return link

    async def sign_in(self, token: str) -> tuple[ConsoleSession, Secret]:
        """Use a link up, and give the session that it opens, with its token.

        Raises:
            Denied: `auth.link_refused`, it is no good.
        """

        def unit(tx: Transaction) -> tuple[ConsoleSession, Secret] | None:
            link = find_link(tx, token)
            if link is None:
                return None
            change = self._begin_change(tx, link.tenant, link.subject)
            return None if consume_link(change, link) else open_session(change, link.subject, self._random, via="link")

        # Of what nobody made there is no record, nor does it take a turn to write: anybody may send it.
        known = await self._database.read(lambda tx: find_link(tx, token)) is not None
        opened = await self._database.write(unit) if known else None
        if opened is None:
            raise invalid_link_error()
        return opened

    async def sign_out(self, token: str) -> None:
        """End the session of a token. Harmless, and nothing is written, when it has ended or is none."""

        def unit(tx: Transaction) -> None:
            found = find_session(tx, token, self._clock.now())
            if found is not None:
                end_session(self._begin_change(tx, found.tenant, found.subject), found.id)

        if await self._database.read(lambda tx: find_session(tx, token, self._clock.now())) is not None:
            await self._database.write(unit)
            self._credentials.invalidate()

    async def list_sessions(self, who: Principal) -> list[ConsoleSession]:
        """Where somebody is signed in."""
        now = self._clock.now()
        return await self._database.read(lambda tx: list_sessions(tx, who.tenant, now, who.id))

    async def get_session(self, token: str) -> ConsoleSession | None:
        """The session of a token, where it is good."""
        return await self._database.read(lambda tx: find_session(tx, token, self._clock.now()))

    async def sign_out_everywhere(self, who: Principal) -> list[ConsoleSession]:
        """Sign somebody out everywhere; links that would sign them in are no good any more either."""

        def unit(tx: Transaction) -> list[ConsoleSession]:
            change = self._begin_change(tx, who.tenant, who.id)
            void_links_for(change, who.id)
            return end_all_sessions(change, who.id)

        ended = await self._database.write(unit)
        self._credentials.invalidate()
        return ended

    async def sign_out_session(self, who: Principal, session_id: str) -> ConsoleSession:
        """Sign somebody out where they are signed in.

        Raises:
            NotFound: they have no such session.
        """
        ended = await self._database.write(
            lambda tx: end_session(self._begin_change(tx, who.tenant, who.id), session_id, who.id)
        )
        self._credentials.invalidate()
        return ended

    def _begin_change(self, tx: Transaction, tenant: Tenant, by: PrincipalId) -> AuditedTransaction:
        told = TransactionLedger(tx, self._clock, self._random, tenant, by=by)
        return AuditedTransaction(tx, tenant, by, self._clock.now().isoformat(), told)
