"""Changes that a person consents to: `install`, `upgrade`, `rollback`, `uninstall`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, say, show_problems, styled
from paddock.cli.registry_choices import (
    Argument,
    Held,
    MoreArguments,
    MoreVariables,
    Name,
    Program,
    Variable,
    Widening,
    choices_typed,
)

if TYPE_CHECKING:
    from paddock.plugins.plugin_store import PluginStore
    from paddock.plugins.preparing import Prepared
    from paddock.plugins.proposal import Proposal
    from paddock.plugins.wanted import Wanted

Grants = Annotated[
    list[str] | None,
    typer.Option("--grant", metavar="CAPABILITY", help="Say yes to one new capability; repeat it for each."),
]
Ref = Annotated[str | None, typer.Option(help="A git tag, branch or commit.")]
LessTrust = Annotated[
    bool, typer.Option("--less-trust", help="Accept that fewer or other people stand behind the new version.")
]
Downgrade = Annotated[bool, typer.Option("--downgrade", help="Take an older version over a newer one.")]


def register(app: typer.Typer) -> None:
    app.command(
        "install",
        epilog="Examples: paddock plugin install ./my-plugin   ·   paddock plugin install git+https://host/x.git#v1.0"
        "   ·   paddock plugin install pypi:mcp-server-time",
    )(install)
    app.command(
        "upgrade", epilog="Examples: paddock plugin upgrade notes   ·   paddock plugin upgrade notes ./notes-2.0.zip"
    )(upgrade)
    app.command("rollback", epilog="Example: paddock plugin rollback notes --to 1.4.2")(rollback)
    app.command("uninstall", epilog="Example: paddock plugin uninstall notes --yes")(uninstall)


@reporting
def install(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="A directory, a .zip or .mcpb file, a git URL, or an MCP server's pypi:NAME or npm:NAME.",
        ),
    ],
    *,
    ref: Ref = None,
    name: Name = None,
    held: Held = None,
    program: Program = None,
    arg: Argument = None,
    env: Variable = None,
    capability: Widening = None,
    grant: Grants = None,
    downgrade: Downgrade = False,
    less_trust: LessTrust = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Install a plugin, after showing what it will do and asking. It stays disabled until you enable it."""
    from paddock.cli.opening import changing
    from paddock.plugins.sources import parse_source
    from paddock.plugins.wanted import Wanted

    wanted = parse_source(source, ref, constraints=held or [])
    repeated = _flags(("with", held), ("arg", arg), ("env", env), ("capability", capability))
    once = "".join(
        f" --{flag}={shlex.quote(text)}" for flag, text in (("ref", ref), ("name", name), ("program", program)) if text
    )
    retype = f"paddock plugin install {shlex.quote(source)}{once}{repeated}"
    choices = choices_typed(wanted, arg, capability, env, name=name, program=program)
    with changing() as host:
        value = take(
            host.plugins,
            Wanted(wanted, choices, downgrade=downgrade),
            [*(grant or []), *(capability or [])],
            retype,
            yes=yes,
            less_trust=less_trust,
        )
    tell_taken(value, as_json=as_json)


def _flags(*named: tuple[str, list[str] | None]) -> str:
    """Options that may be repeated, as they were typed."""
    return "".join(f" --{flag}={shlex.quote(text)}" for flag, texts in named for text in texts or [])


