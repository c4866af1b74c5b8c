"""Interpretation of a provider's claims: person, roles, groups, and whether sign-in is allowed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from paddock.config.oidc_settings import OidcSettings, parse_pairs
from paddock.core.errors import Denied, OperatorError
from paddock.principals.identities import ExternalIdentity, SignInProfile
from paddock.principals.name_rules import validate_name

ROLE_PREFIX: Final = "role:"
"""Prefix of a role in the values of `oidc.token_scopes`."""

_EMAIL_CLAIMS = frozenset({"email", "email_verified"})
_MAX_DISPLAY_NAME_CHARS = 200


def sign_in_profile(claims: Mapping[str, Any], oidc: OidcSettings) -> SignInProfile:
    """Return the profile that verified claims describe.

    Raises:
        Denied: the settings do not allow this person to sign in.
    """
    provider_groups = _groups_in_claims(claims, oidc)
    _check_allowed(claims, provider_groups, oidc)
    roles, groups = parse_pairs(oidc.roles), parse_pairs(oidc.groups)
    return SignInProfile(
        identity_from_claims(claims),
        person_name(claims, oidc),
        _display_name(claims),
        frozenset(name for group, name in roles if group in provider_groups),
        frozenset(name for _, name in roles),
        frozenset(name for group, name in groups if group in provider_groups),
        frozenset(name for _, name in groups),
    )


def identity_from_claims(claims: Mapping[str, Any]) -> ExternalIdentity:
    """Return the issuer and subject of the claims."""
    return ExternalIdentity(claims["iss"], claims["sub"])


def person_name(claims: Mapping[str, Any], oidc: OidcSettings) -> str | None:
    """Return the person's name from the configured claim; None if it is missing, invalid or an unverified e-mail."""
    value = claims.get(oidc.name_claim)
    if not isinstance(value, str) or (oidc.name_claim == "email" and not _email_is_verified(claims)):
        return None
    try:
        return validate_name("person", value.lower())
    except OperatorError:
        return None


def person_name_in_token(claims: Mapping[str, Any], oidc: OidcSettings) -> str | None:
    """Return the person's name from an access token; None if it lacks the claims that prove that they are allowed.

    Access tokens often carry fewer claims than ID tokens. A person who has signed in before, or was linked by hand, is
    found by their subject and needs no name.

    Raises:
        Denied: the claims show that this person is not allowed.
    """
    needed = {*(_EMAIL_CLAIMS if oidc.allowed_domains else ()), *((oidc.groups_claim,) if oidc.allowed_groups else ())}
    if not claims.keys() >= needed:
        return None
    _check_allowed(claims, _groups_in_claims(claims, oidc), oidc)
    return person_name(claims, oidc)


def needs_userinfo(claims: Mapping[str, Any], oidc: OidcSettings) -> bool:
    """Return whether the userinfo endpoint must be asked because the ID token lacks a needed claim."""
    needed = [oidc.name_claim]
    if oidc.allowed_domains or oidc.name_claim == "email":
        needed += _EMAIL_CLAIMS
    if oidc.allowed_groups or oidc.roles or oidc.groups:
        needed.append(oidc.groups_claim)
    return any(name not in claims for name in needed)


def merge_claims(claims: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the claims of ID token and userinfo; the signed claims take precedence.

    `email` and `email_verified` come from the same source: mixed, they could speak of two different addresses.
    """
    incomplete = claims.keys() & _EMAIL_CLAIMS if not claims.keys() >= _EMAIL_CLAIMS else frozenset[str]()
    return {**userinfo, **{name: value for name, value in claims.items() if name not in incomplete}}


def granted_rights(scopes: frozenset[str], oidc: OidcSettings) -> tuple[frozenset[str], frozenset[str]]:
    """Map the OAuth scopes of a token to roles and scopes of this host."""
    rights = {right for oauth_scope, right in parse_pairs(oidc.token_scopes) if oauth_scope in scopes}
    roles = {right for right in rights if right.startswith(ROLE_PREFIX)}
    return frozenset(role.removeprefix(ROLE_PREFIX) for role in roles), frozenset(rights - roles)


def oauth_scope_for(scope: str, oidc: OidcSettings) -> str | None:
    """Return the OAuth scope that grants one of our scopes; None if none does."""
    return next((oauth_scope for oauth_scope, granted in parse_pairs(oidc.token_scopes) if granted == scope), None)


def supported_scopes(oidc: OidcSettings) -> list[str]:
    """List every OAuth scope that has a meaning here."""
    scopes = [oidc.required_scope, *(oauth_scope for oauth_scope, _ in parse_pairs(oidc.token_scopes))]
    return list(dict.fromkeys(scope for scope in scopes if scope is not None))


def _check_allowed(claims: Mapping[str, Any], provider_groups: frozenset[str], oidc: OidcSettings) -> None:
    if oidc.allowed_domains:
        email = claims.get("email")
        domain = email.rpartition("@")[2].lower() if isinstance(email, str) else ""
        if domain not in oidc.allowed_domains or not _email_is_verified(claims):
            raise _not_allowed_error("people with your address")
    if oidc.allowed_groups and not provider_groups.intersection(oidc.allowed_groups):
        raise _not_allowed_error("people of your groups")


def _not_allowed_error(people: str) -> Denied:
    return Denied(
        f"{people} are not let in here", code="sign_in.not_allowed", hint="ask an operator of this host for access"
    )


def _email_is_verified(claims: Mapping[str, Any]) -> bool:
    return claims.get("email_verified") is True


def _groups_in_claims(claims: Mapping[str, Any], oidc: OidcSettings) -> frozenset[str]:
    value = claims.get(oidc.groups_claim)
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return frozenset(item for item in items if isinstance(item, str))


def _display_name(claims: Mapping[str, Any]) -> str:
    value = claims.get("name")
    return value[:_MAX_DISPLAY_NAME_CHARS] if isinstance(value, str) and value.isprintable() else ""
