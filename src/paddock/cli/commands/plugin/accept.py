"""`paddock plugin accept`: review a server's changed definitions and accept them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.tools import print_suspicious_text
from paddock.cli.output.report import (
    ask_yes_no,
    format_table,
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


@command("accept", examples=["paddock plugin accept", "paddock plugin accept files read_file --yes"])
@click.argument("name", required=False, help="The plugin; without it, all that waits is listed.")
@click.argument("tool", required=False, help="What of it; you are asked about each when left out.")
@click.option("--all", "everything", is_flag=True, help="Answer once for all of the plugin that waits.")
@click.option("--kind", metavar="KIND", help="Only this kind: tool, prompt, resource, instructions …")
@options.tenant
@options.yes
@options.as_json
def accept(
    name: str | None, tool: str | None, *, everything: bool, kind: str | None, tenant: str, yes: bool, as_json: bool
) -> None:
    """Accept what a server says of itself now, after showing how that differs from what was accepted before."""
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.tool_pinning.accept import review_definitions

    if name is None:
        _list_waiting(tenant, as_json=as_json)
        return
    with open_for_read(tenant) as host:
        reviews = review_definitions(host.plugins, name)
    selected = _select_definitions(reviews, name, tool, kind)
    if yes and len(selected) > 1 and not everything and tool is None:
        raise click.BadParameter("several wait: name one, or give --all", param_hint="--yes")
    confirmed = _confirm_each(selected, name, tool, tenant, everything=everything, yes=yes)
    accepted = _record_acceptance(name, confirmed, tenant)
    if as_json:
        print_json({"name": name, "accepted": accepted})
    elif not selected:
        print_message(f"nothing that {name} says waits for a yes")


def _list_waiting(tenant: str, *, as_json: bool) -> None:
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.tool_pinning.accept import quarantined_definitions

    with open_for_read(tenant) as host:
        quarantined = quarantined_definitions(host.plugins)
    if as_json:
        print_json({"waiting": [{"plugin": row.plugin, **row.to_value()} for row in quarantined]})
    elif not quarantined:
        print_message("nothing waits for a yes")
    else:
        cells = [[row.plugin, row.kind, row.name, row.reason] for row in quarantined]
        for line in format_table(["PLUGIN", "KIND", "NAME", "WHY IT WAITS"], cells):
            print_result(line)
        first = f"{quarantined[0].plugin} {shlex.quote(quarantined[0].name)}{tenant_option(tenant)}"
        print_message(f"look at one: paddock plugin accept {first}")


def _select_definitions(
    reviews: Sequence[DefinitionReview], plugin: str, tool: str | None, kind: str | None
) -> list[DefinitionReview]:
    """Return the definitions to ask about: all quarantined ones, or the named one.

    Raises:
        NotFound: there is none of that name.
        PluginError: it is invalid, and cannot be accepted.
    """
    from paddock.plugins.tool_pinning.normalize import DefinitionStatus

    matching = [review for review in reviews if kind in (None, review.row.kind) and tool in (None, review.row.name)]
    quarantined = [review for review in matching if review.row.standing is DefinitionStatus.QUARANTINED]
    if tool is None or quarantined:
        return quarantined
    if not matching:
        raise NotFound(
            f"{plugin} lists no {kind or 'tool'} {tool!r}",
            code="definition.not_found",
            hint=f"see what it lists: paddock plugin show {plugin}",
        )
    bad = next((review.row for review in matching if review.row.standing is DefinitionStatus.BAD), None)
    if bad is not None:
        raise PluginError(f"{plugin} {tool} cannot be used: {bad.reason}", code="tool.bad", hint=bad.repair)
    return []


def _confirm_each(
    reviews: Sequence[DefinitionReview], plugin: str, tool: str | None, tenant: str, *, everything: bool, yes: bool
) -> list[DefinitionReview]:
    """Show each definition and return those that the person accepts.

    Raises:
        NeedsConsent: there is no terminal to ask on, or all were declined.
    """
    from paddock.cli.output.consent_prompt import confirm

    for review in reviews:
        _print_definition_diff(review)
    if not reviews:
        return []
    ask_once = everything or len(reviews) == 1
    command = ["paddock plugin accept", shlex.quote(plugin)]
    command += [shlex.quote(tool)] if tool is not None else []
    command += ["--all"] if everything or len(reviews) > 1 else []
    command += tenant_option(tenant).split()
    if ask_once or not is_interactive():
        subject = reviews[0].row.name if len(reviews) == 1 else f"all {len(reviews)} of them"
        details = {"definitions": [review.to_value() for review in reviews]}
        confirm(
            f"Let {plugin} offer {printable(subject)} like this?", yes=yes, retype=" ".join(command), details=details
        )
        return list(reviews)
    confirmed = [
        review
        for review in reviews
        if ask_yes_no(f"Let {plugin} offer the {review.row.kind} {printable(review.row.name)} like this?")
    ]
    if not confirmed:
        raise NeedsConsent("you said no, and nothing was changed", code="consent_refused")
    return confirmed


def _print_definition_diff(review: DefinitionReview) -> None:
    """Print how a definition differs from the accepted one, on stderr."""
    row = review.row
    print_message(styled(f"{row.plugin}: {row.kind} {printable(row.name)}", "bold"))
    print_message(f"  {styled(printable(row.reason, 400), 'yellow')}")
    for line in review.difference:
        colour = _DIFF_COLOURS.get(line[:1])
        print_message(f"    {styled(line, colour) if colour else line}")
    print_suspicious_text([hint.to_value() for hint in review.hints], f"paddock plugin tools {row.plugin}")
    print_message()


def _record_acceptance(plugin: str, reviews: Sequence[DefinitionReview], tenant: str) -> list[dict[str, Any]]:
    """Accept each definition exactly as it was shown, through the daemon if one runs."""
    from paddock.cli.client.api_client import running_daemon
    from paddock.cli.client.one_shot import open_for_change, plugin_path_segment

    accepted: list[dict[str, Any]] = []
    daemon = running_daemon(tenant=tenant) if reviews else None
    for review in reviews:
        row = review.row
        if daemon is not None:
            body = {"kind": row.kind, "name": row.name, "hash": row.waiting_hash}
            accepted.append(daemon.post(f"/plugins/{plugin_path_segment(plugin)}/definitions/accept", body))
        else:
            import os

            from paddock.config.directories import user_name
            from paddock.plugins.tool_pinning.accept import accept_definition

            principal = f"local:{user_name(os.geteuid())}"
            with open_for_change(tenant) as host:
                definition = accept_definition(
                    host.plugins, plugin, row.kind, row.name, row.waiting_hash or "", principal
                )
            accepted.append({"plugin": definition.plugin, **definition.to_value()})
        print_message(f"{styled('✓', 'green')} {row.plugin} may offer {row.kind} {printable(row.name)} as it does now")
    return accepted
