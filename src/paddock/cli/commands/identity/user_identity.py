"""`paddock user identity …`: which subject of an identity provider a person is."""

from __future__ import annotations

from typing import Any

import click

from paddock.cli import options
from paddock.cli.client.api_client import path_segment
from paddock.cli.client.identity_client import open_identity_client, person_path
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import print_json, print_message, print_result
from paddock.core.printable import printable

app = PaddockGroup("identity", help="Link people to the subjects of an identity provider.")

person_name_argument = click.argument("name", help="The name of the person, such as ann.")
issuer_option = click.option("--issuer", help="The identity provider; without it, that of oidc.issuer.")


@app.command("add", examples=["paddock user identity add ann --subject 00u1abcd"])
@person_name_argument
@click.option("--subject", required=True, help="The person's subject at the provider: its claim `sub`.")
@issuer_option
@options.tenant
@options.as_json
def add(name: str, *, subject: str, issuer: str | None, tenant: str, as_json: bool) -> None:
    """Link a person to a subject. The first sign-in under the person's name does this by itself."""
    body = {"subject": subject} | ({"issuer": issuer} if issuer else {})
    with open_identity_client(tenant) as client:
        identities = client.post(_identities_path(name, tenant), body)
    _print_identities(identities, as_json=as_json)


@app.command("list", examples=["paddock user identity list ann"])
@person_name_argument
@options.tenant
@options.as_json
def list_(name: str, *, tenant: str, as_json: bool) -> None:
    """List the subjects that a person is linked to."""
    with open_identity_client(tenant) as client:
        identities = client.get(_identities_path(name, tenant))
    _print_identities(identities, as_json=as_json)


@app.command("remove", examples=["paddock user identity remove ann"])
@person_name_argument
@issuer_option
@options.tenant
@options.as_json
def remove(name: str, *, issuer: str | None, tenant: str, as_json: bool) -> None:
    """Unlink a person from a provider. The next sign-in under the person's name links them again."""
    with open_identity_client(tenant) as client:
        path = _identities_path(name, tenant) + (f"?issuer={path_segment(issuer)}" if issuer else "")
        identities = client.delete(path)
    _print_identities(identities, as_json=as_json)


def _identities_path(name: str, tenant: str) -> str:
    return f"{person_path(name, tenant)}/identities"


def _print_identities(person: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(person)
        return
    for item in person["identities"]:
        print_result(f"{printable(item['subject'], 255)}  {printable(item['issuer'], 255)}")
    if not person["identities"]:
        print_message(f"no identity is linked to {person['id']}")
