"""`paddock plugin accept`: review a server's changed definitions and accept them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.tools import print_suspicious_text
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import (
    ask_yes_no,
    format_table,
    is_interactive,
    print_json,
    print_message,
    print_result,
    styled,
)
from paddock.core.action import Action
from paddock.core.errors import NeedsConsent, NotFound, PluginError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient

Definition: TypeAlias = Mapping[str, Any]
"""A definition as the API returns it, with its plugin."""

_DIFF_COLOURS = {"-": "red", "+": "green"}


@command("accept", examples=["paddock plugin accept", "paddock plugin accept files read_file --yes"])
@click.argument("name", required=False, help="The plugin. [default: list all changed definitions]")
@click.argument("tool", required=False, help="The name of one definition. [default: ask about each]")
@click.option("--all", "everything", is_flag=True, help="Accept all changed definitions of the plugin at once.")
@click.option("--kind", metavar="KIND", help="Only definitions of this kind: tool, prompt, resource, instructions …")
@options.tenant
@options.yes
@options.as_json
def accept(
    name: str | None, tool: str | None, *, everything: bool, kind: str | None, tenant: str, yes: bool, as_json: bool
) -> None:
    """Accept changed definitions of an MCP server, after showing the difference."""
    from paddock.cli.client.api_client import open_client, plugin_path

    if name is None:
        _list_waiting(tenant, as_json=as_json)
        return
    address = f"{plugin_path(name)}/definitions"
    with open_client(tenant) as client:
        response = client.get(address)
        definitions = [{"plugin": response["name"], **definition} for definition in response["definitions"]]
        selected = _select_definitions(definitions, name, tool, kind, tenant)
        if yes and len(selected) > 1 and not everything and tool is None:
            raise click.BadParameter("several wait: name one, or give --all", param_hint="--yes")
        confirmed = _confirm_each(selected, name, tool, tenant, everything=everything, yes=yes)
        accepted = [_accept_definition(client, address, definition) for definition in confirmed]
    if as_json:
        print_json({"name": name, "accepted": accepted})
    elif not selected:
        print_message(f"{name} has no definitions to accept")


def _list_waiting(tenant: str, *, as_json: bool) -> None:
    from paddock.cli.client.api_client import open_client

    with open_client(tenant) as client:
        response = client.get("/definitions/waiting")
    waiting = response["waiting"]
    if as_json:
        print_json(response)
    elif not waiting:
        print_message("no definitions to accept")
    else:
        cells = [[item["plugin"], item["kind"], item["name"], item["reason"]] for item in waiting]
        for line in format_table(["PLUGIN", "KIND", "NAME", "WHY IT WAITS"], cells):
            print_result(line)
        first = f"{waiting[0]['plugin']} {shlex.quote(waiting[0]['name'])}{tenant_option(tenant)}"
        print_message(f"look at one: paddock plugin accept {first}")


def _select_definitions(
    definitions: Sequence[Definition], plugin: str, tool: str | None, kind: str | None, tenant: str
) -> list[Definition]:
    """Return the definitions to ask about: all quarantined ones, or the named one.

    Raises:
        NotFound: there is none of that name.
        PluginError: it is invalid, and cannot be accepted.
    """
    matching = [item for item in definitions if kind in (None, item["kind"]) and tool in (None, item["name"])]
    quarantined = [item for item in matching if item["standing"] == "quarantined"]
    if tool is None or quarantined:
        return quarantined
    if not matching:
        raise NotFound(
            f"{plugin} lists no {kind or 'tool'} {tool!r}",
            code="definition.not_found",
            action=Action.of("plugin.show", plugin=plugin, tenant=tenant),
        )
    bad = next((item for item in matching if item["standing"] == "bad"), None)
    if bad is not None:
        raise PluginError(f"{plugin} {tool} cannot be used: {bad['reason']}", code="tool.bad", hint=bad["repair"])
    return []


def _confirm_each(
    definitions: Sequence[Definition], plugin: str, tool: str | None, tenant: str, *, everything: bool, yes: bool
) -> list[Definition]:
    """Show each definition and return those that the person accepts.

    Raises:
        NeedsConsent: there is no terminal to ask on, or all were declined.
    """
    from paddock.cli.output.consent_prompt import confirm

    for definition in definitions:
        _print_definition_diff(definition, tenant)
    if not definitions:
        return []
    ask_once = everything or len(definitions) == 1
    command = ["paddock plugin accept", shlex.quote(plugin)]
    command += [shlex.quote(tool)] if tool is not None else []
    command += ["--all"] if everything or len(definitions) > 1 else []
    command += tenant_option(tenant).split()
    if ask_once or not is_interactive():
        subject = definitions[0]["name"] if len(definitions) == 1 else f"all {len(definitions)} of them"
        details = {"definitions": [_without_plugin(definition) for definition in definitions]}
        confirm(
            f"Let {plugin} offer {printable(subject)} like this?", yes=yes, retype=" ".join(command), details=details
        )
        return list(definitions)
    confirmed = [
        definition
        for definition in definitions
        if ask_yes_no(f"Let {plugin} offer the {definition['kind']} {printable(definition['name'])} like this?")
    ]
    if not confirmed:
        raise NeedsConsent("you declined; nothing was changed", code="consent_refused")
    return confirmed


def _without_plugin(definition: Definition) -> dict[str, Any]:
    return {name: value for name, value in definition.items() if name != "plugin"}


def _print_definition_diff(definition: Definition, tenant: str) -> None:
    """Print how a definition differs from the accepted one, on stderr."""
    plugin = definition["plugin"]
    print_message(styled(f"{plugin}: {definition['kind']} {printable(definition['name'])}", "bold"))
    print_message(f"  {styled(printable(definition['reason'], 400), 'yellow')}")
    for line in definition["difference"]:
        colour = _DIFF_COLOURS.get(line[:1])
        print_message(f"    {styled(line, colour) if colour else line}")
    print_suspicious_text(definition["hints"], f"paddock plugin tools {plugin}{tenant_option(tenant)}")
    print_message()


def _accept_definition(client: ApiClient, address: str, definition: Definition) -> dict[str, Any]:
    """Accept a definition exactly as it was shown."""
    kind, name = definition["kind"], definition["name"]
    accepted = client.post(f"{address}/accept", {"kind": kind, "name": name, "hash": definition["waiting_hash"]})
    print_message(f"{styled('✓', 'green')} {definition['plugin']} may offer {kind} {printable(name)} as it does now")
    return accepted
