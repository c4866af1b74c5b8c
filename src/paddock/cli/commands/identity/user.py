"""`paddock user …`: the people of a tenant, and their rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal

import click

from paddock.cli import options
from paddock.cli.client.identity_client import open_identity_client, person_path, report_retained_log
from paddock.cli.command import PaddockGroup
from paddock.cli.commands.identity.user_identity import app as identity
from paddock.cli.commands.identity.user_session import app as session
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_json, print_message, print_result, report_change, styled
from paddock.core.printable import printable

app = PaddockGroup("user", help="Manage people, their roles, scopes, identities and sessions.")

person_name_argument = click.argument("name", help="The name of the person, such as ann.")


@app.command("add", examples=["paddock user add ann --name 'Ann Lee' --role member --role approver"])
@person_name_argument
@click.option("--name", "display_name", default="", help="The display name. [default: the name]")
@click.option("--role", multiple=True, help="A role of the person; may be repeated. [default: member]")
@click.option("--scope", multiple=True, help="A scope of the person; may be repeated.")
@options.tenant
@options.as_json
def add(
    name: str, *, display_name: str, role: tuple[str, ...], scope: tuple[str, ...], tenant: str, as_json: bool
) -> None:
    """Add a person, with the role member unless --role is given."""
    roles = role or ["member"]
    _warn_unknown_roles(roles)
    body = {"name": name, "display_name": display_name, "roles": roles, "scopes": scope}
    with open_identity_client(tenant) as client:
        person = client.post("/people", body)
    _report_person(as_json, person, f"added {person['id']}: {_join_words(person['roles'])}")


@app.command("list", examples=["paddock user list --json"])
@options.tenant
@options.as_json
def list_(*, tenant: str, as_json: bool) -> None:
    """List the people of a tenant."""
    with open_identity_client(tenant) as client:
        people = client.get("/people")
    if as_json:
        print_json(people)
    elif people["people"]:
        cells = [
            [row["name"], row["state"], _join_words(row["roles"]), row["display_name"]] for row in people["people"]
        ]
        for line in format_table(["PERSON", "STATE", "ROLES", "NAME"], cells):
            print_result(line)
    else:
        print_message(f"nobody was added yet; try: paddock user add NAME{tenant_option(tenant)}")


@app.command("show", examples=["paddock user show ann"])
@person_name_argument
@options.tenant
@options.as_json
def show(name: str, *, tenant: str, as_json: bool) -> None:
    """Show a person: roles, scopes, groups, API keys and consents."""
    with open_identity_client(tenant) as client:
        person = client.get(person_path(name, tenant))
    if as_json:
        print_json(person)
        return
    print_result(styled(f"{person['id']}  {printable(person['display_name'])}", "bold"))
    for label, value in (
        ("state", person["state"]),
        ("tenant", person["tenant"]),
        ("since", person["created_at"][:10]),
        *((label, _join_words(person[label])) for label in ("roles", "scopes", "groups", "keys", "consents")),
    ):
        print_result(f"  {styled(label.ljust(10), 'dim')} {printable(value, 400)}")


role = PaddockGroup("role", help="Grant and revoke the roles of a person.")
scope = PaddockGroup("scope", help="Grant and revoke the scopes of a person.")
for _group in (role, scope, identity, session):
    app.add_command(_group)

roles_argument = click.argument(
    "roles", nargs=-1, required=True, metavar="ROLE...", help="operator, approver, member, guest, or a custom role."
)
scopes_argument = click.argument(
    "scopes", nargs=-1, required=True, metavar="SCOPE...", help="A scope that callables require, such as email:send."
)


@role.command("add", examples=["paddock user role add ann approver"])
@person_name_argument
@roles_argument
@options.tenant
@options.as_json
def add_roles(name: str, roles: tuple[str, ...], *, tenant: str, as_json: bool) -> None:
    """Grant roles to a person."""
    _warn_unknown_roles(roles)
    _change_rights(name, "roles", roles, remove=False, tenant=tenant, as_json=as_json)


@role.command("remove", examples=["paddock user role remove ann approver"])
@person_name_argument
@roles_argument
@options.tenant
@options.as_json
def remove_roles(name: str, roles: tuple[str, ...], *, tenant: str, as_json: bool) -> None:
    """Revoke roles of a person. Their API keys lose them at once."""
    _change_rights(name, "roles", roles, remove=True, tenant=tenant, as_json=as_json)


@scope.command("add", examples=["paddock user scope add ann email:send"])
@person_name_argument
@scopes_argument
@options.tenant
@options.as_json
def add_scopes(name: str, scopes: tuple[str, ...], *, tenant: str, as_json: bool) -> None:
    """Grant scopes to a person."""
    _change_rights(name, "scopes", scopes, remove=False, tenant=tenant, as_json=as_json)


@scope.command("remove", examples=["paddock user scope remove ann email:send"])
@person_name_argument
@scopes_argument
@options.tenant
@options.as_json
def remove_scopes(name: str, scopes: tuple[str, ...], *, tenant: str, as_json: bool) -> None:
    """Revoke scopes of a person. Their API keys lose them at once."""
    _change_rights(name, "scopes", scopes, remove=True, tenant=tenant, as_json=as_json)


@app.command("rename", examples=["paddock user rename ann 'Ann Lee-Hill'"])
@person_name_argument
@click.argument("display_name", metavar="DISPLAY_NAME", help="The new display name.")
@options.tenant
@options.as_json
def rename(name: str, display_name: str, *, tenant: str, as_json: bool) -> None:
    """Change the display name of a person. The name that rules and keys refer to stays."""
    with open_identity_client(tenant) as client:
        person = client.post(f"{person_path(name, tenant)}/rename", {"display_name": display_name})
    _report_person(as_json, person, f"{person['id']} is shown as {printable(person['display_name'])}")


@app.command("disable", examples=["paddock user disable ann"])
@person_name_argument
@options.tenant
@options.as_json
def disable(name: str, *, tenant: str, as_json: bool) -> None:
    """Disable a person and their API keys. No data is removed."""
    _set_disabled(name, True, tenant=tenant, as_json=as_json)


@app.command("enable", examples=["paddock user enable ann"])
@person_name_argument
@options.tenant
@options.as_json
def enable(name: str, *, tenant: str, as_json: bool) -> None:
    """Enable a disabled person."""
    _set_disabled(name, False, tenant=tenant, as_json=as_json)


@app.command("remove", examples=["paddock user remove ann --yes"])
@person_name_argument
@options.tenant
@options.yes
@options.as_json
def remove(name: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Remove a person with their API keys, secrets, memberships, consents, approvals and pending calls.

    Ledger entries are kept.
    """
    from paddock.cli.output.consent_prompt import confirm

    path = person_path(name, tenant)
    with open_identity_client(tenant) as client:
        person = client.get(path)
        retype = f"paddock user remove {person['name']}{tenant_option(tenant)}"
        confirm(
            f"Remove {person['id']} ({printable(person['display_name'])}), with all keys, consents and approvals?",
            yes=yes,
            retype=retype,
        )
        removal = client.delete(path)
    report_retained_log(removal)
    report_change(as_json, f"removed {person['id']}", name=person["name"], tenant=person["tenant"], removed=True)


