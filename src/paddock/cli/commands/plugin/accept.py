"""`paddock plugin accept`: look at what a server says of itself now, and take it or leave it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, TenantOption
from paddock.cli.commands.plugin.tools import print_suspicious_text
from paddock.cli.output.report import (
    JsonOption,
    YesOption,
    ask_yes_no,
    format_table,
    handle_errors,
    is_interactive,
    print_json,
    print_message,
    print_result,
    styled,
)
from paddock.core.errors import NeedsConsent, NotFound, PluginError
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.plugins.tool_pinning.accept import DefinitionReview

_DIFF_COLOURS = {"-": "red", "+": "green"}


def register(app: typer.Typer) -> None:
    app.command("accept", epilog="Examples: paddock plugin accept   ·   paddock plugin accept files read_file --yes")(
        accept
    )


@handle_errors
def accept(
    name: Annotated[str | None, typer.Argument(help="The plugin; without it, all that waits is listed.")] = None,
    tool: Annotated[str | None, typer.Argument(help="What of it; you are asked about each when left out.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Answer once for all of the plugin that waits.")] = False,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only this kind: tool, prompt, resource, instructions …")
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accept what a server says of itself now, after showing how that differs from what was accepted before."""
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.tool_pinning.accept import review_definitions

    if name is None:
        _list_waiting(tenant, as_json=as_json)
        return
    with open_for_read(tenant) as host:
        shown = review_definitions(host.plugins, name)
    chosen = _select_definitions(shown, name, tool, kind)
    if yes and len(chosen) > 1 and not everything and tool is None:
        raise typer.BadParameter("several wait: name one, or give --all", param_hint="--yes")
    taken = _confirm_each(chosen, name, tool, tenant, everything=everything, yes=yes)
    accepted = _record_acceptance(name, taken, tenant)
    if as_json:
        print_json({"name": name, "accepted": accepted})
    elif not chosen:
        print_message(f"nothing that {name} says waits for a yes")


def _list_waiting(tenant: str, *, as_json: bool) -> None:
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.tool_pinning.accept import quarantined_definitions

    with open_for_read(tenant) as host:
        waiting = quarantined_definitions(host.plugins)
    if as_json:
        print_json({"waiting": [{"plugin": row.plugin, **row.to_value()} for row in waiting]})
    elif not waiting:
        print_message("nothing waits for a yes")
    else:
        cells = [[row.plugin, row.kind, row.name, row.reason] for row in waiting]
        for line in format_table(["PLUGIN", "KIND", "NAME", "WHY IT WAITS"], cells):
            print_result(line)
        first = f"{waiting[0].plugin} {shlex.quote(waiting[0].name)}{tenant_option(tenant)}"
        print_message(f"look at one: paddock plugin accept {first}")


def _select_definitions(
    shown: Sequence[DefinitionReview], plugin: str, tool: str | None, kind: str | None
) -> list[DefinitionReview]:
    """What is asked about: whatever waits, or the one that was named.

    Raises:
        NotFound: nothing has that name.
        PluginError: it cannot be used, whoever accepts it.
    """
    from paddock.plugins.tool_pinning.normalize import DefinitionStatus

    fitting = [one for one in shown if kind in (None, one.row.kind) and tool in (None, one.row.name)]
    waiting = [one for one in fitting if one.row.standing is DefinitionStatus.QUARANTINED]
    if tool is None or waiting:
        return waiting
    if not fitting:
        raise NotFound(
            f"{plugin} lists no {kind or 'tool'} {tool!r}",
            code="definition.not_found",
            hint=f"see what it lists: paddock plugin info {plugin}",
        )
    bad = next((one.row for one in fitting if one.row.standing is DefinitionStatus.BAD), None)
    if bad is not None:
        raise PluginError(f"{plugin} {tool} cannot be used: {bad.reason}", code="tool.bad", hint=bad.repair)
    return []


def _confirm_each(
    chosen: Sequence[DefinitionReview], plugin: str, tool: str | None, tenant: str, *, everything: bool, yes: bool
) -> list[DefinitionReview]:
    """Those of them that a person says yes to, each after it was shown.

    Raises:
        NeedsConsent: there is nobody to ask, or they said no to all.
    """
    from paddock.cli.output.consent_prompt import confirm

    for one in chosen:
        _print_definition_diff(one)
    if not chosen:
        return []
    together = everything or len(chosen) == 1
    words = ["paddock plugin accept", shlex.quote(plugin)]
    words += [shlex.quote(tool)] if tool is not None else []
    words += ["--all"] if everything or len(chosen) > 1 else []
    words += tenant_option(tenant).split()
    if together or not is_interactive():
        what = chosen[0].row.name if len(chosen) == 1 else f"all {len(chosen)} of them"
        details = {"definitions": [one.to_value() for one in chosen]}
        confirm(f"Let {plugin} offer {printable(what)} like this?", yes=yes, retype=" ".join(words), details=details)
        return list(chosen)
    taken = [
        one
        for one in chosen
        if ask_yes_no(f"Let {plugin} offer the {one.row.kind} {printable(one.row.name)} like this?")
    ]
    if not taken:
        raise NeedsConsent("you said no, and nothing was changed", code="consent_refused")
    return taken


def _print_definition_diff(one: DefinitionReview) -> None:
    """How a definition differs from what was accepted, on stderr."""
    row = one.row
    print_message(styled(f"{row.plugin}: {row.kind} {printable(row.name)}", "bold"))
    print_message(f"  {styled(printable(row.reason, 400), 'yellow')}")
    for line in one.difference:
        colour = _DIFF_COLOURS.get(line[:1])
        print_message(f"    {styled(line, colour) if colour else line}")
    print_suspicious_text([hint.to_value() for hint in one.hints], f"paddock plugin tools {row.plugin}")
    print_message()


def _record_acceptance(plugin: str, taken: Sequence[DefinitionReview], tenant: str) -> list[dict[str, Any]]:
    """Have each accepted exactly as it was shown, by the daemon where one runs."""
    from paddock.cli.client.daemon_client import running_daemon
    from paddock.cli.client.one_shot import open_for_change, plugin_path_segment

    accepted: list[dict[str, Any]] = []
    daemon = running_daemon(tenant=tenant) if taken else None
    for one in taken:
        row = one.row
        if daemon is not None:
            body = {"kind": row.kind, "name": row.name, "hash": row.waiting_hash}
            accepted.append(daemon.post(f"/plugins/{plugin_path_segment(plugin)}/definitions/accept", body))
        else:
            import os

            from paddock.config.directories import user_name
            from paddock.plugins.tool_pinning.accept import accept_definition

            by = f"local:{user_name(os.geteuid())}"
            with open_for_change(tenant) as host:
                done = accept_definition(host.plugins, plugin, row.kind, row.name, row.waiting_hash or "", by)
            accepted.append({"plugin": done.plugin, **done.to_value()})
        print_message(f"{styled('✓', 'green')} {row.plugin} may offer {row.kind} {printable(row.name)} as it does now")
    return accepted