@reporting
def upgrade(
    name: Annotated[str, typer.Argument(help="The installed plugin.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[SRC]", help="Where the new version is; where it came from when left out.")
    ] = None,
    *,
    ref: Ref = None,
    arg: MoreArguments = None,
    env: MoreVariables = None,
    capability: Widening = None,
    grant: Grants = None,
    downgrade: Downgrade = False,
    less_trust: LessTrust = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Upgrade a plugin, or give a registry's server more than it was installed with. You are shown what changes."""
    from paddock.cli.opening import changing
    from paddock.plugins.registry import require_plugin
    from paddock.plugins.sources import parse_source
    from paddock.plugins.versions import recorded_source
    from paddock.plugins.wanted import Wanted

    with changing() as host:
        plugin = host.plugins.database.read(lambda tx: require_plugin(tx, name))
        retype = (
            f"paddock plugin upgrade {name}"
            + (f" {shlex.quote(source)}" if source else "")
            + (f" --ref {shlex.quote(ref)}" if ref else "")
            + _flags(("arg", arg), ("env", env), ("capability", capability))
        )
        where = parse_source(source, ref) if source is not None else None
        kind = where or recorded_source(host.plugins, plugin)
        choices = choices_typed(kind, arg, capability, env, plugin=plugin.name)
        value = take(
            host.plugins,
            Wanted(where, choices, plugin.name, ref, downgrade),
            [*(grant or []), *(capability or [])],
            retype,
            yes=yes,
            less_trust=less_trust,
        )
    tell_taken(value, as_json=as_json)


def take(
    store: PluginStore, wanted: Wanted, grants: list[str], retype: str, *, yes: bool, less_trust: bool = False
) -> dict[str, Any]:
    """Fetch, show, ask, install: the one way in for packages. What was done, as data."""
    from paddock.cli.consent import require_asked
    from paddock.cli.progress import ProgressLine
    from paddock.plugins.preparing import prepare
    from paddock.plugins.proposal import require_name
    from paddock.plugins.registry_choices import how_to_give_more
    from paddock.plugins.wanted import find

    found = find(store, wanted)
    with ProgressLine() as line, prepare(store, found.source, line.report, found.choices) as prepared:
        line.wipe()
        if found.plugin is not None:
            require_name(prepared, found.plugin.name)
        installed_as = prepared.manifest.name if prepared.installed is not None else ""
        require_asked(grants, prepared.manifest, how_to_give_more(found.source, installed_as))
        return settle(store, prepared, grants, retype, yes=yes, downgrade=wanted.downgrade, less_trust=less_trust)


def tell_taken(value: dict[str, Any], *, as_json: bool) -> None:
    """What `take` did, and for a new version of a plugin that runs, whether it still does.

    Raises:
        Unavailable: it does not.
    """
    from paddock.cli.running import runs_again

    name = value["name"]
    upgraded = value["action"] == "upgraded"
    runtime = runs_again(name, way_back=f"paddock plugin rollback {name}") if upgraded else None
    if as_json:
        document(value | ({"runtime": runtime} if runtime else {}))


def settle(
    store: PluginStore,
    prepared: Prepared,
    grants: list[str],
    retype: str,
    *,
    yes: bool,
    downgrade: bool = False,
    less_trust: bool = False,
) -> dict[str, Any]:
    """Show what was prepared, ask for what it needs, and make it part of the store."""
    from paddock.cli.consent import accept_trust, acknowledge, confirm, parse_grants, show_screen
    from paddock.cli.progress import ProgressLine
    from paddock.plugins.enabling import missing_configuration
    from paddock.plugins.proposal import Change, carry_out, proposed

    manifest = prepared.manifest
    value: dict[str, Any] = {"name": manifest.name, "version": manifest.version, "digest": prepared.staged.tree.digest}
    proposal = proposed(store, prepared, downgrade=downgrade)
    screen = proposal.screen
    if screen is None:
        return value | _settle_unchanged(store, proposal, retype, yes=yes)
    upgrading = proposal.change is Change.UPGRADE
    named = parse_grants(grants)
    show_screen(screen)
    show_problems(proposal.warnings, "!", "yellow")
    value["warnings"] = [problem.to_dict() for problem in proposal.warnings]
    value["hints"] = [hint.to_value() for hint in prepared.hints]
    flags = [
        *(f"--grant {shlex.quote(str(one))}" for one in proposal.capabilities if one not in named),
        *(["--less-trust"] if proposal.trust_lost else []),
    ]
    retype = " ".join([retype, *flags])
    confirm(screen.question, yes=yes, retype=retype, details={"screen": screen.to_value()})
    accept_trust(proposal.trust_lost, accepted=less_trust, retype=retype)
    acknowledged = acknowledge(proposal.capabilities, named, retype)
    with ProgressLine() as line:
        carry_out(store, proposal, acknowledged, less_trust=True, progress=line.report)
    value |= {"action": proposal.change.value}
    if upgrading:
        say(f"{styled('✓', 'green')} upgraded {manifest.name} {proposal.old_version} → {manifest.version}")
        return value | {"old_version": proposal.old_version, "screen": screen.to_value()}
    say(f"{styled('✓', 'green')} installed {manifest.name} {manifest.version}; it is disabled")
    for missing in missing_configuration(store, manifest):
        say(f"  {styled('→', 'dim')} first set its configuration: {missing.hint}")
    say(f"  {styled('→', 'dim')} enable it: paddock plugin enable {manifest.name}")
    return value | {"state": "disabled", "screen": screen.to_value()}


def _settle_unchanged(store: PluginStore, proposal: Proposal, retype: str, *, yes: bool) -> dict[str, Any]:
    """The same for files that are installed already: at most their signature or their configuration is new."""
    from paddock.cli.consent import confirm
    from paddock.plugins.proposal import Change, carry_out

    manifest, verdict, fields = proposal.prepared.manifest, proposal.prepared.verdict, ", ".join(proposal.fields)
    told: dict[str, Any] = {"action": proposal.change.value}
    say(f"{manifest.name} {manifest.version} is installed already, with exactly these files")
    if proposal.change is Change.VALUES:
        confirm(f"Replace its stored configuration ({fields})?", yes=yes, retype=retype)
        told["fields"] = list(proposal.fields)
    carry_out(store, proposal)
    if proposal.change is Change.SIGNATURE:
        say(f"{styled('✓', 'green')} kept its new signature: {verdict.reason}")
        told["signature"] = verdict.state.value
    elif proposal.change is Change.VALUES:
        say(f"{styled('✓', 'green')} replaced {fields}")
    return told


@reporting
def rollback(
    name: Annotated[str, typer.Argument(help="The installed plugin.")],
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="An earlier version; the last one when left out.")
    ] = None,
    grant: Grants = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Go back to an earlier version. Old versions are kept for 30 days unless configured otherwise."""
    from paddock.cli.consent import acknowledge, confirm, parse_grants, show_screen
    from paddock.cli.opening import changing
    from paddock.cli.running import runs_again
    from paddock.plugins.consent import rollback_screen
    from paddock.plugins.versions import rollback as roll_back
    from paddock.plugins.versions import rollback_target

    retype = f"paddock plugin rollback {name}" + (f" --to {to}" if to else "")
    with changing() as host:
        now, target, difference, new = rollback_target(host.plugins, name, to)
        screen = rollback_screen(now, target, difference)
        show_screen(screen)
        named = parse_grants(grant or [])
        retype = " ".join([retype, *(f"--grant {shlex.quote(str(one))}" for one in new)])
        confirm(screen.question, yes=yes, retype=retype)
        acknowledge(new, named, retype)
        roll_back(host.plugins, now, target)
    say(f"{styled('✓', 'green')} {now.plugin} is back at {target.version}")
    runtime = runs_again(now.plugin)
    if as_json:
        value = {"name": now.plugin, "action": "rolled_back", "old_version": now.version, "version": target.version}
        document(value | ({"runtime": runtime} if runtime else {}))


@reporting
def uninstall(
    name: Annotated[str, typer.Argument(help="The installed plugin.")],
    *,
    version: Annotated[str | None, typer.Option("--version", help="Remove only this version.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also when it is pinned.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove a plugin: all its versions, files, grants, data and configuration."""
    from paddock.cli.consent import confirm
    from paddock.cli.opening import put_into_effect, reading, tidy
    from paddock.plugins import removal
    from paddock.plugins.leavings import leaving

    retype = f"paddock plugin uninstall {name}" + (f" --version {version}" if version else "")
    what = f"version {version} of {name}" if version else f"{name} with all its versions, data and configuration"
    with reading() as host:
        tidy(host)
        removal.refuse(host.plugins, name, force=force or version is not None)
        confirm(f"Remove {what}?", yes=yes, retype=retype)
        if version is not None:
            removal.uninstall_version(host.plugins, name, version, force=force)
            removed = name
        else:
            removed = removal.uninstall(host.plugins, name, force=force).name
        put_into_effect(host)
        still_leaving = version is None and removed in leaving(host.plugins)
    if as_json:
        document({"name": removed, "action": "uninstalled", "version": version, "leaving": still_leaving})
    if still_leaving:
        say(f"{styled('✓', 'green')} removed {removed} with all its versions and configuration")
        say(f"  {styled('→', 'dim')} its data will be dropped when its last call has ended; the daemon sees to that")
    else:
        say(f"{styled('✓', 'green')} removed {what}")
