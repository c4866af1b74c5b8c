"""Identities from an OIDC provider: signing people in, and verifying holders of access tokens."""

from __future__ import annotations

from paddock.config.oidc_settings import OidcSettings
from paddock.core.action import Action
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
    """Admits principals that an identity provider authenticated, according to the settings.

    Args:
        database: Holds people.
        vault: Holds the client secret for the provider.
        credentials: Invalidated when a principal's rights change.
        oidc: The tenant, and whether unknown people are added.
        clock, random: For sessions and records.
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
        """Return the host's client secret at the provider; None for a public client.

        Raises:
            Unreachable: the settings name a secret that is not set.
            HostError: it cannot be decrypted.
        """
        name = self._secret_name
        if name is None:
            return None
        secret = await self._vault.get(self._tenant, None, name, (SecretScope.SYSTEM,))
        if secret is None:
            raise Unreachable(
                "the client secret for the identity provider is not set",
                code="oidc.no_secret",
                action=Action.of("secret.set", name=name, tenant=self._tenant),
            )
        return secret.value

    async def sign_in(self, profile: SignInProfile) -> tuple[ConsoleSession, Secret]:
        """Open a session for a person authenticated by the provider. A refusal is recorded too.

        Raises:
            Denied: no person here has that identity, or they may not act.
        """

        def open_for(change: AuditedTransaction) -> tuple[ConsoleSession, Secret]:
            person = sign_in_person(change, profile, create=self._create_unknown)
            return open_session(change, person.name, self._random, via="oidc")

        try:
            opened = await self._database.write(lambda tx: open_for(self._begin_change(tx)))
        except Denied as error:
            await self.record_refusal(profile.identity.issuer, profile.name, error.error_code)
            raise
        self._credentials.invalidate()
        return opened

    async def record_refusal(self, issuer: str, name: str | None, reason: str) -> None:
        """Record that a principal authenticated by the provider was refused."""
        event = SignInRefused(issuer, None if name is None else f"user:{name}", reason)
        await self._database.write(lambda tx: self._publisher(tx).publish(event))

    async def verify_token_holder(
        self, token: str, identity: ExternalIdentity, name: str | None, roles: frozenset[str], scopes: frozenset[str]
    ) -> Principal:
        """Return the principal of a validated access token with these claims.

        Raises:
            Denied: `auth.refused`, there is none that may act.
        """
        return await self._credentials.verify_access_token(
            token, lambda tx: find_token_principal(tx, self._tenant, identity, name, roles, scopes)
        )

    def _begin_change(self, tx: Transaction) -> AuditedTransaction:
        return AuditedTransaction(tx, self._tenant, OIDC_PRINCIPAL, self._clock.now().isoformat(), self._publisher(tx))

    def _publisher(self, tx: Transaction) -> EventSink:
        return TransactionLedger(tx, self._clock, self._random, self._tenant, by=OIDC_PRINCIPAL)
