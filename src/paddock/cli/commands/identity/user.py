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
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.principals.people import Person
    from paddock.store.audited_transaction import AuditedTransaction

app = PaddockGroup("user", help="Add people, and say what they may do.")

person_name_argument = click.argument("name", help="The person's name, as in ann.")


@app.command("add", examples=["paddock user add ann --name 'Ann Lee' --role member --role approver"])
@person_name_argument
@click.option("--name", "display_name", default="", help="What people read; the name when left out.")
@click.option("--role", multiple=True, help="A role to have, more than once for more (member).")
@click.option("--scope", multiple=True, help="A scope to have, more than once for more.")
@options.tenant
@options.as_json
def add(
    name: str, *, display_name: str, role: tuple[str, ...], scope: tuple[str, ...], tenant: str, as_json: bool
) -> None:
    """Add a person. Without --role they are a member."""
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
    """Show what a person may do, with their groups, keys and consents."""
    from datetime import UTC, datetime

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


@app.command("role", examples=["paddock user role ann approver", "paddock user role ann approver --remove"])
@person_name_argument
@click.argument(
    "roles", nargs=-1, required=True, metavar="ROLE...", help="operator, approver, member, guest, or your own."
)
@options.remove
@options.tenant
@options.as_json
def role(name: str, roles: tuple[str, ...], *, remove: bool, tenant: str, as_json: bool) -> None:
    """Give a person roles, or take them away. Their keys lose what they lose, at once."""
    if not remove:
        _warn_unknown_roles(roles)
    _change_rights(name, "roles", roles, remove=remove, tenant=tenant, as_json=as_json)


@app.command("scope", examples=["paddock user scope ann email:send", "paddock user scope ann email:send --remove"])
@person_name_argument
@click.argument(
    "scopes", nargs=-1, required=True, metavar="SCOPE...", help="What a callable is kept to, as in email:send."
)
@options.remove
@options.tenant
@options.as_json
def scope(name: str, scopes: tuple[str, ...], *, remove: bool, tenant: str, as_json: bool) -> None:
    """Give a person scopes, or take them away. Their keys lose what they lose, at once."""
    _change_rights(name, "scopes", scopes, remove=remove, tenant=tenant, as_json=as_json)


@app.command(
    "identity", examples=["paddock user identity ann --subject 00u1abcd", "paddock user identity ann --remove"]
)
@person_name_argument
@click.option("--subject", help="What the provider calls them, its claim sub.")
@click.option("--remove", is_flag=True, help="Forget it: whoever has their name there is them.")
@click.option("--issuer", help="The identity provider; that of oidc.issuer.")
@options.tenant
@options.as_json
def identity(name: str, *, subject: str | None, remove: bool, issuer: str | None, tenant: str, as_json: bool) -> None:
    """Show who a person is at the identity provider, or say it. Their first sign-in says it by itself."""
    from paddock.principals.identities import ExternalIdentity, link_identity, list_identities, unlink_identity
    from paddock.principals.people import require_person

    if remove:
        provider = _resolve_issuer(issuer)
        change_store(tenant, lambda change: unlink_identity(change, name, provider))
    elif subject is not None:
        external = ExternalIdentity(_resolve_issuer(issuer), subject)
        change_store(tenant, lambda change: link_identity(change, name, external))
    person = read_store(lambda tx: require_person(tx, tenant, name))
    identities = read_store(lambda tx: list_identities(tx, person))
    if as_json:
        print_json(
            {"id": person.id, "identities": [{"issuer": item.issuer, "subject": item.subject} for item in identities]}
        )
        return
    for item in identities:
        print_result(f"{printable(item.subject, 255)}  {printable(item.issuer, 255)}")
    if not identities:
        print_message(f"nobody at an identity provider is known to be {person.id}")


@app.command("disable", examples=["paddock user disable ann"])
@person_name_argument
@options.tenant
@options.as_json
def disable(name: str, *, tenant: str, as_json: bool) -> None:
    """Let a person act no more. Nothing of theirs is lost; their keys do not work meanwhile."""
    _set_disabled(name, True, tenant=tenant, as_json=as_json)


@app.command("enable", examples=["paddock user enable ann"])
@person_name_argument
@options.tenant
@options.as_json
def enable(name: str, *, tenant: str, as_json: bool) -> None:
    """Let a disabled person act again."""
    _set_disabled(name, False, tenant=tenant, as_json=as_json)


@app.command("sessions", examples=["paddock user sessions", "paddock user sessions ann --json"])
@click.argument("name", required=False, help="Only of this person.")
@options.tenant
@options.as_json
def sessions_(name: str | None, *, tenant: str, as_json: bool) -> None:
    """List who is signed in at the console, and since when."""
    from dataclasses import asdict

    from paddock.principals.people import require_person
    from paddock.principals.sessions import list_sessions
    from paddock.principals.tenants import require_tenant

    subject = None
    if name is not None:
        subject = name if name.startswith("local:") else read_store(lambda tx: require_person(tx, tenant, name)).id
    rows = read_store(lambda tx: require_tenant(tx, tenant) and list_sessions(tx, tenant, datetime.now(UTC), subject))
    if as_json:
        print_json({"tenant": tenant, "sessions": [asdict(row) for row in rows]})
    elif rows:
        cells = [[row.id, row.subject, row.via, row.opened_at[:16], row.seen_at[:16]] for row in rows]
        for line in format_table(["SESSION", "WHO", "VIA", "SINCE", "LAST SEEN"], cells):
            print_result(line)
    else:
        print_message("nobody is signed in")


@app.command("sign-out", examples=["paddock user sign-out ann"])
@click.argument("who", metavar="WHO", help="A person, local:NAME, or one session by its id.")
@options.tenant
@options.as_json
def sign_out(who: str, *, tenant: str, as_json: bool) -> None:
    """Sign somebody out at the console, everywhere, links to sign in too; or end one session. It holds at once."""
    from paddock.principals.login_links import void_links_for
    from paddock.principals.people import require_person
    from paddock.principals.sessions import ConsoleSession, end_all_sessions, end_session

    def unit(change: AuditedTransaction) -> list[ConsoleSession]:
        if who.startswith("ses_"):
            return [end_session(change, who)]
        subject = who if who.startswith("local:") else require_person(change.tx, change.tenant, who).id
        void_links_for(change, subject)
        return end_all_sessions(change, subject)

    ended = change_store(tenant, unit)
    count = "1 session" if len(ended) == 1 else f"{len(ended)} sessions"
    report_change(as_json, f"ended {count}", tenant=tenant, ended=[session.id for session in ended])


@app.command("remove", examples=["paddock user remove ann --yes"])
@person_name_argument
@options.tenant
@options.yes
@options.as_json
def remove(name: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Remove a person with their keys, secrets, groups, consents, approvals and calls that wait. The record stays."""
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


def _resolve_issuer(option: str | None) -> str:
    """Return the issuer of the identity provider: the named one, or that of the settings."""
    from paddock.cli.client.one_shot import open_for_read
    from paddock.core.errors import OperatorError

    with open_for_read() as host:
        issuer = option or host.loaded.settings.oidc.issuer
    if issuer is None:
        raise OperatorError(
            "no identity provider is set", code="oidc.no_issuer", hint="name it with --issuer, or set oidc.issuer"
        )
    return issuer


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
