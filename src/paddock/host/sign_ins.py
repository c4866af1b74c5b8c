"""People and programs whom an identity provider vouches for: who they are here, and the session that they get."""

from __future__ import annotations

from paddock.config.oidc_settings import OidcSettings
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Denied, Unreachable
from paddock.core.event import Publish
from paddock.core.events_principals import SignInRefused
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.credentials import Credentials
from paddock.ledger.append import LedgerTable
from paddock.principals.access_tokens import holder_of
from paddock.principals.change import Change
from paddock.principals.identities import BY_THE_PROVIDER, Arrival, Identity, arrive
from paddock.principals.sessions import Session, open_session
from paddock.secrets.declared import Scope
from paddock.secrets.vault import Vault
from paddock.store.database import Database
from paddock.store.transaction import Transaction


class SignIns:
    """Lets in whoever an identity provider vouches for, as the settings say.

    Args:
        database: Where people are.
        vault: Where this host's secret at the provider is.
        credentials: Forgets what it knew of somebody whose rights changed.
        oidc: Whose tenant, and whether unknown people are added.
        clock, random: For the session and the record.
    """

    def __init__(
        self,
        database: Database,
        vault: Vault,
        credentials: Credentials,
        oidc: OidcSettings,
        clock: Clock,
        random: Random,
    ) -> None:
        self._database = database
        self._vault = vault
        self._credentials = credentials
        self._tenant = Tenant(oidc.tenant)
        self._create = oidc.create
        self._secret_name = oidc.client_secret
        self._clock = clock
        self._random = random

    async def client_secret(self) -> Secret | None:
        """The secret that the host proves itself with at the provider; None for a public client.

        Raises:
            Unreachable: the settings name one that is not set.
            HostError: it cannot be opened.
        """
        name = self._secret_name
        if name is None:
            return None
        found = await self._vault.get(self._tenant, None, name, (Scope.SYSTEM,))
        if found is None:
            raise Unreachable(
                "the client's secret for the identity provider is not set",
                code="oidc.no_secret",
                hint=f"paddock secret set {name}",
            )
        return found.value

    async def arrive(self, arrival: Arrival) -> tuple[Session, Secret]:
        """A session for somebody whom the provider vouches for. That they were refused is recorded too.

        Raises:
            Denied: nobody here is that person, or they may not act.
        """

        def unit(change: Change) -> tuple[Session, Secret]:
            person = arrive(change, arrival, create=self._create)
            return open_session(change, person.name, self._random, via="oidc")

        try:
            opened = await self._database.write(lambda tx: unit(self._change(tx)))
        except Denied as error:
            await self.refused(arrival.identity.issuer, arrival.name, error.error_code)
            raise
        self._credentials.look_again()
        return opened

    async def refused(self, issuer: str, name: str | None, reason: str) -> None:
        """Record that somebody whom the provider vouches for is not let in."""
        event = SignInRefused(issuer, None if name is None else f"user:{name}", reason)
        await self._database.write(lambda tx: self._told(tx).publish(event))

    async def holder(
        self, token: str, identity: Identity, name: str | None, roles: frozenset[str], scopes: frozenset[str]
    ) -> Principal:
        """Who acts with an access token that was checked, and that says this of its person and of itself.

        Raises:
            Denied: `auth.refused`, nobody who may.
        """
        return await self._credentials.token(
            token, lambda tx: holder_of(tx, self._tenant, identity, name, roles, scopes)
        )

    def _change(self, tx: Transaction) -> Change:
        return Change(tx, self._tenant, BY_THE_PROVIDER, self._clock.now().isoformat(), self._told(tx))

    def _told(self, tx: Transaction) -> Publish:
        return LedgerTable(tx, self._clock, self._random, self._tenant, by=BY_THE_PROVIDER)
