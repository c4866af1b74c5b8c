"""Access tokens of the identity provider, as programs bring them (OAuth for MCP; RFC 6750, 8707, 9068, 9728).

A token is taken where it was given out for this host and no other. It ends here: nothing that a plugin or a server
behind this host gets is made of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
"""Seconds after which a token's signature is checked again: its key may not be the provider's any more."""

_MAX_CACHED_TOKENS = 10_000
_REASON_TEXT: Mapping[str, str] = {
    "audience": "it was given out for another one",
    "issuer": "it was given out by another provider",
    "expired": "it has expired",
    "not_yet_valid": "its time has not come",
    "type": "it is no access token, which the provider gives out beside it",
}


class InsufficientScope(Denied):
    """The token is good, and not for this."""

    code = "auth.insufficient_scope"


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """What a token says, once it was checked."""

    valid_until: float  # seconds since the epoch
    identity: ExternalIdentity
    name: str | None
    roles: frozenset[str]
    scopes: frozenset[str]


class AccessTokenAuthenticator:
    """Takes the provider's access tokens.

    Args:
        provider: Whose they are.
        sign_ins: Who their people are here.
        oidc: What their scopes mean.
        resource: What this host is called where somebody asks for a token for it.
        clock: Whether they are of now.
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
        """Whoever holds the token.

        Raises:
            Denied: `auth.refused`, it proves nobody; `sign_in.not_allowed`, it says that they are not let in.
            InsufficientScope: it lacks the scope that every token needs.
            Unreachable: the provider's keys cannot be had.
        """
        del scope
        if token.startswith("pdk_"):
            return None
        said = await self._verify_cached(token)
        holder = await self._sign_ins.verify_token_holder(token, said.identity, said.name, said.roles, said.scopes)
        return Caller(holder, None, "token")

    async def _verify_cached(self, token: str) -> _VerifiedToken:
        name, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.now().timestamp()
        known = self._checked.get(name)
        if known is None or known.valid_until <= now:
            known = self._interpret_claims(await self._verify_claims(token, now), now)
            if len(self._checked) >= _MAX_CACHED_TOKENS:
                self._checked.clear()
            self._checked[name] = known
        return known

    async def _verify_claims(self, token: str, now: float) -> dict[str, Any]:
        try:
            head, claims = await self._provider.verify_token(token)
            check_access_token(claims, head, self._provider.issuer, self._resource, now)
        except InvalidToken as error:
            why = _REASON_TEXT.get(error.reason, "it is no signed token of the provider")
            raise Denied(
                f"this token is not taken here: {why}",
                code="auth.refused",
                hint=f"ask the provider for a signed access token (JWT) for {self._resource}, or bring an API key",
                details={"reason": error.reason},
            ) from None
        return claims

    def _interpret_claims(self, claims: Mapping[str, Any], now: float) -> _VerifiedToken:
        scopes, needed = scopes_in_claims(claims), self._required_scope
        if needed is not None and needed not in scopes:
            raise InsufficientScope(
                f"this token lacks the scope {needed}",
                hint="ask the provider for a token with it",
                details={"scope": needed},
            )
        until = min(float(claims["exp"]) + CLOCK_SKEW_S, now + REVALIDATE_AFTER_S)
        return _VerifiedToken(
            until,
            identity_from_claims(claims),
            person_name_in_token(claims, self._oidc),
            *granted_rights(scopes, self._oidc),
        )


def missing_scopes(error: PaddockError, oidc: OidcSettings) -> str | None:
    """The OAuth scopes that a token would need for what was refused with this error; None where none would help."""
    if isinstance(error, InsufficientScope):
        return str(error.details["scope"])
    if error.error_code != "permission_denied":
        return None
    theirs = [oauth_scope_for(str(ours), oidc) for ours in error.details.get("missing", ())]
    return " ".join(one for one in theirs if one is not None) if theirs and None not in theirs else None
