"""What a provider's claims mean here: which person, which roles and groups, and whether they are let in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from paddock.config.oidc_settings import OidcSettings, parse_pairs
from paddock.core.errors import Denied, OperatorError
from paddock.principals.identities import ExternalIdentity, SignInProfile
from paddock.principals.name_rules import validate_name

ROLE_PREFIX: Final = "role:"
"""How a word of `oidc.token_scopes` begins that stands for a role."""

_EMAIL_CLAIMS = frozenset({"email", "email_verified"})
_MAX_DISPLAY_NAME_CHARS = 200


def sign_in_profile(claims: Mapping[str, Any], oidc: OidcSettings) -> SignInProfile:
    """Whom checked claims are about.

    Raises:
        Denied: people like them are not let in.
    """
    theirs = _groups_in_claims(claims, oidc)
    _check_allowed(claims, theirs, oidc)
    roles, groups = parse_pairs(oidc.roles), parse_pairs(oidc.groups)
    return SignInProfile(
        identity_from_claims(claims),
        person_name(claims, oidc),
        _display_name(claims),
        frozenset(ours for group, ours in roles if group in theirs),
        frozenset(ours for _, ours in roles),
        frozenset(ours for group, ours in groups if group in theirs),
        frozenset(ours for _, ours in groups),
    )


def identity_from_claims(claims: Mapping[str, Any]) -> ExternalIdentity:
    """Who it is at the provider."""
    return ExternalIdentity(claims["iss"], claims["sub"])


def person_name(claims: Mapping[str, Any], oidc: OidcSettings) -> str | None:
    """The person whom the claims name; None where they name nobody, or the provider has not verified it."""
    said = claims.get(oidc.name_claim)
    if not isinstance(said, str) or (oidc.name_claim == "email" and not _email_is_verified(claims)):
        return None
    try:
        return validate_name("person", said.lower())
    except OperatorError:
        return None


def person_name_in_token(claims: Mapping[str, Any], oidc: OidcSettings) -> str | None:
    """The same for an access token, which often says less: it names nobody where it does not say that they are let in.

    Whoever has signed in, or was linked by hand, is known by their subject and needs no name.

    Raises:
        Denied: it says that people like them are not let in.
    """
    needed = {*(_EMAIL_CLAIMS if oidc.allowed_domains else ()), *((oidc.groups_claim,) if oidc.allowed_groups else ())}
    if not claims.keys() >= needed:
        return None
    _check_allowed(claims, _groups_in_claims(claims, oidc), oidc)
    return person_name(claims, oidc)


def needs_userinfo(claims: Mapping[str, Any], oidc: OidcSettings) -> bool:
    """Whether more has to be asked about somebody than their ID token says."""
    needed = [oidc.name_claim]
    if oidc.allowed_domains or oidc.name_claim == "email":
        needed += _EMAIL_CLAIMS
    if oidc.allowed_groups or oidc.roles or oidc.groups:
        needed.append(oidc.groups_claim)
    return any(name not in claims for name in needed)


def merge_claims(claims: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What both say of somebody; where they differ the signed claims count.

    An address and whether it was verified are of one of them: of two, each could speak of another address.
    """
    apart = claims.keys() & _EMAIL_CLAIMS if not claims.keys() >= _EMAIL_CLAIMS else frozenset[str]()
    return {**more, **{name: value for name, value in claims.items() if name not in apart}}


def granted_rights(scopes: frozenset[str], oidc: OidcSettings) -> tuple[frozenset[str], frozenset[str]]:
    """What the OAuth scopes of a token stand for: roles, and scopes of ours."""
    meant = {ours for theirs, ours in parse_pairs(oidc.token_scopes) if theirs in scopes}
    roles = {word for word in meant if word.startswith(ROLE_PREFIX)}
    return frozenset(role.removeprefix(ROLE_PREFIX) for role in roles), frozenset(meant - roles)


def oauth_scope_for(ours: str, oidc: OidcSettings) -> str | None:
    """The OAuth scope that a token needs for one of ours; None where there is none."""
    return next((theirs for theirs, word in parse_pairs(oidc.token_scopes) if word == ours), None)


def supported_scopes(oidc: OidcSettings) -> list[str]:
    """Every OAuth scope that means something here."""
    known = [oidc.required_scope, *(theirs for theirs, _ in parse_pairs(oidc.token_scopes))]
    return list(dict.fromkeys(scope for scope in known if scope is not None))


def _check_allowed(claims: Mapping[str, Any], theirs: frozenset[str], oidc: OidcSettings) -> None:
    if oidc.allowed_domains:
        email = claims.get("email")
        domain = email.rpartition("@")[2].lower() if isinstance(email, str) else ""
        if domain not in oidc.allowed_domains or not _email_is_verified(claims):
            raise _not_allowed_error("people with your address")
    if oidc.allowed_groups and not theirs.intersection(oidc.allowed_groups):
        raise _not_allowed_error("people of your groups")


def _not_allowed_error(who: str) -> Denied:
    return Denied(
        f"{who} are not let in here", code="sign_in.not_allowed", hint="ask whoever operates this host to let you in"
    )


def _email_is_verified(claims: Mapping[str, Any]) -> bool:
    return claims.get("email_verified") is True


def _groups_in_claims(claims: Mapping[str, Any], oidc: OidcSettings) -> frozenset[str]:
    said = claims.get(oidc.groups_claim)
    words = cast("list[object]", said) if isinstance(said, list) else [said]
    return frozenset(word for word in words if isinstance(word, str))


def _display_name(claims: Mapping[str, Any]) -> str:
    said = claims.get("name")
    return said[:_MAX_DISPLAY_NAME_CHARS] if isinstance(said, str) and said.isprintable() else ""
