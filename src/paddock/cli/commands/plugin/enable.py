"""`paddock plugin enable`, `disable`, `pin`, `repair` and `alias`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.tools import MAX_TOOL_NAMES, report_discovered_tools
from paddock.cli.commands.plugin.trust import offer_read_marks, trust_reads_option
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import (
    ask_yes_no,
    is_interactive,
    print_error,
    print_json,
    print_message,
    print_problems,
    styled,
)
from paddock.core.action import Action
from paddock.core.error_formats import exit_code
from paddock.core.errors import Unavailable
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.manifest.capability import Capability

# How a plugin fails that may lack a grant.
_UNMET_NEED_CODES = ("plugin.crashed", "initialize.timeout", "cage.program_elsewhere", "cage.throwaway_path")
GRANT_MORE_HINT = "install a version that asks for it"

installed_plugin_argument = click.argument("name", help="The plugin's name, or an alias of it.")
enable_grant_option = click.option(
    "--grant", multiple=True, metavar="CAPABILITY", help="Consent to one new or dangerous capability; may be repeated."
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
@trust_reads_option
@click.option("--no-start", is_flag=True, help="Only record that it is enabled. It starts with its first call.")
@options.yes
@options.as_json
def enable(
    name: str,
    *,
    tenant: str,
    grant: tuple[str, ...],
    trust_reads: bool | None,
    no_start: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Enable a plugin and start it; its files are verified on every start.

    Without a daemon it is started once, to see whether it answers, and ends with this command.

    Consent given at installation is for the default tenant; for another tenant, the capabilities are shown and consent
    is asked for.
    """
    from paddock.cli.client.api_client import open_client, open_client_for_change

    with open_client_for_change(tenant) as client:
        granted = _confirm_grants(client, name, tenant, grant, yes=yes)

        def start() -> EnabledPlugin:
            return enable_installed(client, name, granted, trust_reads=bool(trust_reads), no_start=no_start)

        enabled, facts = report_or_try(client, start, tenant, quiet=as_json)
    if as_json:
        print_json(facts)
    elif trust_reads is None and enabled.has_marks:
        with open_client(tenant) as client:
            offer_read_marks(client, enabled.response["name"], tenant)


class EnabledPlugin(Struct, frozen=True):
    """What came of enabling a plugin.

    Attributes:
        response: The answer of the host.
        starts: Whether it was started.
        discovered: The plugin as it is listed, if it never ran before; a trial is no run.
        tried: Its tools that a trial saw.
        has_daemon: Whether it goes on running.
        has_marks: Whether it has read-only marks that are not trusted.
        quarantined: Its tools that wait for a person, because they are described otherwise than before.
        kept_disabled: Whether it did not start, and is disabled, as before.
    """

    response: dict[str, Any]
    starts: bool
    discovered: dict[str, Any] | None
    tried: frozenset[str]
    has_daemon: bool
    has_marks: bool
    quarantined: tuple[str, ...]
    kept_disabled: bool


def enable_installed(
    client: ApiClient,
    name: str,
    granted: Sequence[Capability] = (),
    *,
    trust_reads: bool = False,
    no_start: bool = False,
) -> EnabledPlugin:
    """Enable an installed plugin, and start it: without a daemon, until this command ends.

    The host disables one again that was disabled and does not start.
    """
    from paddock.cli.client.api_client import plugin_path

    path = plugin_path(name)
    before = client.get(f"{path}/tools")
    tried = frozenset(tool["name"] for tool in before["tools"]) if before["known"] else frozenset[str]()
    has_run = before["known"] and not (before["listing"] and before["listing"]["trial"])
    body = {"grant": [str(capability) for capability in granted], "start": not no_start, "disable_unless_started": True}
    body |= {"trust_reads": True} if trust_reads else {}
    response = client.post(f"{path}/enable", body, timeout_s=None)
    discovered = None if no_start or has_run else client.get(plugin_path(response["name"]))
    after = client.get(f"{path}/tools")
    return EnabledPlugin(
        response,
        not no_start,
        discovered,
        tried,
        client.has_daemon,
        has_marks=bool(after["read_marks"]["untrusted"]),
        quarantined=tuple(tool["name"] for tool in after["tools"] if tool["standing"] == "quarantined"),
        kept_disabled=not response["enabled"],
    )


