"""`paddock apikey …`: API keys for programs that act for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from paddock.cli import options
from paddock.cli.client.api_client import path_segment
from paddock.cli.client.identity_client import key_path, open_identity_client, report_retained_log
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import (
    format_table,
    print_facts,
    print_json,
    print_message,
    print_result,
    report_change,
    styled,
)
from paddock.core.printable import printable

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
    body: dict[str, Any] = {"owner": owner, "label": label, "scopes": scope}
    if role:
        body["roles"] = role
    if expires:
        body["expires_at"] = (datetime.now(UTC) + _parse_duration(expires)).isoformat()
    with open_identity_client(tenant) as client:
        key = client.post("/api-keys", body)
    if as_json:
        print_json(key)
    else:
        print_result(key["token"])
    print_message(
        f"{styled('✓', 'green')} made the key {key['id']} of {_owner_name(key)}: {_rights_text(key)},"
        f" {_expiry_text(key)}"
    )
    print_message("  keep the token now; nobody can show it again")


@app.command("list", examples=["paddock apikey list --json"])
@click.option("--user", "owner", metavar="PERSON", help="Only those of this person.")
@options.tenant
@options.as_json
def list_(*, owner: str | None, tenant: str, as_json: bool) -> None:
    """List API keys with their state and last use. Tokens are not shown."""
    with open_identity_client(tenant) as client:
        keys = client.get("/api-keys" + (f"?owner={path_segment(owner)}" if owner else ""))
    if as_json:
        print_json(keys)
    elif keys["keys"]:
        cells = [
            [
                *(key["id"], _owner_name(key), key["state"], _rights_text(key)),
                *((key["last_used_at"] or "never")[:16], key["label"]),
            ]
            for key in keys["keys"]
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
    with open_identity_client(tenant) as client:
        row = client.get(key_path(key, tenant))
    if as_json:
        print_json(row)
        return
    print_facts(
        {
            "key": row["id"],
            "person": row["owner"],
            "label": row["label"],
            "state": row["state"],
            "may": _rights_text(row),
            "created": f"{row['created_at'][:16]} by {row['created_by']}",
            "expires": (row["expires_at"] or "never")[:16],
            "last used": (row["last_used_at"] or "never")[:16],
        }
    )


@app.command("remove", examples=["paddock apikey remove KEY --yes"])
@api_key_argument
@options.tenant
@options.yes
@options.as_json
def remove(key: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Revoke an API key. It takes effect at once and cannot be undone."""
    from paddock.cli.output.consent_prompt import confirm

    with open_identity_client(tenant) as client:
        row = client.get(key_path(key, tenant))
        description = f"{row['id']} of {_owner_name(row)}" + (f" ({printable(row['label'])})" if row["label"] else "")
        retype = f"paddock apikey remove {row['id']}{tenant_option(tenant)}"
        confirm(f"Revoke the key {description}?", yes=yes, retype=retype)
        revoked = client.post(f"{key_path(key, tenant)}/revoke")
    report_retained_log(revoked)
    revoked.pop("log", None)
    report_change(as_json, f"revoked the key {description}", **revoked)


def _parse_duration(option: str) -> timedelta:
    match = _DURATION_PATTERN.fullmatch(option)
    if match is None:
        raise click.BadParameter("give a number and m, h, d or w, such as 12h or 30d", param_hint="--expires")
    return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})


def _owner_name(key: Mapping[str, Any]) -> str:
    return key["owner"].removeprefix("user:")


def _rights_text(key: Mapping[str, Any]) -> str:
    return ", ".join([*key["roles"], *key["scopes"]]) or "nothing"


def _expiry_text(key: Mapping[str, Any]) -> str:
    return f"until {key['expires_at'][:16]} UTC" if key["expires_at"] else "until it is revoked"
