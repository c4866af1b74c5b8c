"""`paddock plugin accept`: look at what a server says of itself now, and take it or leave it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.odd_words import tell_odd_words
from paddock.cli.output import AsJson, Yes, ask, document, interactive, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import NeedsConsent, NotFound, PluginError
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.plugins.definitions.accepting import Shown

_COLOURS = {"-": "red", "+": "green"}


def register(app: typer.Typer) -> None:
    app.command("accept", epilog="Examples: paddock plugin accept   ·   paddock plugin accept files read_file --yes")(
        accept
    )


@reporting
def accept(
    name: Annotated[str | None, typer.Argument(help="The plugin; without it, all that waits is listed.")] = None,
    tool: Annotated[str | None, typer.Argument(help="What of it; you are asked about each when left out.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Answer once for all of the plugin that waits.")] = False,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only this kind: tool, prompt, resource, instructions …")
    ] = None,
    tenant: OfTenant = DEFAULT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Accept what a server says of itself now, after showing how that differs from what was accepted before."""
    from paddock.cli.opening import reading
    from paddock.plugins.definitions.accepting import shown_definitions

    if name is None:
        _list_waiting(tenant, as_json=as_json)
        return
    with reading(tenant) as host:
        shown = shown_definitions(host.plugins, name)
    chosen = _chosen(shown, name, tool, kind)
    if yes and len(chosen) > 1 and not everything and tool is None:
        raise typer.BadParameter("several wait: name one, or give --all", param_hint="--yes")
    taken = _consented(chosen, name, tool, tenant, everything=everything, yes=yes)
    accepted = _recorded(name, taken, tenant)
    if as_json:
        document({"name": name, "accepted": accepted})
    elif not chosen:
        say(f"nothing that {name} says waits for a yes")


def _list_waiting(tenant: str, *, as_json: bool) -> None:
    from paddock.cli.opening import reading
    from paddock.plugins.definitions.accepting import all_waiting

    with reading(tenant) as host:
        waiting = all_waiting(host.plugins)
    if as_json:
        document({"waiting": [{"plugin": row.plugin, **row.to_value()} for row in waiting]})
    elif not waiting:
        say("nothing waits for a yes")
    else:
        cells = [[row.plugin, row.kind, row.name, row.reason] for row in waiting]
        for line in table(["PLUGIN", "KIND", "NAME", "WHY IT WAITS"], cells):
            result(line)
        first = f"{waiting[0].plugin} {shlex.quote(waiting[0].name)}{for_tenant(tenant)}"
        say(f"look at one: paddock plugin accept {first}")


def _chosen(shown: Sequence[Shown], plugin: str, tool: str | None, kind: str | None) -> list[Shown]:
    """What is asked about: whatever waits, or the one that was named.

    Raises:
        NotFound: nothing has that name.
        PluginError: it cannot be used, whoever accepts it.
    """
    from paddock.plugins.definitions.standing import Standing

    fitting = [one for one in shown if kind in (None, one.row.kind) and tool in (None, one.row.name)]
    waiting = [one for one in fitting if one.row.standing is Standing.QUARANTINED]
    if tool is None or waiting:
        return waiting
    if not fitting:
        raise NotFound(
            f"{plugin} lists no {kind or 'tool'} {tool!r}",
            code="definition.not_found",
            hint=f"see what it lists: paddock plugin info {plugin}",
        )
    bad = next((one.row for one in fitting if one.row.standing is Standing.BAD), None)
    if bad is not None:
        raise PluginError(f"{plugin} {tool} cannot be used: {bad.reason}", code="tool.bad", hint=bad.repair)
    return []


def _consented(
    chosen: Sequence[Shown], plugin: str, tool: str | None, tenant: str, *, everything: bool, yes: bool
) -> list[Shown]:
    """Those of them that a person says yes to, each after it was shown.

    Raises:
        NeedsConsent: there is nobody to ask, or they said no to all.
    """
    from paddock.cli.consent import confirm

    for one in chosen:
        _show(one)
    if not chosen:
        return []
    together = everything or len(chosen) == 1
    words = ["paddock plugin accept", shlex.quote(plugin)]
    words += [shlex.quote(tool)] if tool is not None else []
    words += ["--all"] if everything or len(chosen) > 1 else []
    words += for_tenant(tenant).split()
    if together or not interactive():
        what = chosen[0].row.name if len(chosen) == 1 else f"all {len(chosen)} of them"
        details = {"definitions": [one.to_value() for one in chosen]}
        confirm(f"Let {plugin} offer {printable(what)} like this?", yes=yes, retype=" ".join(words), details=details)
        return list(chosen)
    taken = [
        one for one in chosen if ask(f"Let {plugin} offer the {one.row.kind} {printable(one.row.name)} like this?")
    ]
    if not taken:
        raise NeedsConsent("you said no, and nothing was changed", code="consent_refused")
    return taken


def _show(one: Shown) -> None:
    """How a definition differs from what was accepted, on stderr."""
    row = one.row
    say(styled(f"{row.plugin}: {row.kind} {printable(row.name)}", "bold"))
    say(f"  {styled(printable(row.reason, 400), 'yellow')}")
    for line in one.difference:
        colour = _COLOURS.get(line[:1])
        say(f"    {styled(line, colour) if colour else line}")
    tell_odd_words([hint.to_value() for hint in one.hints], f"paddock plugin tools {row.plugin}")
    say()


def _recorded(plugin: str, taken: Sequence[Shown], tenant: str) -> list[dict[str, Any]]:
    """Have each accepted exactly as it was shown, by the daemon where one runs."""
    from paddock.cli.daemon import running_daemon
    from paddock.cli.opening import changing, in_path

    accepted: list[dict[str, Any]] = []
    daemon = running_daemon(tenant=tenant) if taken else None
    for one in taken:
        row = one.row
        if daemon is not None:
            body = {"kind": row.kind, "name": row.name, "hash": row.waiting_hash}
            accepted.append(daemon.post(f"/plugins/{in_path(plugin)}/definitions/accept", body))
        else:
            import os

            from paddock.config.owners import user_name
            from paddock.plugins.definitions.accepting import accept as accept_definition

            by = f"local:{user_name(os.geteuid())}"
            with changing(tenant) as host:
                done = accept_definition(host.plugins, plugin, row.kind, row.name, row.waiting_hash or "", by)
            accepted.append({"plugin": done.plugin, **done.to_value()})
        say(f"{styled('✓', 'green')} {row.plugin} may offer {row.kind} {printable(row.name)} as it does now")
    return accepted
