"""Small changes to an installed plugin: `enable`, `disable`, `pin`, `repair`, `alias`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.cli.odd_words import tell_odd_words
from paddock.cli.output import AsJson, Yes, document, reporting, say, show_problems, styled
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.manifest.capability import Capability

MOST_NAMED = 12

Name = Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")]
Grants = Annotated[
    list[str] | None,
    typer.Option("--grant", metavar="CAPABILITY", help="Say yes to one new capability; repeat it for each."),
]


def register(app: typer.Typer) -> None:
    app.command(
        "enable",
        epilog="Examples: paddock plugin enable memory-markdown   ·   paddock plugin enable notes --tenant acme --yes",
    )(enable)
    app.command("disable", epilog="Example: paddock plugin disable memory-markdown")(disable)
    app.command("pin", epilog="Examples: paddock plugin pin notes 1.2.0   ·   paddock plugin pin notes --off")(pin)
    app.command("repair", epilog="Example: paddock plugin repair notes")(repair)
    app.command("alias", epilog="Example: paddock plugin alias counter slow-count")(alias)


def _done(as_json: bool, words: str, **facts: object) -> None:
    if as_json:
        document(facts)
    else:
        say(f"{styled('✓', 'green')} {words}")


def _changed(as_json: bool, words: str, *, name: str, anew: bool = False, **facts: object) -> None:
    """The same for what may run differently from now on: a running daemon is asked whether it does."""
    from paddock.cli.running import runs_again

    if not as_json:
        _done(False, words)
    runtime = runs_again(name, anew=anew)
    if as_json:
        document({"name": name, **facts} | ({"runtime": runtime} if runtime else {}))


@reporting
def enable(
    name: Name, *, tenant: OfTenant = DEFAULT, grant: Grants = None, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let a plugin run. Its files are checked against what you consented to, every time. A running daemon starts it.

    Installing a plugin is a yes for the default tenant. For another one you are shown what it will do, and asked.
    """
    from paddock.cli.daemon import part, running_daemon
    from paddock.cli.opening import changing, in_path
    from paddock.cli.running import does_not_run, runtime_of, unused_config, warnings_of
    from paddock.config.local import read_entries
    from paddock.plugins.enabling import enable as enable_plugin
    from paddock.plugins.readable_places import closed_places_here
    from paddock.plugins.registry import manifest_of
    from paddock.plugins.unset_references import unset_references

    granted = _granted(name, tenant, grant or [], yes=yes)
    if (daemon := running_daemon(tenant=tenant)) is not None:
        was_known = daemon.get(f"/plugins/{in_path(name)}/tools")["known"]
        started = daemon.post(f"/plugins/{in_path(name)}/enable", {"grant": [str(one) for one in granted]})
        shown = daemon.get(f"/plugins/{part(started['name'])}")
        warnings = (*warnings_of(shown), *unused_config(started))
        show_problems(warnings, "!", "yellow")
        if started["state"] != "running":
            raise does_not_run(started)
        words = f"enabled {started['name']} {started['version']}{_for(tenant)}; it runs (pid {started['pid']})"
        facts = {"name": started["name"], "version": started["version"], "state": "enabled"}
        _done(as_json, words, **facts, runtime=runtime_of(started), warnings=[one.to_dict() for one in warnings])
        if not was_known:
            _tell_of_tools(started["name"], tenant, shown["callables"])
            tell_odd_words(shown["hints"], f"paddock plugin tools {started['name']}{for_tenant(tenant)}")
        return
    with changing(tenant) as host:
        row = enable_plugin(host.plugins, name, granted)
        entry = read_entries(host.plugins.values_file).get(row.plugin)
        unset = unset_references(host.plugins, entry, os.environ) if entry else {}
    warnings = closed_places_here(manifest_of(row).capabilities)  # all of them are granted, or it was refused
    warnings += [problem for problems in unset.values() for problem in problems]
    facts = {"name": row.plugin, "version": row.version, "state": "enabled", "runtime": None}
    words = f"enabled {row.plugin} {row.version}{_for(tenant)}"
    _done(as_json, words, **facts, warnings=[one.to_dict() for one in warnings])
    show_problems(warnings, "!", "yellow")


