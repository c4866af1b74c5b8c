"""`paddock consent …`: a person's consents, one callable at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from msgspec.structs import asdict

from paddock.cli import options
from paddock.cli.client.api_client import path_segment
from paddock.cli.client.identity_client import open_identity_client
from paddock.cli.client.local_store import local_principal
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
    from paddock.cli.output.consent_prompt import confirm

    body = _consent_body(name, person)
    with open_identity_client(tenant) as client:
        target = client.get("/consents/target?" + "&".join(f"{key}={path_segment(body[key])}" for key in body))
        person_id, tool = target["person"], target["tool"]
        print_message(styled(f"{target['plugin']} {printable(tool['name'])}", "bold"))
        if tool["description"]:
            print_message(f"  {printable(tool['description'], 400)}")
        print_message(f"  {styled('effects', 'dim')} {printable(', '.join(tool['effects']) or 'none', 400)}")
        retype = f"paddock consent add {name}" + (f" --for {person_id}" if person else "") + tenant_option(tenant)
        confirm(f"Does {person_id} agree that it does this for them?", yes=yes, retype=retype)
        consent = client.post("/consents", body)
    report_change(as_json, f"{person_id} agreed to {_consent_name(consent)}", **consent)


@app.command("remove", examples=["paddock consent remove slow-count.count --for user:ann"])
@consent_callable_argument
@consent_person_option
@options.tenant
@options.as_json
def remove(name: str, *, person: str | None, tenant: str, as_json: bool) -> None:
    """Revoke a consent. The next call needs a new one."""
    with open_identity_client(tenant) as client:
        revoked = client.post("/consents/revoke", _consent_body(name, person))
    report_change(as_json, f"{revoked['person']} no longer agrees to {_consent_name(revoked)}", **revoked)


@app.command("list", examples=["paddock consent list --json"])
@click.option("--for", "person", metavar="PERSON", help="Only those of this person.")
@click.option("--all", "everything", is_flag=True, help="Include revoked consents.")
@options.tenant
@options.as_json
def list_(*, person: str | None, everything: bool, tenant: str, as_json: bool) -> None:
    """List the consents of people."""
    params = ([f"person={path_segment(person)}"] if person else []) + (["revoked=1"] if everything else [])
    with open_identity_client(tenant) as client:
        consents = client.get("/consents" + (f"?{'&'.join(params)}" if params else ""))
    if as_json:
        print_json(consents)
    elif rows := consents["consents"]:
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
    from paddock.principals.consents import ConsentRecord, find_by_name
    from paddock.principals.principal_name import parse_principal_name

    person = local_principal() if person is None else person
    with open_identity_client(tenant) as client:
        consents = client.get(f"/consents?person={path_segment(person)}")["consents"]
    found = find_by_name([ConsentRecord(**consent) for consent in consents], name)
    if found is None:
        raise NotFound(
            f"{parse_principal_name(person, tenant).id} has not consented to {printable(name, 128)}",
            code="consent.not_found",
            action=Action.of("consent.list", tenant=tenant),
        )
    if as_json:
        print_json(asdict(found))
    else:
        print_facts({"person": found.person, "callable": _consent_name(asdict(found)), "since": found.given_at[:16]})


def _consent_body(name: str, person: str | None) -> dict[str, str]:
    return {"name": name} | ({"person": person} if person is not None else {})


def _consent_name(consent: Mapping[str, Any]) -> str:
    return printable(full_name(consent["plugin"], consent["callable"]))


def _table_row(consent: Mapping[str, Any]) -> list[Any]:
    return [
        *(consent["person"], _consent_name(consent)),
        *(consent["given_at"][:16], (consent["revoked_at"] or "")[:16]),
    ]
