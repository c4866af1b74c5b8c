"""`paddock plugin enable`, `disable`, `pin`, `repair` and `alias`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.tools import print_suspicious_text
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import print_json, print_message, print_problems, styled
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.manifest.capability import Capability

MAX_TOOL_NAMES = 12

installed_plugin_argument = click.argument("name", help="The plugin's name, or an alias of it.")
enable_grant_option = click.option(
    "--grant", multiple=True, metavar="CAPABILITY", help="Consent to one new capability; may be repeated."
)


def _report_done(as_json: bool, message: str, **facts: object) -> None:
    if as_json:
        print_json(facts)
    else:
        print_message(f"{styled('✓', 'green')} {message}")


def _report_restart(
    client: ApiClient, as_json: bool, message: str, *, name: str, restart: bool = False, **facts: object
) -> None:
    """Report a change after which the plugin may run differently, and wait for a running daemon to apply it."""
    from paddock.cli.client.plugin_status import wait_until_plugin_runs

    if not as_json:
        _report_done(False, message)
    runtime = wait_until_plugin_runs(client, name, restart=restart)
    if as_json:
        print_json({"name": name, **facts} | ({"runtime": runtime} if runtime else {}))


@command(
    "enable", examples=["paddock plugin enable memory-markdown", "paddock plugin enable notes --tenant acme --yes"]
)
@installed_plugin_argument
@options.tenant
@enable_grant_option
@options.yes
@options.as_json
def enable(name: str, *, tenant: str, grant: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Enable a plugin. A running daemon starts it; its files are verified on every start.

    Consent given at installation is for the default tenant; for another tenant, the capabilities are shown and consent
    is asked for.
    """
    from paddock.cli.client.api_client import plugin_path, running_daemon
    from paddock.cli.client.local_store import open_for_change
    from paddock.cli.client.plugin_status import (
        runtime_from_response,
        stale_config_warnings,
        start_failed_error,
        warnings_from_response,
    )
    from paddock.config.local_file import read_entries
    from paddock.plugins.install.config_secrets import find_unset_references
    from paddock.plugins.install.path_checks import unreadable_paths_here
    from paddock.plugins.manage.enable import enable as enable_plugin
    from paddock.plugins.store.lookup import manifest_of

    granted = _confirm_grants(name, tenant, grant, yes=yes)
    if (daemon := running_daemon(tenant=tenant)) is not None:
        tools_known = daemon.get(f"{plugin_path(name)}/tools")["known"]
        started = daemon.post(f"{plugin_path(name)}/enable", {"grant": [str(capability) for capability in granted]})
        plugin = daemon.get(plugin_path(started["name"]))
        warnings = (*warnings_from_response(plugin), *stale_config_warnings(started))
        print_problems(warnings, "!", "yellow")
        if started["state"] != "running":
            raise start_failed_error(started)
        message = (
            f"enabled {started['name']} {started['version']}{_tenant_suffix(tenant)}; it runs (pid {started['pid']})"
        )
        facts = {"name": started["name"], "version": started["version"], "state": "enabled"}
        _report_done(
            as_json,
            message,
            **facts,
            runtime=runtime_from_response(started),
            warnings=[warning.to_dict() for warning in warnings],
        )
        if not tools_known:
            _report_discovered_tools(started["name"], tenant, plugin["callables"])
            print_suspicious_text(plugin["hints"], f"paddock plugin tools {started['name']}{tenant_option(tenant)}")
        return
    with open_for_change(tenant) as host:
        row = enable_plugin(host.plugins, name, granted)
        entry = read_entries(host.plugins.config_file).get(row.plugin)
        unset = find_unset_references(host.plugins, entry, os.environ) if entry else {}
    warnings = unreadable_paths_here(
        manifest_of(row).capabilities
    )  # all of them are granted, otherwise enabling had failed
    warnings += [problem for problems in unset.values() for problem in problems]
    facts = {"name": row.plugin, "version": row.version, "state": "enabled", "runtime": None}
    message = f"enabled {row.plugin} {row.version}{_tenant_suffix(tenant)}"
    _report_done(as_json, message, **facts, warnings=[warning.to_dict() for warning in warnings])
    print_problems(warnings, "!", "yellow")


