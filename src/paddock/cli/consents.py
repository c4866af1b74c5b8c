"""`paddock consent …`: what a person enabled for themselves and agreed to, one callable at a time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, at_this_machine, change, done, read
from paddock.core.printable import printable
from paddock.manifest.names import full_name
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.principals.consents import Consent

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Keep and take back what a person agreed to, callable by callable."
)

Name = Annotated[str, typer.Argument(help="The callable, as in gmail.send, or a plugin that is one callable.")]
Whose = Annotated[
    str | None, typer.Option("--for", metavar="PERSON", help="Whose yes it is, as in user:ann; yours when left out.")
]


@app.command("give", epilog="Example: paddock consent give slow-count.count --for user:ann")
@reporting
def give(
    name: Name, *, person: Whose = None, tenant: OfTenant = DEFAULT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Enable one callable for a person, with their consent to what it does. It holds until it is taken back."""
    from paddock.cli.consent import confirm
    from paddock.cli.opening import reading
    from paddock.plugins.callable_names import find_callable
    from paddock.principals.consents import give_consent

    who = _person(person, tenant)
    with reading() as host:
        plugin, tool = find_callable(host.plugins, name)
    say(styled(f"{plugin} {printable(tool['name'])}", "bold"))
    if tool["description"]:
        say(f"  {printable(tool['description'], 400)}")
    say(f"  {styled('effects', 'dim')} {printable(', '.join(tool['effects']) or 'none', 400)}")
    retype = f"paddock consent give {name}" + (f" --for {who}" if person else "") + for_tenant(tenant)
    confirm(f"Does {who} agree that it does this for them?", yes=yes, retype=retype)
    given = change(tenant, lambda made: give_consent(made, who, plugin, tool["name"]))
    done(as_json, f"{who} agreed to {_named(given)}", **asdict(given))


@app.command("revoke", epilog="Example: paddock consent revoke slow-count.count --for user:ann")
@reporting
def revoke(name: Name, *, person: Whose = None, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Take a consent back. The next call needs a new one."""
    from paddock.principals.consents import consents, revoke_consent

    who = _person(person, tenant)
    standing = read(lambda tx: consents(tx, tenant, who))
    of_plugin = [one for one in standing if one.plugin == name]
    found = next((one for one in standing if full_name(one.plugin, one.callable) == name), None)
    if found is None and len(of_plugin) == 1:
        found = of_plugin[0]
    plugin, _, callable_name = name.rpartition(".")
    asked = (found.plugin, found.callable) if found else (plugin, callable_name)
    taken = change(tenant, lambda made: revoke_consent(made, who, *asked))
    done(as_json, f"{who} no longer agrees to {_named(taken)}", **asdict(taken))


@app.command("list", epilog="Example: paddock consent list --json")
@reporting
def list_(
    *,
    person: Annotated[str | None, typer.Option("--for", metavar="PERSON", help="Only of this person.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what was taken back.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what people agreed to."""
    from paddock.principals.consents import consents
    from paddock.principals.tenants import require_tenant

    who = _person(person, tenant) if person else None
    rows = read(lambda tx: require_tenant(tx, tenant) and consents(tx, tenant, who, revoked=everything))
    if as_json:
        document({"tenant": tenant, "consents": [asdict(row) for row in rows]})
    elif rows:
        for line in table(["PERSON", "CALLABLE", "SINCE", "TAKEN BACK"], [_cells(row) for row in rows]):
            result(line)
    else:
        say("nobody agreed to anything yet; try: paddock consent give NAME")


def _person(written: str | None, tenant: str) -> str:
    """Whose consent it is: somebody who exists, and who is a person."""
    from paddock.core.errors import OperatorError
    from paddock.principals.people import require_person
    from paddock.principals.subjects import parse_subject

    if written is None or written == at_this_machine():
        return at_this_machine()
    subject = parse_subject(written, tenant)
    if subject.word == "local":
        return subject.id
    if subject.word != "user" or subject.tenant != tenant:
        raise OperatorError(
            f"{printable(written, 80)} cannot agree to anything: only people of the tenant {tenant} can",
            code="consent.not_a_person",
            hint="name a person, as in --for user:ann",
        )
    return read(lambda tx: require_person(tx, tenant, subject.name)).id


def _named(consent: Consent) -> str:
    return printable(full_name(consent.plugin, consent.callable))


def _cells(consent: Consent) -> list[Any]:
    return [consent.person, _named(consent), consent.given_at[:16], (consent.revoked_at or "")[:16]]
