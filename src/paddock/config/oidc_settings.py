"""The settings of signing in with an identity provider. Rows of the table in `settings.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from paddock.config.addresses import check_web_address
from paddock.config.setting import Kind, row
from paddock.core.printable import printable

_LOOPBACK = re.compile(r"http://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?(/|$)")
_PAIR = re.compile(r"\S(.*\S)?=[^=\s]+")  # their names may have spaces and equal signs in them, ours have not


def check_issuer(value: str | None) -> str | None:
    """A complaint when this cannot be an issuer: whoever could change what it says could sign in as anybody."""
    if value is None:
        return None
    if complaint := check_web_address(value):
        return complaint
    if not value.startswith("https://") and not _LOOPBACK.match(value):
        return f"{printable(value)} is neither https:// nor on this machine"
    return f"{printable(value)} has a query or fragment, which no issuer has" if "?" in value or "#" in value else None


def check_pairs(value: Sequence[str]) -> str | None:
    """A complaint when one of these is not `theirs=ours`."""
    wrong = [pair for pair in value if not _PAIR.fullmatch(pair)]
    return f"not written as theirs=ours: {', '.join(printable(pair) for pair in wrong)}" if wrong else None


def pairs(value: Sequence[str]) -> list[tuple[str, str]]:
    """Each `theirs=ours` as two words."""
    return [(theirs, ours) for theirs, _, ours in (pair.rpartition("=") for pair in value)]


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Signing in with an identity provider (OpenID Connect), and taking its access tokens."""

    issuer: str | None = row(
        None,
        "The identity provider, exactly as it calls itself, such as `https://login.example.org`; `http://` only on "
        "this machine. Needs `http.public_url`. Unset: nobody signs in through one, and no token of one is taken.",
        kind=Kind.TEXT,
        check=check_issuer,
    )
    client_id: str | None = row(
        None,
        "What this host is called at the provider. Unset: nobody signs in, and access tokens are still taken.",
        kind=Kind.TEXT,
    )
    client_secret: str | None = row(
        None,
        "The name of a secret that holds the client's secret, as in `paddock secret set oidc-client`. Never the secret "
        "itself. Unset: a public client, which proves itself by PKCE alone.",
        kind=Kind.TEXT,
    )
    scopes: str = row(
        "openid email profile",
        "What is asked of the provider about somebody who signs in, with spaces between.",
        kind=Kind.TEXT,
    )
    tenant: str = row(
        "default",
        "The tenant whose people sign in through it.",
        kind=Kind.TEXT,
    )
    name_claim: str = row(
        "email",
        "The claim that says which person it is, in small letters. It must be one that people cannot choose for "
        "themselves at the provider; `email` counts only where the provider has verified it.",
        kind=Kind.TEXT,
    )
    create: bool = row(
        False,
        "Whether somebody whom nobody added is added when they first sign in, as a member. Needs "
        "`oidc.allowed_domains` or `oidc.allowed_groups`. Otherwise they are refused.",
        kind=Kind.BOOLEAN,
    )
    allowed_domains: tuple[str, ...] = row(
        (),
        "Only people with a verified address in one of these domains. Empty: of any.",
        kind=Kind.NAMES,
    )
    groups_claim: str = row(
        "groups",
        "The claim that lists somebody's groups at the provider.",
        kind=Kind.TEXT,
    )
    allowed_groups: tuple[str, ...] = row(
        (),
        "Only people in one of these groups of the provider. Empty: in any or none.",
        kind=Kind.WORDS,
    )
    roles: tuple[str, ...] = row(
        (),
        "Roles that groups of the provider give, as in `admins=operator`. At every sign-in somebody gets those of "
        "their groups and loses the others that are named here; roles that are not named here stay as you set them.",
        kind=Kind.WORDS,
        check=check_pairs,
    )
    groups: tuple[str, ...] = row(
        (),
        "Groups of this host that groups of the provider put somebody in, as in `Nights=night-shift`. Kept like "
        "`oidc.roles`.",
        kind=Kind.WORDS,
        check=check_pairs,
    )
    required_scope: str | None = row(
        None,
        "The OAuth scope that an access token needs to be taken at all. Unset: none.",
        kind=Kind.TEXT,
    )
    token_scopes: tuple[str, ...] = row(
        (),
        "What OAuth scopes of an access token stand for here, as in `mail=email:send` for a scope and "
        "`ops=role:operator` for a role. A token never has more than its person, and without this no scope, and "
        "neither the role operator nor approver.",
        kind=Kind.WORDS,
        check=check_pairs,
    )
