"""`paddock plugin grant`: what a tenant grants to a plugin, and granting more of what it requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.enable import GRANT_MORE_HINT, installed_plugin_argument
from paddock.cli.output.action_text import command_line
from paddock.cli.output.report import print_json, print_message, styled
from paddock.core.action import Action
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.manifest.capability import Capability


@command("grant", examples=["paddock plugin grant notes", "paddock plugin grant notes 'net:*' --tenant acme --yes"])
@installed_plugin_argument
@click.argument(
    "capabilities",
    nargs=-1,
    metavar="[CAPABILITY]...",
    help="A capability that the plugin requests. [default: show what is granted]",
)
@options.tenant
@options.yes
@options.as_json
def grant(name: str, capabilities: tuple[str, ...], *, tenant: str, yes: bool, as_json: bool) -> None:
    """Show what a tenant grants to a plugin, or grant it more of what it requests.

    A grant does not enable the plugin; one that is enabled and waits for grants starts with the last of them. What its
    manifest does not request cannot be granted: install or upgrade it with that capability.
    """
    from paddock.cli.client.api_client import open_client, open_client_for_change, plugin_path

    path = f"{plugin_path(name)}/grant"
    if not capabilities:
        with open_client(tenant) as client:
            state = client.get(path)
        _report_state(state, tenant, as_json=as_json)
        return
    with open_client_for_change(tenant) as client:
        before = client.get(path)
        _confirm(before, capabilities, tenant, yes=yes)
        body = {"grant": list(capabilities), "digest": before["digest"]}
        state = client.post(path, body, timeout_s=None)
    new = [one for one in before["missing"] if one not in state["missing"]]
    if as_json:
        print_json(_state_to_json(state) | {"new": new})
    else:
        print_message(f"{styled('✓', 'green')} {printable(state['name'])}: " + (", ".join(new) or "granted already"))


def _confirm(state: Mapping[str, Any], texts: Sequence[str], tenant: str, *, yes: bool) -> None:
    """Show the capabilities that are new, and ask for consent to them.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
        OperatorError: the plugin does not request one of them.
    """
    from paddock.cli.output.consent_prompt import confirm, parse_grants, print_consent_screen
    from paddock.manifest.permissions import check_grants_requested

    wanted = parse_grants(texts, "CAPABILITY")
    label = f"{state['name']} {state['version']}"
    check_grants_requested(wanted, parse_grants(state["requested"]), label, GRANT_MORE_HINT)
    new = [one for one in wanted if str(one) in state["missing"]]
    if not new:
        return
    screen = state["screen"]
    starts = state["enabled"] and set(state["missing"]) <= set(map(str, new))
    if starts or not state["granted_before"]:
        print_consent_screen(screen)
    reasons = {danger["capability"]: danger["reason"] for danger in screen["dangers"]}
    for capability in new:
        print_message(_capability_line(capability, reasons.get(str(capability), "")))
    action = Action.of("plugin.grant", plugin=state["name"], tenant=tenant, capabilities=tuple(map(str, new)))
    dangers = [danger for danger in screen["dangers"] if danger["capability"] in map(str, new)]
    details = {"capabilities": [str(one) for one in new], "dangers": dangers}
    if starts:
        print_message(f"{styled('!', 'yellow')} {printable(state['name'])} is enabled: this starts it")
    confirm(f"Grant this to {label}?", yes=yes, retype=command_line(action), details=details)


def _capability_line(capability: Capability, danger: str) -> str:
    from paddock.manifest.capability import describe_capability

    line = f"  • {printable(str(capability), 400)} — {printable(describe_capability(capability), 400)}"
    return f"{styled(line, 'red')}\n    {printable(danger, 400)}" if danger else line


def _report_state(state: Mapping[str, Any], tenant: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_state_to_json(state))
        return
    if not state["requested"]:
        click.echo(f"{printable(state['name'])} {printable(state['version'])} requests no capabilities")
    for capability in state["requested"]:
        mark = styled("✗", "yellow") if capability in state["missing"] else styled("✓", "green")
        status = "not granted" if capability in state["missing"] else "granted"
        click.echo(f"  {mark} {printable(capability, 400)}  {styled(status, 'dim')}")
    if state["missing"]:
        missing = tuple(map(str, state["missing"]))
        action = Action.of("plugin.grant", plugin=state["name"], tenant=tenant, capabilities=missing)
        print_message(f"  {styled('→', 'dim')} {command_line(action)}")


def _state_to_json(state: Mapping[str, Any]) -> dict[str, Any]:
    granted = [one for one in state["requested"] if one not in state["missing"]]
    return {key: state[key] for key in ("name", "version", "requested", "missing")} | {"granted": granted}