def _change_rights(
    name: str, kind: Literal["roles", "scopes"], names: Sequence[str], *, remove: bool, tenant: str, as_json: bool
) -> None:
    with open_identity_client(tenant) as client:
        person = client.post(f"{person_path(name, tenant)}/{kind}", {"remove" if remove else "add": names})
    _report_person(as_json, person, f"{person['id']} has the {kind}: {_join_words(person[kind])}")


def _set_disabled(name: str, disabled: bool, *, tenant: str, as_json: bool) -> None:
    with open_identity_client(tenant) as client:
        person = client.post(f"{person_path(name, tenant)}/{'disable' if disabled else 'enable'}")
    _report_person(as_json, person, f"{person['id']} is {person['state']}")


def _report_person(as_json: bool, person: Mapping[str, Any], message: str) -> None:
    report_change(as_json, message, **{key: value for key, value in person.items() if key != "second_approver"})
    _report_four_eyes(person["second_approver"])


def _report_four_eyes(has_second_approver: bool) -> None:
    if has_second_approver:
        print_message(
            f"{styled('!', 'yellow')} several people may approve now: from now on nobody approves what they asked for"
        )
        print_message('  themselves, unless the rule that asks says @four_eyes("no")')


def _warn_unknown_roles(roles: Iterable[str]) -> None:
    """Warn about roles that no shipped rule knows: custom ones, or typing errors."""
    from paddock.principals.name_rules import ROLES

    for role in roles:
        if role not in ROLES:
            close = get_close_matches(role, ROLES, n=1)
            suggestion = f"; did you mean {close[0]}?" if close else f": they know {', '.join(ROLES)}"
            print_message(f"{styled('!', 'yellow')} no shipped rule knows the role {printable(role, 80)}{suggestion}")


def _join_words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