def report_or_try(
    client: ApiClient, start: Callable[[], EnabledPlugin], tenant: str, *, quiet: bool
) -> tuple[EnabledPlugin, dict[str, Any]]:
    """Start a plugin and report it. At a terminal, one that may lack a grant can be tried, and is then started again.

    Raises:
        PaddockError: it does not run, or does not answer in the trial.
    """
    enabled = start()
    try:
        return enabled, report_enabled(enabled, tenant, quiet=quiet)
    except Unavailable as error:
        action, name = error.action, enabled.response["name"]
        offered = action is not None and action.kind == "plugin.try" and tenant == DEFAULT_TENANT
        if quiet or not offered or not is_interactive():
            raise
        print_error(error.with_remedy(hint=error.hint, action=None))
        if not ask_yes_no(f"Try {name} in a learning cage, to see what it needs?", default=True):
            raise click.exceptions.Exit(exit_code(error)) from None
    from paddock.cli.commands.plugin.trial import no_answer_error, print_obstacles, try_and_grant

    trial = try_and_grant(client, name, (), f"paddock plugin try {name}", trust_reads=False)
    if not trial["answers"]:
        print_obstacles(trial)
        raise no_answer_error(trial)
    enabled = start()
    return enabled, report_enabled(enabled, tenant, quiet=quiet)


def report_enabled(enabled: EnabledPlugin, tenant: str, *, quiet: bool) -> dict[str, Any]:
    """Print what came of it, unless quiet, and return it as JSON data.

    Raises:
        Unavailable: it was started and does not run.
    """
    from paddock.cli.client.plugin_status import (
        runtime_from_response,
        stale_config_warnings,
        start_failed_error,
        warnings_from_response,
    )

    response, discovered = enabled.response, enabled.discovered
    name, version = response["name"], response["version"]
    warnings = (*warnings_from_response(response), *stale_config_warnings(response))
    print_problems(warnings, "!", "yellow")
    if enabled.starts and response["state"] != "running":
        error = start_failed_error(response, kept_disabled=enabled.kept_disabled)
        if discovered is not None and error.error_code in _UNMET_NEED_CODES:
            error = error.with_remedy(hint=error.hint, action=Action.of("plugin.try", plugin=name))
        raise error
    if not quiet:
        running = "; it answers" if enabled.starts else ""
        running = f"; it runs (pid {response['pid']})" if enabled.starts and enabled.has_daemon else running
        print_message(f"{styled('✓', 'green')} enabled {name} {version}{_tenant_suffix(tenant)}{running}")
    if discovered is not None:
        report_discovered_tools(discovered, tenant, tried=enabled.tried)
    if enabled.quarantined:
        changed = ", ".join(printable(one, 100) for one in enabled.quarantined[:MAX_TOOL_NAMES])
        command = f"paddock plugin accept {name}{tenant_option(tenant)}"
        print_message(
            f"{styled('!', 'yellow')} described otherwise than before, and not used until you accept that: {changed}"
            f" — {command}"
        )
    if response["trusted_reads"] and not quiet:
        print_message(f"trusted its own read-only marks: {', '.join(map(printable, response['trusted_reads']))}")
    return {
        "name": name,
        "version": version,
        "state": "enabled",
        "runtime": runtime_from_response(response) if enabled.has_daemon and enabled.starts else None,
        "warnings": [warning.to_dict() for warning in warnings],
        "trusted_reads": response["trusted_reads"],
    }


def _confirm_grants(
    client: ApiClient, name: str, tenant: str, grants: Sequence[str], *, yes: bool
) -> Sequence[Capability]:
    """Confirm the capabilities that this tenant has not granted yet, and return them.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
        OperatorError: a grant names a capability that the plugin does not request.
    """
    if tenant == DEFAULT_TENANT and not grants:
        return []  # confirmed when the plugin was installed
    from paddock.cli.client.api_client import plugin_path
    from paddock.cli.output.consent_prompt import (
        confirm,
        confirm_new_capabilities,
        parse_grants,
        print_consent_screen,
    )
    from paddock.manifest.permissions import check_grants_requested

    state = client.get(f"{plugin_path(name)}/grant")
    missing, granted = parse_grants(state["missing"]), parse_grants(grants)
    first_grant = not state["granted_before"] and tenant != DEFAULT_TENANT
    if not (missing or first_grant or grants):
        return []
    retype = f"paddock plugin enable {name}{tenant_option(tenant)}"
    check_grants_requested(
        granted, parse_grants(state["requested"]), f"{state['name']} {state['version']}", GRANT_MORE_HINT
    )
    if first_grant:
        screen = state["screen"]
        print_consent_screen(screen)
        dangerous = [one for one in missing if str(one) in {danger["capability"] for danger in screen["dangers"]}]
        flags = [f"--grant {shlex.quote(str(capability))}" for capability in dangerous if capability not in granted]
        retype = " ".join([retype, *flags])
        confirm(screen["question"], yes=yes, retype=retype, details={"screen": screen})
        confirm_new_capabilities(dangerous, granted, retype, screen["dangers"])
        return missing
    # As with an upgrade: each capability that widens the cage is confirmed separately.
    flags = [f"--grant {shlex.quote(str(capability))}" for capability in missing if capability not in granted]
    return confirm_new_capabilities(missing, granted, " ".join([retype, *flags]))


def _tenant_suffix(tenant: str) -> str:
    return "" if tenant == DEFAULT_TENANT else f" for {tenant}"


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
