"""`paddock plugin install`, `upgrade` and `rollback`: changes that need consent."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.registry_options import (
    argument_option,
    capability_option,
    constraint_option,
    more_arguments_option,
    more_variables_option,
    plugin_name_option,
    program_option,
    read_index_options,
    variable_option,
)
from paddock.cli.output.report import print_json, print_message, print_problems, styled

if TYPE_CHECKING:
    from paddock.plugins.install.plan import InstallPlan
    from paddock.plugins.install.request import InstallRequest
    from paddock.plugins.install.resolve import ResolvedPackage
    from paddock.plugins.store.store import PluginStore

grant_option = click.option(
    "--grant", multiple=True, metavar="CAPABILITY", help="Consent to one new capability; may be repeated."
)
git_ref_option = click.option("--ref", help="A git tag, branch or commit.")
less_trust_option = click.option(
    "--less-trust", is_flag=True, help="Allow a new version that is unsigned or signed by another key."
)
downgrade_option = click.option("--downgrade", is_flag=True, help="Allow an older version to replace a newer one.")


@command(
    "install",
    examples=[
        "paddock plugin install ./my-plugin",
        "paddock plugin install git+https://host/x.git#v1.0",
        "paddock plugin install pypi:mcp-server-time",
    ],
)
@click.argument(
    "source",
    metavar="SRC",
    help="A directory, a .zip or .mcpb file, a git URL, or an MCP server's pypi:NAME or npm:NAME.",
)
@git_ref_option
@plugin_name_option
@constraint_option
@program_option
@argument_option
@variable_option
@capability_option
@grant_option
@downgrade_option
@less_trust_option
@options.yes
@options.as_json
def install(
    source: str,
    *,
    ref: str | None,
    name: str | None,
    held: tuple[str, ...],
    program: str | None,
    arg: tuple[str, ...],
    env: tuple[str, ...],
    capability: tuple[str, ...],
    grant: tuple[str, ...],
    downgrade: bool,
    less_trust: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Install a plugin, after showing its capabilities and asking for consent. Enable it afterwards to run it."""
    from paddock.cli.client.local_store import open_for_change
    from paddock.plugins.install.request import InstallRequest
    from paddock.plugins.package.source import parse_source

    package_source = parse_source(source, ref, constraints=held)
    repeated_flags = _repeated_flags(("with", held), ("arg", arg), ("env", env), ("capability", capability))
    single_flags = "".join(
        f" --{flag}={shlex.quote(text)}" for flag, text in (("ref", ref), ("name", name), ("program", program)) if text
    )
    retype = f"paddock plugin install {shlex.quote(source)}{single_flags}{repeated_flags}"
    choices = read_index_options(package_source, arg, capability, env, name=name, program=program)
    with open_for_change() as host:
        value = install_package(
            host.plugins,
            InstallRequest(package_source, choices, downgrade=downgrade),
            [*grant, *capability],
            retype,
            yes=yes,
            less_trust=less_trust,
        )
    report_installed(value, as_json=as_json)


def _repeated_flags(*options: tuple[str, Sequence[str]]) -> str:
    """Return repeatable options as they were typed."""
    return "".join(f" --{flag}={shlex.quote(text)}" for flag, texts in options for text in texts)


