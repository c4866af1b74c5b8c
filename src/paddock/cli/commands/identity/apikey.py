"""`paddock apikey …`: API keys for programs that act for a person."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.store_access import (
    change_store,
    read_store,
    remove_with_approvals,
    report_change,
)
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_facts, print_json, print_message, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.principals.api_keys import ApiKey

app = PaddockGroup("apikey", help="Manage API keys for programs.")

api_key_argument = click.argument("key", metavar="KEY", help="The id of the key; not its token.")
_DURATION_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION_PATTERN = re.compile(r"([1-9][0-9]{0,4})([mhdw])")


@app.command("add", examples=["paddock apikey add ann --label mailer --role member --expires 30d"])
@click.argument("owner", metavar="PERSON", help="The person that the key acts for.")
@click.option("--label", default="", help="A label that says what it is for.")
@click.option(
    "--role",
    multiple=True,
    help="One of the owner's roles; may be repeated. [default: all except operator and approver]",
)
@click.option("--scope", multiple=True, help="One of the owner's scopes; may be repeated.")
@click.option("--expires", metavar="TIME", help="The lifetime, such as 12h, 30d or 8w. [default: unlimited]")
@options.tenant
@options.as_json
def add(
    owner: str,
    *,
    label: str,
    role: tuple[str, ...],
    scope: tuple[str, ...],
    expires: str | None,
    tenant: str,
    as_json: bool,
) -> None:
    """Add an API key, and print its token once; it is not stored. A key never has more rights than its owner."""
    from paddock.core.clock import SystemRandom
    from paddock.principals.api_keys import create_key

    expires_at = datetime.now(UTC) + _parse_duration(expires) if expires else None
    key, token = change_store(
        tenant,
        lambda change: create_key(
            change, owner, SystemRandom(), label=label, roles=role or None, scopes=scope, expires_at=expires_at
        ),
    )
    if as_json:
        print_json(_api_key_json(key) | {"token": token.reveal()})
    else:
        print_result(token.reveal())
    print_message(
        f"{styled('✓', 'green')} made the key {key.id} of {key.owner}: {_rights_text(key)}, {_expiry_text(key)}"
    )
    print_message("  keep the token now; nobody can show it again")


@app.command("list", examples=["paddock apikey list --json"])
@click.option("--user", "owner", metavar="PERSON", help="Only those of this person.")
@options.tenant
@options.as_json
def list_(*, owner: str | None, tenant: str, as_json: bool) -> None:
    """List API keys with their state and last use. Tokens are not shown."""
    from paddock.principals.api_keys import list_keys
    from paddock.principals.people import require_person
    from paddock.principals.tenants import require_tenant

    read_store(lambda tx: require_person(tx, tenant, owner) if owner else require_tenant(tx, tenant))
    rows = read_store(lambda tx: list_keys(tx, tenant, owner.removeprefix("user:") if owner else None))
    if as_json:
        print_json({"tenant": tenant, "keys": [_api_key_json(row) for row in rows]})
    elif rows:
        now = datetime.now(UTC)
        cells = [
            [row.id, row.owner, row.state(now), _rights_text(row), (row.last_used_at or "never")[:16], row.label]
            for row in rows
        ]
        for line in format_table(["KEY", "PERSON", "STATE", "MAY", "LAST USED", "LABEL"], cells):
            print_result(line)
    else:
        print_message(f"there are no keys; try: paddock apikey add PERSON{tenant_option(tenant)}")


@app.command("show", examples=["paddock apikey show KEY"])
@api_key_argument
@options.tenant
@options.as_json
def show(key: str, *, tenant: str, as_json: bool) -> None:
    """Show an API key: its owner, its roles and scopes, and when it was last used. Its token is not stored."""
    from paddock.principals.api_keys import require_key

    row = read_store(lambda tx: require_key(tx, tenant, key))
    if as_json:
        print_json(_api_key_json(row))
        return
    print_facts(
        {
            "key": row.id,
            "person": f"user:{row.owner}",
            "label": row.label,
            "state": row.state(datetime.now(UTC)),
            "may": _rights_text(row),
            "created": f"{row.created_at[:16]} by {row.created_by}",
            "expires": (row.expires_at or "never")[:16],
            "last used": (row.last_used_at or "never")[:16],
        }
    )


@app.command("remove", examples=["paddock apikey remove KEY --yes"])
@api_key_argument
@options.tenant
@options.yes
@options.as_json
def remove(key: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Revoke an API key. It takes effect at once and cannot be undone."""
    from paddock.approvals.removal import retire_key
    from paddock.cli.output.consent_prompt import confirm
    from paddock.principals.api_keys import require_key

    api_key = read_store(lambda tx: require_key(tx, tenant, key))
    description = f"{api_key.id} of {api_key.owner}" + (f" ({printable(api_key.label)})" if api_key.label else "")
    confirm(
        f"Revoke the key {description}?", yes=yes, retype=f"paddock apikey remove {api_key.id}{tenant_option(tenant)}"
    )
    row = remove_with_approvals(tenant, lambda change, unit: retire_key(change, unit, api_key.id))
    report_change(as_json, f"revoked the key {description}", **_api_key_json(row))


def _parse_duration(option: str) -> timedelta:
    match = _DURATION_PATTERN.fullmatch(option)
    if match is None:
        raise click.BadParameter("give a number and m, h, d or w, such as 12h or 30d", param_hint="--expires")
    return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})


def _rights_text(key: ApiKey) -> str:
    return ", ".join([*sorted(key.roles), *sorted(key.scopes)]) or "nothing"


def _expiry_text(key: ApiKey) -> str:
    return f"until {key.expires_at[:16]} UTC" if key.expires_at else "until it is revoked"


def _api_key_json(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "owner": f"user:{key.owner}",
        "label": key.label,
        "state": key.state(datetime.now(UTC)),
        "roles": sorted(key.roles),
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }
