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
from paddock.host.sign_ins import SignIns
from paddock.http.auth import Caller
from paddock.http.oidc.provider import Provider
from paddock.http.oidc.tokens import SKEW, BadToken, check_access_token, scopes_of
from paddock.http.oidc.vouched import granted, identity, name_in_token, scope_for
from paddock.principals.identities import Identity

CHECKED_AGAIN: Final = 300.0
"""Seconds after which a token's signature is checked again: its key may not be the provider's any more."""

_MOST_KEPT = 10_000
_REASONS: Mapping[str, str] = {
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
class _Checked:
    """What a token says, once it was checked."""

    until: float  # seconds since the epoch
    identity: Identity
    name: str | None
    roles: frozenset[str]
    scopes: frozenset[str]


class TokenBearer:
    """Takes the provider's access tokens.

    Args:
        provider: Whose they are.
        sign_ins: Who their people are here.
        oidc: What their scopes mean.
        resource: What this host is called where somebody asks for a token for it.
        clock: Whether they are of now.
    """

    def __init__(self, provider: Provider, sign_ins: SignIns, oidc: OidcSettings, resource: str, clock: Clock) -> None:
        self._provider = provider
        self._sign_ins = sign_ins
        self._oidc = oidc
        self._needed = oidc.required_scope
        self._resource = resource
        self._clock = clock
        self._checked: dict[bytes, _Checked] = {}

    async def caller(self, token: str, scope: Scope) -> Caller | None:
        """Whoever holds the token.

        Raises:
            Denied: `auth.refused`, it proves nobody; `sign_in.not_allowed`, it says that they are not let in.
            InsufficientScope: it lacks the scope that every token needs.
            Unreachable: the provider's keys cannot be had.
        """
        del scope
        if token.startswith("pdk_"):
            return None
        said = await self._read(token)
        holder = await self._sign_ins.holder(token, said.identity, said.name, said.roles, said.scopes)
        return Caller(holder, None, "token")

    async def _read(self, token: str) -> _Checked:
        name, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.now().timestamp()
        known = self._checked.get(name)
        if known is None or known.until <= now:
            known = self._meant(await self._claims(token, now), now)
            if len(self._checked) >= _MOST_KEPT:
                self._checked.clear()
            self._checked[name] = known
        return known

    async def _claims(self, token: str, now: float) -> dict[str, Any]:
        try:
            head, claims = await self._provider.claims(token)
            check_access_token(claims, head, self._provider.issuer, self._resource, now)
        except BadToken as error:
            why = _REASONS.get(error.reason, "it is no signed token of the provider")
            raise Denied(
                f"this token is not taken here: {why}",
                code="auth.refused",
                hint=f"ask the provider for a signed access token (JWT) for {self._resource}, or bring an API key",
                details={"reason": error.reason},
            ) from None
        return claims

    def _meant(self, claims: Mapping[str, Any], now: float) -> _Checked:
        scopes, needed = scopes_of(claims), self._needed
        if needed is not None and needed not in scopes:
            raise InsufficientScope(
                f"this token lacks the scope {needed}",
                hint="ask the provider for a token with it",
                details={"scope": needed},
            )
        until = min(float(claims["exp"]) + SKEW, now + CHECKED_AGAIN)
        return _Checked(until, identity(claims), name_in_token(claims, self._oidc), *granted(scopes, self._oidc))


def wider_scope(error: PaddockError, oidc: OidcSettings) -> str | None:
    """The OAuth scopes that a token would need for what was refused with this error; None where none would help."""
    if isinstance(error, InsufficientScope):
        return str(error.details["scope"])
    if error.error_code != "permission_denied":
        return None
    theirs = [scope_for(str(ours), oidc) for ours in error.details.get("missing", ())]
    return " ".join(one for one in theirs if one is not None) if theirs and None not in theirs else None