def _confirm_grants(name: str, tenant: str, grants: Sequence[str], *, yes: bool) -> list[Capability]:
    """Confirm the capabilities that this tenant has not granted yet, and return them.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
        OperatorError: a grant names a capability that the plugin does not request.
    """
    if tenant == DEFAULT_TENANT and not grants:
        return []  # confirmed when the plugin was installed
    from paddock.cli.client.local_store import open_for_read
    from paddock.plugins.manage.enable import find_grant_state
    from paddock.plugins.tool_pinning.tools import load_tools

    with open_for_read(tenant) as host:
        state = host.plugins.database.read(lambda tx: find_grant_state(tx, host.plugins, name))
        hints = load_tools(host.plugins, name).scan_findings()
    missing = state.missing_capabilities()
    first_grant = state.grant is None and tenant != DEFAULT_TENANT
    if not (missing or first_grant or grants):
        return []
    from paddock.cli.output.consent_prompt import (
        check_grants_requested,
        confirm,
        confirm_new_capabilities,
        parse_grants,
        print_consent_screen,
    )
    from paddock.plugins.install.consent_screen import grant_screen
    from paddock.plugins.store.lookup import manifest_of

    retype = f"paddock plugin enable {name}{tenant_option(tenant)}"
    check_grants_requested(grants, manifest_of(state.row), ("install a version that asks for it", None))
    granted = parse_grants(grants)
    if first_grant:
        screen = grant_screen(state.row, tenant, hints)
        print_consent_screen(screen.to_value())
        confirm(screen.question, yes=yes, retype=retype, details={"screen": screen.to_value()})
        return missing
    # As with an upgrade: each capability that widens the cage is confirmed separately.
    flags = [f"--grant {shlex.quote(str(capability))}" for capability in missing if capability not in granted]
    return confirm_new_capabilities(missing, granted, " ".join([retype, *flags]))


def _tenant_suffix(tenant: str) -> str:
    return "" if tenant == DEFAULT_TENANT else f" for {tenant}"


def _report_discovered_tools(name: str, tenant: str, tools: Sequence[str]) -> None:
    """Print the tools of a server that ran for the first time."""
    if tools:
        count = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
        names = ", ".join(printable(tool) for tool in tools[:MAX_TOOL_NAMES]) + (
            ", …" if len(tools) > MAX_TOOL_NAMES else ""
        )
        print_message(f"{count} seen for the first time: {names} — paddock plugin tools {name}{tenant_option(tenant)}")


@command("disable", examples=["paddock plugin disable memory-markdown"])
@installed_plugin_argument
@options.tenant
@options.as_json
def disable(name: str, *, tenant: str, as_json: bool) -> None:
    """Disable a plugin. It stays installed; a running daemon stops it."""
    from paddock.cli.client.api_client import open_client, plugin_path

    with open_client(tenant) as client:
        stopped = client.post(f"{plugin_path(name)}/disable")
    _report_done(as_json, f"disabled {stopped['name']}{_tenant_suffix(tenant)}", **stopped)


@command("pin", examples=["paddock plugin pin notes 1.2.0", "paddock plugin pin notes --off"])
@installed_plugin_argument
@click.argument("version", required=False, help="An installed version. [default: the current one]")
@click.option("--off", is_flag=True, help="Remove the pin.")
@options.as_json
def pin(name: str, version: str | None, *, off: bool, as_json: bool) -> None:
    """Pin a plugin to a version: upgrades do not change it."""
    from paddock.cli.client.api_client import open_client_for_change, plugin_path

    body = {"version": None} if off else {} if version is None else {"version": version}
    with open_client_for_change() as client:
        pinned = client.post(f"{plugin_path(name)}/pin", body, timeout_s=None)
        plugin, used = pinned["name"], pinned["version"]
        message = f"{plugin} may move again; {used} is in use" if off else f"pinned {plugin} to {used}"
        _report_restart(client, as_json, message, name=plugin, pinned=pinned["pinned_version"], version=used)


@command("repair", examples=["paddock plugin repair notes"])
@installed_plugin_argument
@options.as_json
def repair(name: str, *, as_json: bool) -> None:
    """Restore the files of a modified plugin from its installed package, and rebuild its environment.

    A running daemon restarts the plugin with the restored files.
    """
    from paddock.cli.client.api_client import open_client_for_change, plugin_path
    from paddock.cli.output.status_line import ProgressLine
    from paddock.plugins.package.extract import InstallProgress

    with open_client_for_change() as client:
        with ProgressLine() as line:
            if line.callback is not None:
                line.callback(InstallProgress(f"restoring {name}"))
            repaired = client.post(f"{plugin_path(name)}/repair", timeout_s=None)
        restored = repaired["restored"]
        message = f"restored {name} {', '.join(restored)}" if restored else f"{name} was not modified"
        # A running process may have loaded the modified files.
        restart = repaired["version"] in restored
        _report_restart(client, as_json, message, name=repaired["name"], restart=restart, restored=restored)


@command("alias", examples=["paddock plugin alias counter slow-count"])
@click.argument("other", metavar="ALIAS", help="The alias.")
@click.argument("name", required=False, help="The plugin that the alias stands for.")
@click.option("--remove", is_flag=True, help="Remove the alias.")
@options.as_json
def alias(other: str, name: str | None, *, remove: bool, as_json: bool) -> None:
    """Add or remove an alias of a plugin."""
    from paddock.cli.client.api_client import open_client_for_change, path_segment
    from paddock.plugins.store.lookup import check_alias

    if remove == (name is not None):
        raise click.BadParameter("give the plugin's name, or --remove")
    check_alias(other)
    path = f"/aliases/{path_segment(other)}"
    with open_client_for_change() as client:
        if name is None:
            client.delete(path)
            _report_done(as_json, f"forgot {other}", alias=other, removed=True)
        else:
            target = client.put(path, {"plugin": name})["plugin"]
            _report_done(as_json, f"{other} stands for {target}", alias=other, name=target)
