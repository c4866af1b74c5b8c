"""Console sign-in: login links, sessions, and signing out."""

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
    """Signs people in to the console and out.

    Args:
        database: Holds sessions and links.
        credentials: Invalidated at each sign-out.
        clock, random: For tokens and expiry times.
    """

    def __init__(self, database: Database, credentials: CredentialVerifier, clock: Clock, random: Random) -> None:
        self._database = database
        self._credentials = credentials
        self._clock = clock
        self._random = random

    async def create_first_link(self, operator: str) -> tuple[LoginLink, Secret] | None:
        """Create a link for the operator of this host if nobody ever signed in: the first start prints it."""
        operator_id = PrincipalId(f"local:{operator}")

        def create(tx: Transaction) -> tuple[LoginLink, Secret] | None:
            if has_ever_signed_in(tx):
                return None
            return make_link(self._begin_change(tx, DEFAULT_TENANT, operator_id), operator_id, self._random)

        return await self._database.write(create)

    async def require_valid_link(self, token: str) -> LoginLink:
        """Return a valid link without consuming it.

        Raises:
            Denied: `auth.link_refused`, it is invalid.
        """
        link = await self._database.read(lambda tx: find_link(tx, token))
        if link is None or link.used_at is not None or link.expires_at <= self._clock.now().isoformat():
            raise invalid_link_error()
        return link

    async def sign_in(self, token: str) -> tuple[ConsoleSession, Secret]:
        """Consume a link, and return the session that it opens, with its token.

        Raises:
            Denied: `auth.link_refused`, the link is invalid.
        """

        def consume(tx: Transaction) -> tuple[ConsoleSession, Secret] | None:
            link = find_link(tx, token)
            if link is None:
                return None
            change = self._begin_change(tx, link.tenant, link.subject)
            return None if consume_link(change, link) else open_session(change, link.subject, self._random, via="link")

        # Unknown links are neither recorded nor given a write transaction: anybody may send them.
        known = await self._database.read(lambda tx: find_link(tx, token)) is not None
        opened = await self._database.write(consume) if known else None
        if opened is None:
            raise invalid_link_error()
        return opened

    async def sign_out(self, token: str) -> None:
        """End the session of a token. Does nothing, and writes nothing, if it has ended or does not exist."""

        def end(tx: Transaction) -> None:
            session = find_session(tx, token, self._clock.now())
            if session is not None:
                end_session(self._begin_change(tx, session.tenant, session.subject), session.id)

        if await self._database.read(lambda tx: find_session(tx, token, self._clock.now())) is not None:
            await self._database.write(end)
            self._credentials.invalidate()

    async def list_sessions(self, principal: Principal) -> list[ConsoleSession]:
        """List the sessions of a person."""
        now = self._clock.now()
        return await self._database.read(lambda tx: list_sessions(tx, principal.tenant, now, principal.id))

    async def get_session(self, token: str) -> ConsoleSession | None:
        """Return the session of a token, if it is valid."""
        return await self._database.read(lambda tx: find_session(tx, token, self._clock.now()))

    async def sign_out_everywhere(self, principal: Principal) -> list[ConsoleSession]:
        """End all sessions of a person, and void the links that would sign them in."""

        def end_all(tx: Transaction) -> list[ConsoleSession]:
            change = self._begin_change(tx, principal.tenant, principal.id)
            void_links_for(change, principal.id)
            return end_all_sessions(change, principal.id)

        ended = await self._database.write(end_all)
        self._credentials.invalidate()
        return ended

    async def sign_out_session(self, principal: Principal, session_id: str) -> ConsoleSession:
        """End one session of a person.

        Raises:
            NotFound: they have no such session.
        """
        ended = await self._database.write(
            lambda tx: end_session(self._begin_change(tx, principal.tenant, principal.id), session_id, principal.id)
        )
        self._credentials.invalidate()
        return ended

    def _begin_change(self, tx: Transaction, tenant: Tenant, by: PrincipalId) -> AuditedTransaction:
        ledger = TransactionLedger(tx, self._clock, self._random, tenant, by=by)
        return AuditedTransaction(tx, tenant, by, self._clock.now().isoformat(), ledger)
