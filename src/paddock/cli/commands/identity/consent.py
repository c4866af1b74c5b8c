"""`paddock consent …`: a person's consents, one callable at a time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.store_access import (
    change_store,
    local_principal,
    read_store,
)
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
from paddock.manifest.names import full_name

if TYPE_CHECKING:
    from paddock.principals.consents import ConsentRecord

app = PaddockGroup("consent", help="Manage the consents of people, one for each callable.")

consent_callable_argument = click.argument(
    "name", help="A callable, such as gmail.send, or a plugin with a single callable."
)
consent_person_option = click.option(
    "--for", "person", metavar="PERSON", help="The consenting person, such as user:ann. [default: you]"
)


@app.command("add", examples=["paddock consent add slow-count.count --for user:ann"])
@consent_callable_argument
@consent_person_option
@options.tenant
@options.yes
@options.as_json
def add(name: str, *, person: str | None, tenant: str, yes: bool, as_json: bool) -> None:
    """Record the consent of a person to a callable. It is valid until it is removed."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.tool_pinning.tools import find_callable
    from paddock.principals.consents import give_consent

    person_id = _resolve_person(person, tenant)
    with open_for_read() as host:
        plugin, tool = find_callable(host.plugins, name)
    print_message(styled(f"{plugin} {printable(tool['name'])}", "bold"))
    if tool["description"]:
        print_message(f"  {printable(tool['description'], 400)}")
    print_message(f"  {styled('effects', 'dim')} {printable(', '.join(tool['effects']) or 'none', 400)}")
    retype = f"paddock consent add {name}" + (f" --for {person_id}" if person else "") + tenant_option(tenant)
    confirm(f"Does {person_id} agree that it does this for them?", yes=yes, retype=retype)
    consent = change_store(tenant, lambda change: give_consent(change, person_id, plugin, tool["name"]))
    report_change(as_json, f"{person_id} agreed to {_consent_name(consent)}", **asdict(consent))


@app.command("remove", examples=["paddock consent remove slow-count.count --for user:ann"])
@consent_callable_argument
@consent_person_option
@options.tenant
@options.as_json
def remove(name: str, *, person: str | None, tenant: str, as_json: bool) -> None:
    """Revoke a consent. The next call needs a new one."""
    from paddock.principals.consents import revoke_consent

    person_id = _resolve_person(person, tenant)
    consent = _find_consent(name, person_id, tenant)
    plugin, _, callable_name = name.rpartition(".")
    target = (consent.plugin, consent.callable) if consent else (plugin, callable_name)
    revoked = change_store(tenant, lambda change: revoke_consent(change, person_id, *target))
    report_change(as_json, f"{person_id} no longer agrees to {_consent_name(revoked)}", **asdict(revoked))


@app.command("list", examples=["paddock consent list --json"])
@click.option("--for", "person", metavar="PERSON", help="Only those of this person.")
@click.option("--all", "everything", is_flag=True, help="Include revoked consents.")
@options.tenant
@options.as_json
def list_(*, person: str | None, everything: bool, tenant: str, as_json: bool) -> None:
    """List the consents of people."""
    from paddock.principals.consents import list_consents
    from paddock.principals.tenants import require_tenant

    person_id = _resolve_person(person, tenant) if person else None
    rows = read_store(
        lambda tx: require_tenant(tx, tenant) and list_consents(tx, tenant, person_id, revoked=everything)
    )
    if as_json:
        print_json({"tenant": tenant, "consents": [asdict(row) for row in rows]})
    elif rows:
        for line in format_table(["PERSON", "CALLABLE", "SINCE", "TAKEN BACK"], [_table_row(row) for row in rows]):
            print_result(line)
    else:
        print_message("nobody agreed to anything yet; try: paddock consent add NAME")


@app.command("show", examples=["paddock consent show slow-count.count --for user:ann"])
@consent_callable_argument
@consent_person_option
@options.tenant
@options.as_json
def show(name: str, *, person: str | None, tenant: str, as_json: bool) -> None:
    """Show a consent: which person gave it, for which callable, and when."""
    from paddock.core.action import Action
    from paddock.core.errors import NotFound

    person_id = _resolve_person(person, tenant)
    consent = _find_consent(name, person_id, tenant)
    if consent is None:
        raise NotFound(
            f"{person_id} has not consented to {printable(name, 128)}",
            code="consent.not_found",
            action=Action.of("consent.list", tenant=tenant),
        )
    if as_json:
        print_json(asdict(consent))
    else:
        print_facts({"person": consent.person, "callable": _consent_name(consent), "since": consent.given_at[:16]})


def _find_consent(name: str, person: str, tenant: str) -> ConsentRecord | None:
    """Return the consent of a person to a callable, which may be named by its plugin if that has only this one."""
    from paddock.principals.consents import list_consents

    consents = read_store(lambda tx: list_consents(tx, tenant, person))
    of_plugin = [consent for consent in consents if consent.plugin == name]
    exact = next((consent for consent in consents if full_name(consent.plugin, consent.callable) == name), None)
    return exact or (of_plugin[0] if len(of_plugin) == 1 else None)


def _resolve_person(option: str | None, tenant: str) -> str:
    """Return the id of the consenting person, who must exist and be a person."""
    from paddock.core.errors import OperatorError
    from paddock.principals.people import require_person
    from paddock.principals.principal_name import parse_principal_name

    if option is None or option == local_principal():
        return local_principal()
    subject = parse_principal_name(option, tenant)
    if subject.prefix == "local":
        return subject.id
    if subject.prefix != "user" or subject.tenant != tenant:
        raise OperatorError(
            f"{printable(option, 80)} cannot agree to anything: only people of the tenant {tenant} can",
            code="consent.not_a_person",
            hint="name a person, as in --for user:ann",
        )
    return read_store(lambda tx: require_person(tx, tenant, subject.name)).id


def _consent_name(consent: ConsentRecord) -> str:
    return printable(full_name(consent.plugin, consent.callable))


def _table_row(consent: ConsentRecord) -> list[Any]:
    return [consent.person, _consent_name(consent), consent.given_at[:16], (consent.revoked_at or "")[:16]]
