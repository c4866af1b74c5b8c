"""Changes that a person consents to: `install`, `upgrade`, `rollback`, `uninstall`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.commands.plugin.registry_options import (
    ArgumentOption,
    CapabilityOption,
    ConstraintOption,
    MoreArgumentsOption,
    MoreVariablesOption,
    PluginNameOption,
    ProgramOption,
    VariableOption,
    read_index_options,
)
from paddock.cli.output.report import (
    JsonOption,
    YesOption,
    handle_errors,
    print_json,
    print_message,
    print_problems,
    styled,
)

if TYPE_CHECKING:
    from paddock.plugins.install.plan import InstallPlan
    from paddock.plugins.install.request import InstallRequest
    from paddock.plugins.install.resolve import ResolvedPackage
    from paddock.plugins.store.store import PluginStore

GrantOption = Annotated[
    list[str] | None,
    typer.Option("--grant", metavar="CAPABILITY", help="Say yes to one new capability; repeat it for each."),
]
GitRefOption = Annotated[str | None, typer.Option(help="A git tag, branch or commit.")]
LessTrustOption = Annotated[
    bool, typer.Option("--less-trust", help="Accept that fewer or other people stand behind the new version.")
]
DowngradeOption = Annotated[bool, typer.Option("--downgrade", help="Take an older version over a newer one.")]


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


@handle_errors
def install(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="A directory, a .zip or .mcpb file, a git URL, or an MCP server's pypi:NAME or npm:NAME.",
        ),
    ],
    *,
    ref: GitRefOption = None,
    name: PluginNameOption = None,
    held: ConstraintOption = None,
    program: ProgramOption = None,
    arg: ArgumentOption = None,
    env: VariableOption = None,
    capability: CapabilityOption = None,
    grant: GrantOption = None,
    downgrade: DowngradeOption = False,
    less_trust: LessTrustOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Install a plugin, after showing what it will do and asking. It stays disabled until you enable it."""
    from paddock.cli.client.one_shot import open_for_change
    from paddock.plugins.install.request import InstallRequest
    from paddock.plugins.package.source import parse_source

    wanted = parse_source(source, ref, constraints=held or [])
    repeated = _repeated_flags(("with", held), ("arg", arg), ("env", env), ("capability", capability))
    once = "".join(
        f" --{flag}={shlex.quote(text)}" for flag, text in (("ref", ref), ("name", name), ("program", program)) if text
    )
    retype = f"paddock plugin install {shlex.quote(source)}{once}{repeated}"
    choices = read_index_options(wanted, arg, capability, env, name=name, program=program)
    with open_for_change() as host:
        value = install_package(
            host.plugins,
            InstallRequest(wanted, choices, downgrade=downgrade),
            [*(grant or []), *(capability or [])],
            retype,
            yes=yes,
            less_trust=less_trust,
        )
    report_installed(value, as_json=as_json)


def _repeated_flags(*named: tuple[str, list[str] | None]) -> str:
    """Options that may be repeated, as they were typed."""
    return "".join(f" --{flag}={shlex.quote(text)}" for flag, texts in named for text in texts or [])