def _granted(name: str, tenant: str, grants: list[str], *, yes: bool) -> list[Capability]:
    """What the plugin asks for beyond what this tenant granted, once a person said yes to it.

    Raises:
        NeedsConsent: there is nobody to ask, or they said no.
        OperatorError: a yes was given to what the plugin does not ask for.
    """
    if tenant == DEFAULT and not grants:
        return []  # it was asked for when the plugin was installed
    from paddock.cli.opening import reading
    from paddock.plugins.definitions.tools import tools_of
    from paddock.plugins.granting import standing_for

    with reading(tenant) as host:
        standing = host.plugins.database.read(lambda tx: standing_for(tx, host.plugins, name))
        hints = tools_of(host.plugins, name).hints()
    missing = standing.missing()
    first = standing.grant is None and tenant != DEFAULT
    if not (missing or first or grants):
        return []
    from paddock.cli.consent import acknowledge, confirm, parse_grants, require_asked, show_screen
    from paddock.plugins.consent import grant_screen
    from paddock.plugins.registry import manifest_of

    retype = f"paddock plugin enable {name}{for_tenant(tenant)}"
    require_asked(grants, manifest_of(standing.row), "install a version that asks for it")
    named = parse_grants(grants)
    if first:
        screen = grant_screen(standing.row, tenant, hints)
        show_screen(screen)
        confirm(screen.question, yes=yes, retype=retype, details={"screen": screen.to_value()})
        return missing
    # As with an upgrade: what widens the fence takes a yes of its own, each by itself.
    flags = [f"--grant {shlex.quote(str(one))}" for one in missing if one not in named]
    return acknowledge(missing, named, " ".join([retype, *flags]))


def _for(tenant: str) -> str:
    return "" if tenant == DEFAULT else f" for {tenant}"


def _tell_of_tools(name: str, tenant: str, tools: Sequence[str]) -> None:
    """What a server offers that was just met for the first time."""
    if tools:
        counted = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
        named = ", ".join(printable(tool) for tool in tools[:MOST_NAMED]) + (", …" if len(tools) > MOST_NAMED else "")
        say(f"{counted} seen for the first time: {named} — paddock plugin tools {name}{for_tenant(tenant)}")


@reporting
def disable(name: Name, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Keep a plugin installed, and let it run no more. A running daemon stops it."""
    from paddock.cli.daemon import running_daemon
    from paddock.cli.opening import changing, in_path
    from paddock.plugins.enabling import disable as disable_plugin

    if (daemon := running_daemon(tenant=tenant)) is not None:
        stopped = daemon.post(f"/plugins/{in_path(name)}/disable")
        _done(as_json, f"disabled {stopped['name']}{_for(tenant)}", **stopped)
        return
    with changing(tenant) as host:
        plugin = disable_plugin(host.plugins, name)
    words = f"disabled {plugin.name}{_for(tenant)}"
    _done(as_json, words, name=plugin.name, version=plugin.current_version, state="disabled")


@reporting
def pin(
    name: Name,
    version: Annotated[str | None, typer.Argument(help="An installed version; the one in use when left out.")] = None,
    *,
    off: Annotated[bool, typer.Option("--off", help="Let the plugin move again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hold a plugin at a version: no upgrade moves it."""
    from paddock.cli.opening import changing
    from paddock.plugins import versions

    with changing() as host:
        plugin = versions.unpin(host.plugins, name) if off else versions.pin(host.plugins, name, version)
    words = (
        f"{plugin.name} may move again; {plugin.current_version} is in use"
        if off
        else f"pinned {plugin.name} to {plugin.current_version}"
    )
    _changed(as_json, words, name=plugin.name, pinned=plugin.pinned_version, version=plugin.current_version)


@reporting
def repair(name: Name, *, as_json: AsJson = False) -> None:
    """Put back the files of a modified plugin from the package you consented to, and build anew what it runs in.

    A running daemon ends its process and starts another, with the files that were put back.
    """
    from paddock.cli.opening import changing
    from paddock.cli.progress import ProgressLine
    from paddock.plugins.registry import require_plugin
    from paddock.plugins.repair import repair as repair_plugin

    with changing() as host, ProgressLine() as line:
        plugin = host.plugins.database.read(lambda tx: require_plugin(tx, name))
        mended = repair_plugin(host.plugins, name, line.report)
    versions = [row.version for row in mended]
    words = f"restored {name} {', '.join(versions)}" if mended else f"{name} was not modified"
    # What runs of it may have loaded what was changed.
    _changed(as_json, words, name=plugin.name, anew=plugin.current_version in versions, restored=versions)


@reporting
def alias(
    other: Annotated[str, typer.Argument(metavar="ALIAS", help="The other name.")],
    name: Annotated[str | None, typer.Argument(help="The plugin it stands for.")] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Forget the alias.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a plugin another name, or forget one."""
    from paddock.cli.opening import changing
    from paddock.plugins import aliases

    if remove == (name is not None):
        raise typer.BadParameter("give the plugin's name, or --remove")
    with changing() as host:
        if name is None:
            aliases.remove(host.plugins, other)
            _done(as_json, f"forgot {other}", alias=other, removed=True)
        else:
            target = aliases.add(host.plugins, other, name)
            _done(as_json, f"{other} stands for {target}", alias=other, name=target)
