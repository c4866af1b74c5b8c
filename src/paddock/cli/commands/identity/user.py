"""`paddock user …`: the people of a tenant, and their rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from paddock.cli.client.store_access import (
    DEFAULT_TENANT_NAME,
    RemoveOption,
    TenantOption,
    change_store,
    read_store,
    remove_with_approvals,
    report_change,
)
from paddock.cli.output.report import (
    JsonOption,
    YesOption,
    format_table,
    handle_errors,
    print_json,
    print_message,
    print_result,
    styled,
)
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.principals.people import Person
    from paddock.store.audited_transaction import AuditedTransaction

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Add people, and say what they may do.")

PersonNameArgument = Annotated[str, typer.Argument(help="The person's name, as in ann.")]


@app.command("add", epilog="Example: paddock user add ann --name 'Ann Lee' --role member --role approver")
@handle_errors
def add(
    name: PersonNameArgument,
    *,
    display_name: Annotated[str, typer.Option("--name", help="What people read; the name when left out.")] = "",
    role: Annotated[list[str] | None, typer.Option(help="A role to have, more than once for more (member).")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="A scope to have, more than once for more.")] = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Add a person. Without --role they are a member."""
    from paddock.principals.people import add_person

    roles = role or ["member"]
    _warn_unknown_roles(roles)
    person, has_second_approver = _change_person(
        tenant,
        lambda change: add_person(change, name, display_name=display_name, roles=roles, scopes=scope or ()),
    )
    report_change(as_json, f"added {person.id}: {_join_words(person.rights.roles)}", **_person_json(person))
    _report_four_eyes(has_second_approver)


@app.command("list", epilog="Example: paddock user list --json")
@handle_errors
def list_(*, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False) -> None:
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


@app.command("show", epilog="Example: paddock user show ann")
@handle_errors
def show(name: PersonNameArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False) -> None:
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


@app.command("role", epilog="Examples: paddock user role ann approver   ·   paddock user role ann approver --remove")
@handle_errors
def role(
    name: PersonNameArgument,
    roles: Annotated[
        list[str], typer.Argument(metavar="ROLE...", help="operator, approver, member, guest, or your own.")
    ],
    *,
    remove: RemoveOption = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Give a person roles, or take them away. Their keys lose what they lose, at once."""
    if not remove:
        _warn_unknown_roles(roles)
    _change_rights(name, "roles", roles, remove=remove, tenant=tenant, as_json=as_json)


@app.command(
    "scope", epilog="Examples: paddock user scope ann email:send   ·   paddock user scope ann email:send --remove"
)
@handle_errors
def scope(
    name: PersonNameArgument,
    scopes: Annotated[
        list[str], typer.Argument(metavar="SCOPE...", help="What a callable is kept to, as in email:send.")
    ],
    *,
    remove: RemoveOption = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Give a person scopes, or take them away. Their keys lose what they lose, at once."""
    _change_rights(name, "scopes", scopes, remove=remove, tenant=tenant, as_json=as_json)


@app.command(
    "identity",
    epilog="Examples: paddock user identity ann --subject 00u1abcd   ·   paddock user identity ann --remove",
)
@handle_errors
def identity(
    name: PersonNameArgument,
    *,
    subject: Annotated[str | None, typer.Option(help="What the provider calls them, its claim sub.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Forget it: whoever has their name there is them.")] = False,
    issuer: Annotated[str | None, typer.Option(help="The identity provider; that of oidc.issuer.")] = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
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


@app.command("disable", epilog="Example: paddock user disable ann")
@handle_errors
def disable(
    name: PersonNameArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False
) -> None:
    """Let a person act no more. Nothing of theirs is lost; their keys do not work meanwhile."""
    _set_disabled(name, True, tenant=tenant, as_json=as_json)


@app.command("enable", epilog="Example: paddock user enable ann")
@handle_errors
def enable(
    name: PersonNameArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False
) -> None:
    """Let a disabled person act again."""
    _set_disabled(name, False, tenant=tenant, as_json=as_json)


@app.command("sessions", epilog="Examples: paddock user sessions   ·   paddock user sessions ann --json")
@handle_errors
def sessions_(
    name: Annotated[str | None, typer.Argument(help="Only of this person.")] = None,
    *,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
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


@app.command("sign-out", epilog="Example: paddock user sign-out ann")
@handle_errors
def sign_out(
    who: Annotated[str, typer.Argument(metavar="WHO", help="A person, local:NAME, or one session by its id.")],
    *,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
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


@app.command("remove", epilog="Example: paddock user remove ann --yes")
@handle_errors
def remove(
    name: PersonNameArgument,
    *,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
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
    name: str, kind: Literal["roles", "scopes"], names: list[str], *, remove: bool, tenant: str, as_json: bool
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