@handle_errors
def upgrade(
    name: Annotated[str, typer.Argument(help="The installed plugin.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[SRC]", help="Where the new version is; where it came from when left out.")
    ] = None,
    *,
    ref: GitRefOption = None,
    arg: MoreArgumentsOption = None,
    env: MoreVariablesOption = None,
    capability: CapabilityOption = None,
    grant: GrantOption = None,
    downgrade: DowngradeOption = False,
    less_trust: LessTrustOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Upgrade a plugin, or give a registry's server more than it was installed with. You are shown what changes."""
    from paddock.cli.client.one_shot import open_for_change
    from paddock.plugins.install.request import InstallRequest
    from paddock.plugins.package.source import parse_source
    from paddock.plugins.store.lookup import require_plugin
    from paddock.plugins.store.versions import find_recorded_source

    with open_for_change() as host:
        plugin = host.plugins.database.read(lambda tx: require_plugin(tx, name))
        retype = (
            f"paddock plugin upgrade {name}"
            + (f" {shlex.quote(source)}" if source else "")
            + (f" --ref {shlex.quote(ref)}" if ref else "")
            + _repeated_flags(("arg", arg), ("env", env), ("capability", capability))
        )
        where = parse_source(source, ref) if source is not None else None
        kind = where or find_recorded_source(host.plugins, plugin)
        choices = read_index_options(kind, arg, capability, env, plugin=plugin.name)
        value = install_package(
            host.plugins,
            InstallRequest(where, choices, plugin.name, ref, downgrade),
            [*(grant or []), *(capability or [])],
            retype,
            yes=yes,
            less_trust=less_trust,
        )
    report_installed(value, as_json=as_json)


def install_package(
    store: PluginStore, wanted: InstallRequest, grants: list[str], retype: str, *, yes: bool, less_trust: bool = False
) -> dict[str, Any]:
    """Fetch, show, ask, install: the one way in for packages. What was done, as data."""
    from paddock.cli.output.consent_prompt import check_grants_requested
    from paddock.cli.output.status_line import ProgressLine
    from paddock.plugins.install.plan import check_same_plugin
    from paddock.plugins.install.request import grant_more_hint, resolve_request
    from paddock.plugins.install.resolve import resolve_package

    found = resolve_request(store, wanted)
    with ProgressLine() as line, resolve_package(store, found.source, line.callback, found.choices) as prepared:
        line.clear()
        if found.plugin is not None:
            check_same_plugin(prepared, found.plugin.name)
        installed_as = prepared.manifest.name if prepared.installed is not None else ""
        check_grants_requested(grants, prepared.manifest, grant_more_hint(found.source, installed_as))
        return confirm_and_commit(
            store, prepared, grants, retype, yes=yes, downgrade=wanted.downgrade, less_trust=less_trust
        )


def report_installed(value: dict[str, Any], *, as_json: bool) -> None:
    """What `take` did, and for a new version of a plugin that runs, whether it still does.

    Raises:
        Unavailable: it does not.
    """
    from paddock.cli.client.plugin_status import wait_until_running

    name = value["name"]
    upgraded = value["action"] == "upgraded"
    runtime = wait_until_running(name, way_back=f"paddock plugin rollback {name}") if upgraded else None
    if as_json:
        print_json(value | ({"runtime": runtime} if runtime else {}))


def confirm_and_commit(
    store: PluginStore,
    prepared: ResolvedPackage,
    grants: list[str],
    retype: str,
    *,
    yes: bool,
    downgrade: bool = False,
    less_trust: bool = False,
) -> dict[str, Any]:
    """Show what was prepared, ask for what it needs, and make it part of the store."""
    from paddock.cli.output.consent_prompt import (
        confirm,
        confirm_lower_trust,
        confirm_new_capabilities,
        parse_grants,
        print_consent_screen,
    )
    from paddock.cli.output.status_line import ProgressLine
    from paddock.plugins.install.plan import PlanAction, apply_plan, make_plan
    from paddock.plugins.manage.enable import missing_configuration

    manifest = prepared.manifest
    value: dict[str, Any] = {"name": manifest.name, "version": manifest.version, "digest": prepared.staged.tree.digest}
    proposal = make_plan(store, prepared, downgrade=downgrade)
    screen = proposal.screen
    if screen is None:
        return value | _confirm_unchanged(store, proposal, retype, yes=yes)
    upgrading = proposal.action is PlanAction.UPGRADE
    named = parse_grants(grants)
    print_consent_screen(screen)
    print_problems(proposal.warnings, "!", "yellow")
    value["warnings"] = [problem.to_dict() for problem in proposal.warnings]
    value["hints"] = [hint.to_value() for hint in prepared.scan_findings]
    flags = [
        *(f"--grant {shlex.quote(str(one))}" for one in proposal.capabilities if one not in named),
        *(["--less-trust"] if proposal.trust_lost else []),
    ]
    retype = " ".join([retype, *flags])
    confirm(screen.question, yes=yes, retype=retype, details={"screen": screen.to_value()})
    confirm_lower_trust(proposal.trust_lost, accepted=less_trust, retype=retype)
    acknowledged = confirm_new_capabilities(proposal.capabilities, named, retype)
    with ProgressLine() as line:
        apply_plan(store, proposal, acknowledged, less_trust=True, progress=line.callback)
    value |= {"action": proposal.action.value}
    if upgrading:
        print_message(f"{styled('✓', 'green')} upgraded {manifest.name} {proposal.old_version} → {manifest.version}")
        return value | {"old_version": proposal.old_version, "screen": screen.to_value()}
    print_message(f"{styled('✓', 'green')} installed {manifest.name} {manifest.version}; it is disabled")
    for missing in missing_configuration(store, manifest):
        print_message(f"  {styled('→', 'dim')} first set its configuration: {missing.hint}")
    print_message(f"  {styled('→', 'dim')} enable it: paddock plugin enable {manifest.name}")
    return value | {"state": "disabled", "screen": screen.to_value()}


def _confirm_unchanged(store: PluginStore, proposal: InstallPlan, retype: str, *, yes: bool) -> dict[str, Any]:
    """The same for files that are installed already: at most their signature or their configuration is new."""
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.install.plan import PlanAction, apply_plan

    manifest, verdict, fields = proposal.package.manifest, proposal.package.signature, ", ".join(proposal.fields)
    told: dict[str, Any] = {"action": proposal.action.value}
    print_message(f"{manifest.name} {manifest.version} is installed already, with exactly these files")
    if proposal.action is PlanAction.VALUES:
        confirm(f"Replace its stored configuration ({fields})?", yes=yes, retype=retype)
        told["fields"] = list(proposal.fields)
    apply_plan(store, proposal)
    if proposal.action is PlanAction.SIGNATURE:
        print_message(f"{styled('✓', 'green')} kept its new signature: {verdict.reason}")
        told["signature"] = verdict.state.value
    elif proposal.action is PlanAction.VALUES:
        print_message(f"{styled('✓', 'green')} replaced {fields}")
    return told


@handle_errors
def rollback(
    name: Annotated[str, typer.Argument(help="The installed plugin.")],
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="An earlier version; the last one when left out.")
    ] = None,
    grant: GrantOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go back to an earlier version. Old versions are kept for 30 days unless configured otherwise."""
    from paddock.cli.client.one_shot import open_for_change
    from paddock.cli.client.plugin_status import wait_until_running
    from paddock.cli.output.consent_prompt import confirm, confirm_new_capabilities, parse_grants, print_consent_screen
    from paddock.plugins.install.consent_screen import rollback_screen
    from paddock.plugins.store.versions import find_rollback_target, roll_back

    retype = f"paddock plugin rollback {name}" + (f" --to {to}" if to else "")
    with open_for_change() as host:
        now, target, difference, new = find_rollback_target(host.plugins, name, to)
        screen = rollback_screen(now, target, difference)
        print_consent_screen(screen)
        named = parse_grants(grant or [])
        retype = " ".join([retype, *(f"--grant {shlex.quote(str(one))}" for one in new)])
        confirm(screen.question, yes=yes, retype=retype)
        confirm_new_capabilities(new, named, retype)
        roll_back(host.plugins, now, target)
    print_message(f"{styled('✓', 'green')} {now.plugin} is back at {target.version}")
    runtime = wait_until_running(now.plugin)
    if as_json:
        value = {"name": now.plugin, "action": "rolled_back", "old_version": now.version, "version": target.version}
        print_json(value | ({"runtime": runtime} if runtime else {}))


@handle_errors
def uninstall(
    name: Annotated[str, typer.Argument(help="The installed plugin.")],
    *,
    version: Annotated[str | None, typer.Option("--version", help="Remove only this version.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also when it is pinned.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a plugin: all its versions, files, grants, data and configuration."""
    from paddock.cli.client.one_shot import apply_removals, clean_up_killed_commands, open_for_read
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.manage import remove
    from paddock.plugins.store.purge import pending_purges

    retype = f"paddock plugin uninstall {name}" + (f" --version {version}" if version else "")
    what = f"version {version} of {name}" if version else f"{name} with all its versions, data and configuration"
    with open_for_read() as host:
        clean_up_killed_commands(host)
        remove.check_removable(host.plugins, name, force=force or version is not None)
        confirm(f"Remove {what}?", yes=yes, retype=retype)
        if version is not None:
            remove.uninstall_version(host.plugins, name, version, force=force)
            removed = name
        else:
            removed = remove.uninstall(host.plugins, name, force=force).name
        apply_removals(host)
        still_leaving = version is None and removed in pending_purges(host.plugins)
    if as_json:
        print_json({"name": removed, "action": "uninstalled", "version": version, "leaving": still_leaving})
    if still_leaving:
        print_message(f"{styled('✓', 'green')} removed {removed} with all its versions and configuration")
        print_message(
            f"  {styled('→', 'dim')} its data will be dropped when its last call has ended; the daemon sees to that"
        )
    else:
        print_message(f"{styled('✓', 'green')} removed {what}")
