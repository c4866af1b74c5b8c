"""Authentication with access tokens of the identity provider (OAuth for MCP; RFC 6750, 8707, 9068, 9728).

A token is accepted only if its audience is this host. It is never passed on: no credential that a plugin or an
upstream server receives is derived from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from starlette.types import Scope

from paddock.config.oidc_settings import OidcSettings
from paddock.core.clock import Clock
from paddock.core.errors import Denied, PaddockError
from paddock.host.identity.oidc import OidcIdentities
from paddock.principals.identities import ExternalIdentity
from paddock.web.oidc.claims import granted_rights, identity_from_claims, oauth_scope_for, person_name_in_token
from paddock.web.oidc.provider import IdentityProvider
from paddock.web.oidc.tokens import CLOCK_SKEW_S, InvalidToken, check_access_token, scopes_in_claims
from paddock.web.security.authenticate import Caller

REVALIDATE_AFTER_S: Final = 300.0
"""After this time a token's signature is verified again: the provider may have withdrawn its key."""

_MAX_CACHED_TOKENS = 10_000
_REASON_TEXT: Mapping[str, str] = {
    "audience": "it was given out for another one",
    "issuer": "it was given out by another provider",
    "expired": "it has expired",
    "not_yet_valid": "its time has not come",
    "type": "it is no access token, which the provider gives out beside it",
}


class InsufficientScope(Denied):
    """The token is valid but lacks a scope."""

    code = "auth.insufficient_scope"


class _VerifiedToken(Struct, frozen=True):
    """The contents of a verified token."""

    valid_until: float  # seconds since the epoch
    identity: ExternalIdentity
    name: str | None
    roles: frozenset[str]
    scopes: frozenset[str]


class AccessTokenAuthenticator:
    """Authenticates callers by the provider's access tokens.

    Args:
        provider: The provider that issues the tokens.
        sign_ins: Maps external identities to principals.
        oidc: Maps OAuth scopes to roles and scopes of this host.
        resource: The audience (resource identifier) of this host.
        clock: For expiry checks.
    """

    def __init__(
        self, provider: IdentityProvider, sign_ins: OidcIdentities, oidc: OidcSettings, resource: str, clock: Clock
    ) -> None:
        self._provider = provider
        self._sign_ins = sign_ins
        self._oidc = oidc
        self._required_scope = oidc.required_scope
        self._resource = resource
        self._clock = clock
        self._checked: dict[bytes, _VerifiedToken] = {}

    async def authenticate(self, token: str, scope: Scope) -> Caller | None:
        """Return the caller that holds the token; None if it is an API key.

        Raises:
            Denied: `auth.refused`, the token is invalid; `sign_in.not_allowed`, its claims exclude the holder.
            InsufficientScope: it lacks the scope that every token needs.
            Unreachable: the provider's keys cannot be fetched.
        """
        del scope
        if token.startswith("pdk_"):
            return None
        verified = await self._verify_cached(token)
        holder = await self._sign_ins.verify_token_holder(
            token, verified.identity, verified.name, verified.roles, verified.scopes
        )
        return Caller(holder, None, "token")

    async def _verify_cached(self, token: str) -> _VerifiedToken:
        token_hash, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.now().timestamp()
        verified = self._checked.get(token_hash)
        if verified is None or verified.valid_until <= now:
            verified = self._interpret_claims(await self._verify_claims(token, now), now)
            if len(self._checked) >= _MAX_CACHED_TOKENS:
                self._checked.clear()
            self._checked[token_hash] = verified
        return verified

    async def _verify_claims(self, token: str, now: float) -> dict[str, Any]:
        try:
            header, claims = await self._provider.verify_token(token)
            check_access_token(claims, header, self._provider.issuer, self._resource, now)
        except InvalidToken as error:
            reason_text = _REASON_TEXT.get(error.reason, "it is no signed token of the provider")
            raise Denied(
                f"invalid token: {reason_text}",
                code="auth.refused",
                hint=f"ask the provider for a signed access token (JWT) for {self._resource}, or bring an API key",
                details={"reason": error.reason},
            ) from None
        return claims

    def _interpret_claims(self, claims: Mapping[str, Any], now: float) -> _VerifiedToken:
        scopes, required = scopes_in_claims(claims), self._required_scope
        if required is not None and required not in scopes:
            raise InsufficientScope(
                f"this token lacks the scope {required}",
                hint="ask the provider for a token with it",
                details={"scope": required},
            )
        valid_until = min(float(claims["exp"]) + CLOCK_SKEW_S, now + REVALIDATE_AFTER_S)
        return _VerifiedToken(
            valid_until,
            identity_from_claims(claims),
            person_name_in_token(claims, self._oidc),
            *granted_rights(scopes, self._oidc),
        )


def missing_scopes(error: PaddockError, oidc: OidcSettings) -> str | None:
    """Return the OAuth scopes that a token lacks for the denied request; None if no scope would help."""
    if isinstance(error, InsufficientScope):
        return str(error.details["scope"])
    if error.error_code != "permission_denied":
        return None
    oauth_scopes = [oauth_scope_for(str(scope), oidc) for scope in error.details.get("missing", ())]
    return (
        " ".join(scope for scope in oauth_scopes if scope is not None)
        if oauth_scopes and None not in oauth_scopes
        else None
    )
