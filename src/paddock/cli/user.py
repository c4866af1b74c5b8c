"""`paddock user …`: the people of a tenant, and what they may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, Removed, change, done, read, removal
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.principals.change import Change
    from paddock.principals.people import Person

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Add people, and say what they may do.")

Name = Annotated[str, typer.Argument(help="The person's name, as in ann.")]


@app.command("add", epilog="Example: paddock user add ann --name 'Ann Lee' --role member --role approver")
@reporting
def add(
    name: Name,
    *,
    display_name: Annotated[str, typer.Option("--name", help="What people read; the name when left out.")] = "",
    role: Annotated[list[str] | None, typer.Option(help="A role to have, more than once for more (member).")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="A scope to have, more than once for more.")] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Add a person. Without --role they are a member."""
    from paddock.principals.people import add_person

    roles = role or ["member"]
    _tell_of_unknown(roles)
    person, second = _changed(
        tenant,
        lambda made: add_person(made, name, display_name=display_name, roles=roles, scopes=scope or ()),
    )
    done(as_json, f"added {person.id}: {_words(person.rights.roles)}", **_value(person))
    _tell_of_four_eyes(second)


@app.command("list", epilog="Example: paddock user list --json")
@reporting
def list_(*, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """List the people of a tenant."""
    from paddock.principals.people import people
    from paddock.principals.tenants import require_tenant

    rows = read(lambda tx: require_tenant(tx, tenant) and people(tx, tenant))
    if as_json:
        document({"tenant": tenant, "people": [_value(row) for row in rows]})
    elif rows:
        cells = [[row.name, _state(row), _words(row.rights.roles), row.display_name] for row in rows]
        for line in table(["PERSON", "STATE", "ROLES", "NAME"], cells):
            result(line)
    else:
        say(f"nobody was added yet; try: paddock user add NAME{for_tenant(tenant)}")


@app.command("show", epilog="Example: paddock user show ann")
@reporting
def show(name: Name, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Show what a person may do, with their groups, keys and consents."""
    from datetime import UTC, datetime

    from paddock.principals.api_keys import keys
    from paddock.principals.consents import consented_names
    from paddock.principals.people import require_person

    person = read(lambda tx: require_person(tx, tenant, name))
    theirs = read(lambda tx: keys(tx, tenant, person.name))
    consents = sorted(read(lambda tx: consented_names(tx, tenant, person.id)))
    now = datetime.now(UTC)
    live = [key.id for key in theirs if key.state(now) == "live"]
    if as_json:
        document(_value(person) | {"keys": live, "consents": consents})
        return
    result(styled(f"{person.id}  {printable(person.display_name)}", "bold"))
    for label, value in (
        ("state", _state(person)),
        ("tenant", person.tenant),
        ("since", person.created_at[:10]),
        ("roles", _words(person.rights.roles)),
        ("scopes", _words(person.rights.scopes)),
        ("groups", _words(person.rights.groups)),
        ("keys", _words(live)),
        ("consents", _words(consents)),
    ):
        result(f"  {styled(label.ljust(10), 'dim')} {printable(value, 400)}")


@app.command("role", epilog="Examples: paddock user role ann approver   ·   paddock user role ann approver --remove")
@reporting
def role(
    name: Name,
    roles: Annotated[
        list[str], typer.Argument(metavar="ROLE...", help="operator, approver, member, guest, or your own.")
    ],
    *,
    remove: Removed = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Give a person roles, or take them away. Their keys lose what they lose, at once."""
    if not remove:
        _tell_of_unknown(roles)
    _change_rights(name, "roles", roles, remove=remove, tenant=tenant, as_json=as_json)


@app.command(
    "scope", epilog="Examples: paddock user scope ann email:send   ·   paddock user scope ann email:send --remove"
)
@reporting
def scope(
    name: Name,
    scopes: Annotated[
        list[str], typer.Argument(metavar="SCOPE...", help="What a callable is kept to, as in email:send.")
    ],
    *,
    remove: Removed = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Give a person scopes, or take them away. Their keys lose what they lose, at once."""
    _change_rights(name, "scopes", scopes, remove=remove, tenant=tenant, as_json=as_json)


@app.command(
    "identity",
    epilog="Examples: paddock user identity ann --subject 00u1abcd   ·   paddock user identity ann --remove",
)
@reporting
def identity(
    name: Name,
    *,
    subject: Annotated[str | None, typer.Option(help="What the provider calls them, its claim sub.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Forget it: whoever has their name there is them.")] = False,
    issuer: Annotated[str | None, typer.Option(help="The identity provider; that of oidc.issuer.")] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show who a person is at the identity provider, or say it. Their first sign-in says it by itself."""
    from paddock.principals.identities import Identity, identities, link, unlink
    from paddock.principals.people import require_person

    if remove:
        there = _issuer(issuer)
        change(tenant, lambda made: unlink(made, name, there))
    elif subject is not None:
        who = Identity(_issuer(issuer), subject)
        change(tenant, lambda made: link(made, name, who))
    person = read(lambda tx: require_person(tx, tenant, name))
    known = read(lambda tx: identities(tx, person))
    if as_json:
        document({"id": person.id, "identities": [{"issuer": one.issuer, "subject": one.subject} for one in known]})
        return
    for one in known:
        result(f"{printable(one.subject, 255)}  {printable(one.issuer, 255)}")
    if not known:
        say(f"nobody at an identity provider is known to be {person.id}")


@app.command("disable", epilog="Example: paddock user disable ann")
@reporting
def disable(name: Name, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Let a person act no more. Nothing of theirs is lost; their keys do not work meanwhile."""
    _switch(name, True, tenant=tenant, as_json=as_json)


@app.command("enable", epilog="Example: paddock user enable ann")
@reporting
def enable(name: Name, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Let a disabled person act again."""
    _switch(name, False, tenant=tenant, as_json=as_json)


@app.command("sessions", epilog="Examples: paddock user sessions   ·   paddock user sessions ann --json")
@reporting
def sessions_(
    name: Annotated[str | None, typer.Argument(help="Only of this person.")] = None,
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List who is signed in at the console, and since when."""
    from dataclasses import asdict

    from paddock.principals.people import require_person
    from paddock.principals.sessions import sessions
    from paddock.principals.tenants import require_tenant

    subject = None
    if name is not None:
        subject = name if name.startswith("local:") else read(lambda tx: require_person(tx, tenant, name)).id
    rows = read(lambda tx: require_tenant(tx, tenant) and sessions(tx, tenant, datetime.now(UTC), subject))
    if as_json:
        document({"tenant": tenant, "sessions": [asdict(row) for row in rows]})
    elif rows:
        cells = [[row.id, row.subject, row.via, row.opened_at[:16], row.seen_at[:16]] for row in rows]
        for line in table(["SESSION", "WHO", "VIA", "SINCE", "LAST SEEN"], cells):
            result(line)
    else:
        say("nobody is signed in")


@app.command("sign-out", epilog="Example: paddock user sign-out ann")
@reporting
def sign_out(
    who: Annotated[str, typer.Argument(metavar="WHO", help="A person, local:NAME, or one session by its id.")],
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Sign somebody out at the console, everywhere, links to sign in too; or end one session. It holds at once."""
    from paddock.principals.login_links import void_links_of
    from paddock.principals.people import require_person
    from paddock.principals.sessions import Session, end_session, end_sessions_of

    def unit(made: Change) -> list[Session]:
        if who.startswith("ses_"):
            return [end_session(made, who)]
        subject = who if who.startswith("local:") else require_person(made.tx, made.tenant, who).id
        void_links_of(made, subject)
        return end_sessions_of(made, subject)

    ended = change(tenant, unit)
    count = "1 session" if len(ended) == 1 else f"{len(ended)} sessions"
    done(as_json, f"ended {count}", tenant=tenant, ended=[one.id for one in ended])


@app.command("remove", epilog="Example: paddock user remove ann --yes")
@reporting
def remove(name: Name, *, tenant: OfTenant = DEFAULT, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a person with their keys, secrets, groups, consents, approvals and calls that wait. The record stays."""
    from paddock.cli.consent import confirm
    from paddock.policy.leaving import remove_person
    from paddock.principals.people import require_person

    found = read(lambda tx: require_person(tx, tenant, name))
    retype = f"paddock user remove {found.name}{for_tenant(tenant)}"
    confirm(
        f"Remove {found.id} ({printable(found.display_name)}), with all keys, consents and approvals?",
        yes=yes,
        retype=retype,
    )
    person = removal(tenant, lambda made, unit: remove_person(made, unit, name))
    done(as_json, f"removed {person.id}", name=person.name, tenant=person.tenant, removed=True)


def _issuer(named: str | None) -> str:
    """The provider that is meant."""
    from paddock.cli.opening import reading
    from paddock.core.errors import OperatorError

    with reading() as host:
        issuer = named or host.loaded.settings.oidc.issuer
    if issuer is None:
        raise OperatorError(
            "no identity provider is set", code="oidc.no_issuer", hint="name it with --issuer, or set oidc.issuer"
        )
    return issuer


def _change_rights(
    name: str, what: Literal["roles", "scopes"], words: list[str], *, remove: bool, tenant: str, as_json: bool
) -> None:
    from paddock.principals.people import change_rights

    given = {"remove" if remove else "add": words}
    person, second = _changed(tenant, lambda made: change_rights(made, name, what, **given))
    has = person.rights.roles if what == "roles" else person.rights.scopes
    done(as_json, f"{person.id} has the {what}: {_words(has)}", **_value(person))
    _tell_of_four_eyes(second)


def _switch(name: str, disabled: bool, *, tenant: str, as_json: bool) -> None:
    from paddock.principals.people import set_disabled

    person, second = _changed(tenant, lambda made: set_disabled(made, name, disabled))
    done(as_json, f"{person.id} is {_state(person)}", **_value(person))
    _tell_of_four_eyes(second)


def _changed(tenant: str, unit: Callable[[Change], Person]) -> tuple[Person, bool]:
    """A person after a change, and whether it left the tenant with several who may approve, where it had one."""
    from paddock.principals.approvers import tells_of_second

    return change(tenant, lambda made: tells_of_second(made, unit))


def _tell_of_four_eyes(second: bool) -> None:
    if second:
        say(f"{styled('!', 'yellow')} several people may approve now: from now on nobody approves what they asked for")
        say('  themselves, unless the rule that asks says @four_eyes("no")')


def _tell_of_unknown(roles: Iterable[str]) -> None:
    """A role that no shipped rule knows may be meant, and may be a slip of the hand."""
    from paddock.principals.names import ROLES

    for one in roles:
        if one not in ROLES:
            close = get_close_matches(one, ROLES, n=1)
            meant = f"; did you mean {close[0]}?" if close else f": they know {', '.join(ROLES)}"
            say(f"{styled('!', 'yellow')} no shipped rule knows the role {printable(one, 80)}{meant}")


def _state(person: Person) -> str:
    return "disabled" if person.disabled else "enabled"


def _words(words: Iterable[str]) -> str:
    return ", ".join(sorted(words)) or "none"


def _value(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "name": person.name,
        "tenant": person.tenant,
        "display_name": person.display_name,
        "state": _state(person),
        "roles": sorted(person.rights.roles),
        "scopes": sorted(person.rights.scopes),
        "groups": sorted(person.rights.groups),
        "created_at": person.created_at,
    }
