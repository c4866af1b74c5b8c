"""People and programs whom an identity provider vouches for: who they are here, and the session that they get."""

from __future__ import annotations

from paddock.config.oidc_settings import OidcSettings
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Denied, Unreachable
from paddock.core.events.event import EventSink
from paddock.core.events.principals import SignInRefused
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.identity.credentials import CredentialVerifier
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.identities import (
    OIDC_PRINCIPAL,
    ExternalIdentity,
    SignInProfile,
    find_token_principal,
    sign_in_person,
)
from paddock.principals.sessions import ConsoleSession, open_session
from paddock.secrets.requirements import SecretScope
from paddock.secrets.vault import Vault
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Database
from paddock.store.transaction import Transaction


class OidcIdentities:
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
        credentials: CredentialVerifier,
        oidc: OidcSettings,
        clock: Clock,
        random: Random,
    ) -> None:
        self._database = database
        self._vault = vault
        self._credentials = credentials
        self._tenant = Tenant(oidc.tenant)
        self._create_unknown = oidc.create
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
        found = await self._vault.get(self._tenant, None, name, (SecretScope.SYSTEM,))
        if found is None:
            raise Unreachable(
                "the client's secret for the identity provider is not set",
                code="oidc.no_secret",
                hint=f"paddock secret set {name}",
            )
        return found.value

    async def sign_in(self, arrival: SignInProfile) -> tuple[ConsoleSession, Secret]:
        """A session for somebody whom the provider vouches for. That they were refused is recorded too.

        Raises:
            Denied: nobody here is that person, or they may not act.
        """

        def unit(change: AuditedTransaction) -> tuple[ConsoleSession, Secret]:
            person = sign_in_person(change, arrival, create=self._create_unknown)
            return open_session(change, person.name, self._random, via="oidc")

        try:
            opened = await self._database.write(lambda tx: unit(self._begin_change(tx)))
        except Denied as error:
            await self.record_refusal(arrival.identity.issuer, arrival.name, error.error_code)
            raise
        self._credentials.invalidate()
        return opened

    async def record_refusal(self, issuer: str, name: str | None, reason: str) -> None:
        """Record that somebody whom the provider vouches for is not let in."""
        event = SignInRefused(issuer, None if name is None else f"user:{name}", reason)
        await self._database.write(lambda tx: self._publisher(tx).publish(event))

    async def verify_token_holder(
        self, token: str, identity: ExternalIdentity, name: str | None, roles: frozenset[str], scopes: frozenset[str]
    ) -> Principal:
        """Who acts with an access token that was checked, and that says this of its person and of itself.

        Raises:
            Denied: `auth.refused`, nobody who may.
        """
        return await self._credentials.verify_access_token(
            token, lambda tx: find_token_principal(tx, self._tenant, identity, name, roles, scopes)
        )

    def _begin_change(self, tx: Transaction) -> AuditedTransaction:
        return AuditedTransaction(tx, self._tenant, OIDC_PRINCIPAL, self._clock.now().isoformat(), self._publisher(tx))

    def _publisher(self, tx: Transaction) -> EventSink:
        return TransactionLedger(tx, self._clock, self._random, self._tenant, by=OIDC_PRINCIPAL)
