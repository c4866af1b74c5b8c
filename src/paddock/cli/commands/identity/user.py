"""`paddock user …`: the people of a tenant, and their rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

import click

from paddock.cli import options
from paddock.cli.client.store_access import (
    change_store,
    read_store,
    remove_with_approvals,
    report_change,
)
from paddock.cli.command import PaddockGroup
from paddock.cli.commands.identity.user_identity import app as identity
from paddock.cli.commands.identity.user_session import app as session
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.principals.people import Person
    from paddock.store.audited_transaction import AuditedTransaction

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
    from paddock.principals.people import add_person

    roles = role or ["member"]
    _warn_unknown_roles(roles)
    person, has_second_approver = _change_person(
        tenant,
        lambda change: add_person(change, name, display_name=display_name, roles=roles, scopes=scope),
    )
    report_change(as_json, f"added {person.id}: {_join_words(person.rights.roles)}", **_person_json(person))
    _report_four_eyes(has_second_approver)


@app.command("list", examples=["paddock user list --json"])
@options.tenant
@options.as_json
def list_(*, tenant: str, as_json: bool) -> None:
    """List the people of a tenant."""
    from paddock.principals.people import list_people
    from paddock.principals.tenants import require_tenant

    rows = read_store(lambda tx: require_tenant(tx, tenant) and list_people(tx, tenant))
    if as_json:
        print_json({"tenant": tenant, "people": [_person_json(row) for row in rows]})
    elif rows:
        cells = [[row.name, _state_text(row), _join_words(row.rights.roles), row.display_name] for row in rows]
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

    from paddock.principals.api_keys import list_keys
    from paddock.principals.consents import consented_names
    from paddock.principals.people import require_person

    person = read_store(lambda tx: require_person(tx, tenant, name))
    keys = read_store(lambda tx: list_keys(tx, tenant, person.name))
    consents = sorted(read_store(lambda tx: consented_names(tx, tenant, person.id)))
    now = datetime.now(UTC)
    live_keys = [key.id for key in keys if key.state(now) == "live"]
    if as_json:
        print_json(_person_json(person) | {"keys": live_keys, "consents": consents})
        return
    print_result(styled(f"{person.id}  {printable(person.display_name)}", "bold"))
    for label, value in (
        ("state", _state_text(person)),
        ("tenant", person.tenant),
        ("since", person.created_at[:10]),
        ("roles", _join_words(person.rights.roles)),
        ("scopes", _join_words(person.rights.scopes)),
        ("groups", _join_words(person.rights.groups)),
        ("keys", _join_words(live_keys)),
        ("consents", _join_words(consents)),
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
    from paddock.approvals.removal import remove_person
    from paddock.cli.output.consent_prompt import confirm
    from paddock.principals.people import require_person

    person_before = read_store(lambda tx: require_person(tx, tenant, name))
    retype = f"paddock user remove {person_before.name}{tenant_option(tenant)}"
    confirm(
        f"Remove {person_before.id} ({printable(person_before.display_name)}), with all keys, consents and approvals?",
        yes=yes,
        retype=retype,
    )
    person = remove_with_approvals(tenant, lambda change, unit: remove_person(change, unit, name))
    report_change(as_json, f"removed {person.id}", name=person.name, tenant=person.tenant, removed=True)


def _change_rights(
    name: str, kind: Literal["roles", "scopes"], names: Sequence[str], *, remove: bool, tenant: str, as_json: bool
) -> None:
    from paddock.principals.people import change_rights

    changes = {"remove" if remove else "add": names}
    person, has_second_approver = _change_person(tenant, lambda change: change_rights(change, name, kind, **changes))
    rights = person.rights.roles if kind == "roles" else person.rights.scopes
    report_change(as_json, f"{person.id} has the {kind}: {_join_words(rights)}", **_person_json(person))
    _report_four_eyes(has_second_approver)


def _set_disabled(name: str, disabled: bool, *, tenant: str, as_json: bool) -> None:
    from paddock.principals.people import set_disabled

    person, has_second_approver = _change_person(tenant, lambda change: set_disabled(change, name, disabled))
    report_change(as_json, f"{person.id} is {_state_text(person)}", **_person_json(person))
    _report_four_eyes(has_second_approver)


def _change_person(tenant: str, unit: Callable[[AuditedTransaction], Person]) -> tuple[Person, bool]:
    """Change a person; return it, and whether the tenant now has several approvers where it had one."""
    from paddock.principals.people import detect_second_approver

    return change_store(tenant, lambda change: detect_second_approver(change, unit))


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


def _state_text(person: Person) -> str:
    return "disabled" if person.disabled else "enabled"


def _join_words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _person_json(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "name": person.name,
        "tenant": person.tenant,
        "display_name": person.display_name,
        "state": _state_text(person),
        "roles": sorted(person.rights.roles),
        "scopes": sorted(person.rights.scopes),
        "groups": sorted(person.rights.groups),
        "created_at": person.created_at,
    }