@command("upgrade", examples=["paddock plugin upgrade notes", "paddock plugin upgrade notes ./notes-2.0.zip"])
@click.argument("name", help="The name of an installed plugin.")
@click.argument(
    "source",
    required=False,
    metavar="[SRC]",
    help="The source of the new version. [default: the source it was installed from]",
)
@git_ref_option
@more_arguments_option
@more_variables_option
@capability_option
@grant_option
@downgrade_option
@less_trust_option
@options.yes
@options.as_json
def upgrade(
    name: str,
    source: str | None,
    *,
    ref: str | None,
    arg: tuple[str, ...],
    env: tuple[str, ...],
    capability: tuple[str, ...],
    grant: tuple[str, ...],
    downgrade: bool,
    less_trust: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Upgrade a plugin, or change the arguments of a server from a registry. The difference is shown first."""
    from paddock.cli.client.local_store import open_for_change
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
        new_source = parse_source(source, ref) if source is not None else None
        effective_source = new_source or find_recorded_source(host.plugins, plugin)
        choices = read_index_options(effective_source, arg, capability, env, plugin=plugin.name)
        value = install_package(
            host.plugins,
            InstallRequest(new_source, choices, plugin.name, ref, downgrade),
            [*grant, *capability],
            retype,
            yes=yes,
            less_trust=less_trust,
        )
    report_installed(value, as_json=as_json)


def install_package(
    store: PluginStore,
    request: InstallRequest,
    grants: Sequence[str],
    retype: str,
    *,
    yes: bool,
    less_trust: bool = False,
) -> dict[str, Any]:
    """Fetch, show, confirm and install a package; the only way in for packages. Returns the result as JSON data."""
    from paddock.cli.output.consent_prompt import check_grants_requested
    from paddock.cli.output.status_line import ProgressLine
    from paddock.plugins.install.plan import check_same_plugin
    from paddock.plugins.install.request import how_to_grant_more, resolve_request
    from paddock.plugins.install.resolve import resolve_package

    resolved = resolve_request(store, request)
    with ProgressLine() as line, resolve_package(store, resolved.source, line.callback, resolved.choices) as package:
        line.clear()
        if resolved.plugin is not None:
            check_same_plugin(package, resolved.plugin.name)
        installed_as = package.manifest.name if package.installed is not None else ""
        check_grants_requested(grants, package.manifest, how_to_grant_more(resolved.source, installed_as))
        return confirm_and_commit(
            store, package, grants, retype, yes=yes, downgrade=request.downgrade, less_trust=less_trust
        )


def report_installed(result: dict[str, Any], *, as_json: bool) -> None:
    """Report an installation and, after an upgrade, whether the plugin still runs.

    Raises:
        Unavailable: it does not.
    """
    from paddock.cli.client.plugin_status import wait_until_running

    name = result["name"]
    upgraded = result["action"] == "upgraded"
    runtime = wait_until_running(name, rollback_command=f"paddock plugin rollback {name}") if upgraded else None
    if as_json:
        print_json(result | ({"runtime": runtime} if runtime else {}))


def confirm_and_commit(
    store: PluginStore,
    package: ResolvedPackage,
    grants: Sequence[str],
    retype: str,
    *,
    yes: bool,
    downgrade: bool = False,
    less_trust: bool = False,
) -> dict[str, Any]:
    """Show the resolved package, ask for consent, and install it."""
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

    manifest = package.manifest
    result: dict[str, Any] = {"name": manifest.name, "version": manifest.version, "digest": package.staged.tree.digest}
    plan = make_plan(store, package, downgrade=downgrade)
    screen = plan.screen
    if screen is None:
        return result | _confirm_unchanged(store, plan, retype, yes=yes)
    terms, separate, upgrading = plan.terms, plan.separate_capabilities, plan.action is PlanAction.UPGRADE
    granted = parse_grants(grants)
    print_consent_screen(screen)
    print_problems(plan.warnings, "!", "yellow")
    result["warnings"] = [problem.to_dict() for problem in plan.warnings]
    result["hints"] = [hint.to_value() for hint in package.scan_findings]
    flags = [
        *(f"--grant {shlex.quote(str(capability))}" for capability in separate if capability not in granted),
        *(["--less-trust"] if terms.trust_lost else []),
    ]
    retype = " ".join([retype, *flags])
    confirm(screen.question, yes=yes, retype=retype, details={"screen": screen.to_value()})
    accepted = confirm_lower_trust(terms.trust_lost, accepted=less_trust, retype=retype)
    # The question about a new plugin covers every capability on its screen; those of an upgrade are asked one by one.
    acknowledged = confirm_new_capabilities(separate, granted, retype) if upgrading else terms.capabilities
    consent = terms.accepted(acknowledged, less_trust=accepted)
    with ProgressLine() as line:
        apply_plan(store, plan, consent, progress=line.callback)
    result |= {"action": plan.action.value}
    if upgrading:
        print_message(f"{styled('✓', 'green')} upgraded {manifest.name} {plan.old_version} → {manifest.version}")
        return result | {"old_version": plan.old_version, "screen": screen.to_value()}
    print_message(f"{styled('✓', 'green')} installed {manifest.name} {manifest.version}; it is disabled")
    for missing in missing_configuration(store, manifest):
        print_message(f"  {styled('→', 'dim')} first set its configuration: {missing.hint}")
    print_message(f"  {styled('→', 'dim')} enable it: paddock plugin enable {manifest.name}")
    return result | {"state": "disabled", "screen": screen.to_value()}


def _confirm_unchanged(store: PluginStore, plan: InstallPlan, retype: str, *, yes: bool) -> dict[str, Any]:
    """Handle files that are installed already: at most their signature or their configuration is new."""
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.install.plan import PlanAction, apply_plan

    manifest, verdict, fields = plan.package.manifest, plan.package.signature, ", ".join(plan.fields)
    result: dict[str, Any] = {"action": plan.action.value}
    print_message(f"{manifest.name} {manifest.version} is installed already, with exactly these files")
    if plan.action is PlanAction.VALUES:
        confirm(f"Replace its stored configuration ({fields})?", yes=yes, retype=retype)
        result["fields"] = list(plan.fields)
    apply_plan(store, plan, plan.terms.accepted(()))
    if plan.action is PlanAction.SIGNATURE:
        print_message(f"{styled('✓', 'green')} kept its new signature: {verdict.reason}")
        result["signature"] = verdict.state.value
    elif plan.action is PlanAction.VALUES:
        print_message(f"{styled('✓', 'green')} replaced {fields}")
    return result


@command("rollback", examples=["paddock plugin rollback notes --to 1.4.2"])
@click.argument("name", help="The name of an installed plugin.")
@click.option("--to", metavar="VERSION", help="The earlier version. [default: the previous one]")
@grant_option
@options.yes
@options.as_json
def rollback(name: str, *, to: str | None, grant: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Return to an earlier version. By default, old versions are kept for 30 days."""
    from paddock.cli.client.local_store import open_for_change
    from paddock.cli.client.plugin_status import wait_until_running
    from paddock.cli.output.consent_prompt import confirm, confirm_new_capabilities, parse_grants, print_consent_screen
    from paddock.plugins.install.consent_screen import rollback_screen
    from paddock.plugins.store.versions import find_rollback_target, roll_back

    retype = f"paddock plugin rollback {name}" + (f" --to {to}" if to else "")
    with open_for_change() as host:
        current, target, difference, new = find_rollback_target(host.plugins, name, to)
        screen = rollback_screen(current, target, difference)
        print_consent_screen(screen)
        granted = parse_grants(grant)
        retype = " ".join([retype, *(f"--grant {shlex.quote(str(capability))}" for capability in new)])
        confirm(screen.question, yes=yes, retype=retype)
        roll_back(host.plugins, current, target, confirm_new_capabilities(new, granted, retype))
    print_message(f"{styled('✓', 'green')} {current.plugin} is back at {target.version}")
    runtime = wait_until_running(current.plugin)
    if as_json:
        value = {
            "name": current.plugin,
            "action": "rolled_back",
            "old_version": current.version,
            "version": target.version,
        }
        print_json(value | ({"runtime": runtime} if runtime else {}))
