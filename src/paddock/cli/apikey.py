"""`paddock apikey …`: keys for programs that act for a person."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, change, done, read, removal
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.principals.api_keys import ApiKey

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Make and revoke keys for programs.")

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhdw])")


@app.command("create", epilog="Example: paddock apikey create ann --label mailer --role member --expires 30d")
@reporting
def create(
    owner: Annotated[str, typer.Argument(metavar="PERSON", help="Whom it acts for.")],
    *,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    role: Annotated[
        list[str] | None,
        typer.Option(help="One of their roles, more than once for more (all but operator and approver)."),
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(help="One of their scopes, more than once for more.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Until when: 12h, 30d, 8w. Forever without.")
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a key and print its token, once: it is kept nowhere. It never has more than its owner has."""
    from paddock.core.clock import SystemRandom
    from paddock.principals.api_keys import create_key

    ends = datetime.now(UTC) + _duration(expires) if expires else None
    key, token = change(
        tenant,
        lambda made: create_key(
            made, owner, SystemRandom(), label=label, roles=role, scopes=scope or (), expires_at=ends
        ),
    )
    if as_json:
        document(_value(key) | {"token": token.reveal()})
    else:
        result(token.reveal())
    say(f"{styled('✓', 'green')} made the key {key.id} of {key.owner}: {_granted(key)}, {_until(key)}")
    say("  keep the token now; nobody can show it again")


@app.command("list", epilog="Example: paddock apikey list --json")
@reporting
def list_(
    *,
    owner: Annotated[str | None, typer.Option("--user", metavar="PERSON", help="Only of this person.")] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List keys, whether they work, and when each was last used. No token is shown."""
    from paddock.principals.api_keys import keys
    from paddock.principals.people import require_person
    from paddock.principals.tenants import require_tenant

    read(lambda tx: require_person(tx, tenant, owner) if owner else require_tenant(tx, tenant))
    rows = read(lambda tx: keys(tx, tenant, owner.removeprefix("user:") if owner else None))
    if as_json:
        document({"tenant": tenant, "keys": [_value(row) for row in rows]})
    elif rows:
        now = datetime.now(UTC)
        cells = [
            [row.id, row.owner, row.state(now), _granted(row), (row.last_used_at or "never")[:16], row.label]
            for row in rows
        ]
        for line in table(["KEY", "PERSON", "STATE", "MAY", "LAST USED", "LABEL"], cells):
            result(line)
    else:
        say(f"there are no keys; try: paddock apikey create PERSON{for_tenant(tenant)}")


@app.command("revoke", epilog="Example: paddock apikey revoke KEY --yes")
@reporting
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id; not its token.")],
    *,
    tenant: OfTenant = DEFAULT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Have a key work no more, at once and for ever."""
    from paddock.cli.consent import confirm
    from paddock.policy.leaving import retire_key
    from paddock.principals.api_keys import require_key

    found = read(lambda tx: require_key(tx, tenant, key))
    named = f"{found.id} of {found.owner}" + (f" ({printable(found.label)})" if found.label else "")
    confirm(f"Revoke the key {named}?", yes=yes, retype=f"paddock apikey revoke {found.id}{for_tenant(tenant)}")
    row = removal(tenant, lambda made, unit: retire_key(made, unit, found.id))
    done(as_json, f"revoked the key {named}", **_value(row))


def _duration(written: str) -> timedelta:
    found = _DURATION.fullmatch(written)
    if found is None:
        raise typer.BadParameter("give a number and m, h, d or w, such as 12h or 30d", param_hint="--expires")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _granted(key: ApiKey) -> str:
    return ", ".join([*sorted(key.roles), *sorted(key.scopes)]) or "nothing"


def _until(key: ApiKey) -> str:
    return f"until {key.expires_at[:16]} UTC" if key.expires_at else "for as long as nobody revokes it"


def _value(key: ApiKey) -> dict[str, Any]:
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
