"""Settings for signing in with an identity provider (OpenID Connect)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from paddock.config.setting_spec import SettingKind, setting
from paddock.config.validators import check_web_address
from paddock.core.printable import printable

_LOOPBACK = re.compile(r"http://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?(/|$)")
_PAIR = re.compile(r"\S(.*\S)?=[^=\s]+")  # their names may contain spaces and equals signs, ours may not


def check_issuer(value: str | None) -> str | None:
    """Why this cannot be an issuer, or None. Control of the issuer's responses would allow signing in as any person."""
    if value is None:
        return None
    if problem := check_web_address(value):
        return problem
    if not value.startswith("https://") and not _LOOPBACK.match(value):
        return f"{printable(value)} is neither https:// nor on this machine"
    return f"{printable(value)} has a query or fragment, which no issuer has" if "?" in value or "#" in value else None


def check_pairs(value: Sequence[str]) -> str | None:
    """Why one of these is not `theirs=ours`, or None."""
    wrong = [pair for pair in value if not _PAIR.fullmatch(pair)]
    return f"not written as theirs=ours: {', '.join(printable(pair) for pair in wrong)}" if wrong else None


def parse_pairs(value: Sequence[str]) -> list[tuple[str, str]]:
    """Split each `theirs=ours`."""
    return [(theirs, ours) for theirs, _, ours in (pair.rpartition("=") for pair in value)]


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Signing in with an identity provider (OpenID Connect), and accepting its access tokens."""

    issuer: str | None = setting(
        None,
        "The issuer identifier of the identity provider, such as `https://login.example.org`; `http://` only on this "
        "machine. Needs `http.public_url`. Unset: no sign-in through a provider, and no access tokens.",
        kind=SettingKind.TEXT,
        check=check_issuer,
    )
    client_id: str | None = setting(
        None,
        "The client id of this host at the provider. Unset: no sign-in, but access tokens are accepted.",
        kind=SettingKind.TEXT,
    )
    client_secret: str | None = setting(
        None,
        "The name of a secret that holds the client's secret, as in `paddock secret set oidc-client`. Never the secret "
        "itself. Unset: a public client, which proves itself by PKCE alone.",
        kind=SettingKind.TEXT,
    )
    scopes: str = setting(
        "openid email profile",
        "The OAuth scopes that are requested at sign-in, separated by spaces.",
        kind=SettingKind.TEXT,
    )
    tenant: str = setting(
        "default",
        "The tenant whose people sign in through it.",
        kind=SettingKind.TEXT,
    )
    name_claim: str = setting(
        "email",
        "The claim that says which person it is, in small letters. It must be one that people cannot choose for "
        "themselves at the provider; `email` counts only where the provider has verified it.",
        kind=SettingKind.TEXT,
    )
    create: bool = setting(
        False,
        "Whether an unknown person is added as a member at their first sign-in. Needs `oidc.allowed_domains` or "
        "`oidc.allowed_groups`. If false, unknown people are refused.",
        kind=SettingKind.BOOLEAN,
    )
    allowed_domains: tuple[str, ...] = setting(
        (),
        "Only people with a verified address in one of these domains. Empty: of any.",
        kind=SettingKind.NAMES,
    )
    groups_claim: str = setting(
        "groups",
        "The claim that lists a person's groups at the provider.",
        kind=SettingKind.TEXT,
    )
    allowed_groups: tuple[str, ...] = setting(
        (),
        "Only people in one of these groups of the provider. Empty: in any or none.",
        kind=SettingKind.WORDS,
    )
    roles: tuple[str, ...] = setting(
        (),
        "Roles for groups of the provider, as in `admins=operator`. Each sign-in adds the roles of the person's groups "
        "and removes the others that are listed here; roles that are not listed here stay as you set them.",
        kind=SettingKind.WORDS,
        check=check_pairs,
    )
    groups: tuple[str, ...] = setting(
        (),
        "Groups of this host for groups of the provider, as in `Nights=night-shift`. Updated like `oidc.roles`.",
        kind=SettingKind.WORDS,
        check=check_pairs,
    )
    required_scope: str | None = setting(
        None,
        "The OAuth scope that an access token needs to be taken at all. Unset: none.",
        kind=SettingKind.TEXT,
    )
    token_scopes: tuple[str, ...] = setting(
        (),
        "What OAuth scopes of an access token stand for here, as in `mail=email:send` for a scope and "
        "`ops=role:operator` for a role. A token never has more than its person, and without this no scope, and "
        "neither the role operator nor approver.",
        kind=SettingKind.WORDS,
        check=check_pairs,
    )
