"""`paddock user identity …`: which subject of an identity provider a person is."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.client.store_access import change_store, read_store
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
    from paddock.principals.identities import ExternalIdentity, link_identity

    external = ExternalIdentity(_resolve_issuer(issuer), subject)
    change_store(tenant, lambda change: link_identity(change, name, external))
    _print_identities(name, tenant, as_json=as_json)


@app.command("list", examples=["paddock user identity list ann"])
@person_name_argument
@options.tenant
@options.as_json
def list_(name: str, *, tenant: str, as_json: bool) -> None:
    """List the subjects that a person is linked to."""
    _print_identities(name, tenant, as_json=as_json)


@app.command("remove", examples=["paddock user identity remove ann"])
@person_name_argument
@issuer_option
@options.tenant
@options.as_json
def remove(name: str, *, issuer: str | None, tenant: str, as_json: bool) -> None:
    """Unlink a person from a provider. The next sign-in under the person's name links them again."""
    from paddock.principals.identities import unlink_identity

    provider = _resolve_issuer(issuer)
    change_store(tenant, lambda change: unlink_identity(change, name, provider))
    _print_identities(name, tenant, as_json=as_json)


def _print_identities(name: str, tenant: str, *, as_json: bool) -> None:
    from paddock.principals.identities import list_identities
    from paddock.principals.people import require_person

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
        print_message(f"no identity is linked to {person.id}")


def _resolve_issuer(option: str | None) -> str:
    """Return the issuer of the identity provider: the named one, or that of the settings."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.core.errors import OperatorError

    with open_for_read() as host:
        issuer = option or host.loaded.settings.oidc.issuer
    if issuer is None:
        raise OperatorError(
            "no identity provider is set", code="oidc.no_issuer", hint="name it with --issuer, or set oidc.issuer"
        )
    return issuer
