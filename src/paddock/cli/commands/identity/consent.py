"""`paddock consent …`: what a person enabled for themselves and agreed to, one callable at a time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import (
    DEFAULT_TENANT_NAME,
    TenantOption,
    change_store,
    local_principal,
    read_store,
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
from paddock.manifest.names import full_name
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.principals.consents import ConsentRecord

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Keep and take back what a person agreed to, callable by callable."
)

ConsentCallableArgument = Annotated[
    str, typer.Argument(help="The callable, as in gmail.send, or a plugin that is one callable.")
]
ConsentPersonOption = Annotated[
    str | None, typer.Option("--for", metavar="PERSON", help="Whose yes it is, as in user:ann; yours when left out.")
]


@app.command("give", epilog="Example: paddock consent give slow-count.count --for user:ann")
@handle_errors
def give(
    name: ConsentCallableArgument,
    *,
    person: ConsentPersonOption = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Enable one callable for a person, with their consent to what it does. It holds until it is taken back."""
    from paddock.cli.client.one_shot import open_for_read
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.tool_pinning.tools import find_callable
    from paddock.principals.consents import give_consent

    who = _resolve_person(person, tenant)
    with open_for_read() as host:
        plugin, tool = find_callable(host.plugins, name)
    print_message(styled(f"{plugin} {printable(tool['name'])}", "bold"))
    if tool["description"]:
        print_message(f"  {printable(tool['description'], 400)}")
    print_message(f"  {styled('effects', 'dim')} {printable(', '.join(tool['effects']) or 'none', 400)}")
    retype = f"paddock consent give {name}" + (f" --for {who}" if person else "") + tenant_option(tenant)
    confirm(f"Does {who} agree that it does this for them?", yes=yes, retype=retype)
    given = change_store(tenant, lambda made: give_consent(made, who, plugin, tool["name"]))
    report_change(as_json, f"{who} agreed to {_consent_name(given)}", **asdict(given))


@app.command("revoke", epilog="Example: paddock consent revoke slow-count.count --for user:ann")
@handle_errors
def revoke(
    name: ConsentCallableArgument,
    *,
    person: ConsentPersonOption = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Take a consent back. The next call needs a new one."""
    from paddock.principals.consents import list_consents, revoke_consent

    who = _resolve_person(person, tenant)
    standing = read_store(lambda tx: list_consents(tx, tenant, who))
    of_plugin = [one for one in standing if one.plugin == name]
    found = next((one for one in standing if full_name(one.plugin, one.callable) == name), None)
    if found is None and len(of_plugin) == 1:
        found = of_plugin[0]
    plugin, _, callable_name = name.rpartition(".")
    asked = (found.plugin, found.callable) if found else (plugin, callable_name)
    taken = change_store(tenant, lambda made: revoke_consent(made, who, *asked))
    report_change(as_json, f"{who} no longer agrees to {_consent_name(taken)}", **asdict(taken))


@app.command("list", epilog="Example: paddock consent list --json")
@handle_errors
def list_(
    *,
    person: Annotated[str | None, typer.Option("--for", metavar="PERSON", help="Only of this person.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what was taken back.")] = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """List what people agreed to."""
    from paddock.principals.consents import list_consents
    from paddock.principals.tenants import require_tenant

    who = _resolve_person(person, tenant) if person else None
    rows = read_store(lambda tx: require_tenant(tx, tenant) and list_consents(tx, tenant, who, revoked=everything))
    if as_json:
        print_json({"tenant": tenant, "consents": [asdict(row) for row in rows]})
    elif rows:
        for line in format_table(["PERSON", "CALLABLE", "SINCE", "TAKEN BACK"], [_table_row(row) for row in rows]):
            print_result(line)
    else:
        print_message("nobody agreed to anything yet; try: paddock consent give NAME")


def _resolve_person(written: str | None, tenant: str) -> str:
    """Whose consent it is: somebody who exists, and who is a person."""
    from paddock.core.errors import OperatorError
    from paddock.principals.people import require_person
    from paddock.principals.principal_name import parse_principal_name

    if written is None or written == local_principal():
        return local_principal()
    subject = parse_principal_name(written, tenant)
    if subject.prefix == "local":
        return subject.id
    if subject.prefix != "user" or subject.tenant != tenant:
        raise OperatorError(
            f"{printable(written, 80)} cannot agree to anything: only people of the tenant {tenant} can",
            code="consent.not_a_person",
            hint="name a person, as in --for user:ann",
        )
    return read_store(lambda tx: require_person(tx, tenant, subject.name)).id


def _consent_name(consent: ConsentRecord) -> str:
    return printable(full_name(consent.plugin, consent.callable))


def _table_row(consent: ConsentRecord) -> list[Any]:
    return [consent.person, _consent_name(consent), consent.given_at[:16], (consent.revoked_at or "")[:16]]
