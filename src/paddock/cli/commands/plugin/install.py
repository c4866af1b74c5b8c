"""`paddock plugin install`, `upgrade`, `rollback` and `remove`: the versions of a plugin."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, styled
from paddock.cli.registry_options import (
    argument_option,
    capability_option,
    constraint_option,
    more_arguments_option,
    more_variables_option,
    plugin_name_option,
    program_option,
    save_option,
    variable_option,
)

grant_option = click.option(
    "--grant", multiple=True, metavar="CAPABILITY", help="Consent to one new or dangerous capability; may be repeated."
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
        "paddock plugin install ./server.py",
        "paddock plugin install ./my-plugin --grant 'net:*' --yes",
    ],
)
@click.argument(
    "source",
    metavar="SRC",
    help="A directory, a .zip or .mcpb file, a git URL, or an MCP server: pypi:NAME, npm:NAME or a file.",
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
@click.option("--enable", "enables", is_flag=True, help="Enable it too: it is started, and must answer.")
@save_option
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
    enables: bool,
    save: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Install a plugin, after showing its capabilities and asking for consent. Enable it to run it.

    Dangerous permissions are asked for one by one. --yes alone does not accept them: name each with --grant.

    An MCP server in one file, such as a Python file with FastMCP, needs no manifest. It is tried in a cage with nothing
    granted, and a package is proposed: a manifest, the file, and its packages with their exact versions.
    """
    from paddock.cli.client.api_client import open_client
    from paddock.cli.commands.plugin.confirm_install import enable_after_install, install_package, report_installed
    from paddock.cli.output.consent_prompt import parse_grants
    from paddock.plugins.package.source import absolute_source

    host_source, host_ref = absolute_source(source, ref)
    repeated_flags = _repeated_flags(("with", held), ("arg", arg), ("env", env), ("capability", capability))
    single_flags = "".join(
        f" --{flag}={shlex.quote(text)}" for flag, text in (("ref", ref), ("name", name), ("program", program)) if text
    )
    retype = f"paddock plugin install {shlex.quote(source)}{single_flags}{repeated_flags}{' --enable' * enables}"
    granted = [*parse_grants(grant), *parse_grants(capability, "--capability")]
    body = _request_body(
        source=host_source,
        ref=host_ref,
        name=name,
        program=program,
        constraints=held,
        args=arg,
        env=env,
        capabilities=capability,
        grant=[*grant, *capability],
        downgrade=downgrade,
    )
    with open_client() as client:
        value = install_package(
            client, body, granted, retype, yes=yes, less_trust=less_trust, save=save, enables=enables
        )
        if enables and value["action"] != "saved":
            value |= enable_after_install(client, value["name"], quiet=as_json, offers_trial=True)
        report_installed(client, value, as_json=as_json)


def _request_body(**members: object) -> dict[str, Any]:
    """Return the body of `POST /installs`, without what was not given."""
    return {name: value for name, value in members.items() if value}


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
    from paddock.cli.client.api_client import open_client
    from paddock.cli.commands.plugin.confirm_install import install_package, report_installed
    from paddock.cli.output.consent_prompt import parse_grants
    from paddock.plugins.package.source import absolute_source

    retype = (
        f"paddock plugin upgrade {name}"
        + (f" {shlex.quote(source)}" if source else "")
        + (f" --ref {shlex.quote(ref)}" if ref else "")
        + _repeated_flags(("arg", arg), ("env", env), ("capability", capability))
    )
    granted = [*parse_grants(grant), *parse_grants(capability, "--capability")]
    host_source, host_ref = absolute_source(source, ref) if source is not None else (None, ref)
    body = _request_body(
        upgrade=name,
        source=host_source,
        ref=host_ref,
        args=arg,
        env=env,
        capabilities=capability,
        grant=[*grant, *capability],
        downgrade=downgrade,
    )
    with open_client() as client:
        value = install_package(client, body, granted, retype, yes=yes, less_trust=less_trust)
        report_installed(client, value, as_json=as_json)


@command("rollback", examples=["paddock plugin rollback notes --to 1.4.2"])
@click.argument("name", help="The name of an installed plugin.")
@click.option("--to", metavar="VERSION", help="The earlier version. [default: the previous one]")
@grant_option
@options.yes
@options.as_json
def rollback(name: str, *, to: str | None, grant: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Return to an earlier version. By default, old versions are kept for 30 days."""
    from paddock.cli.client.api_client import open_client, path_segment, plugin_path
    from paddock.cli.client.plugin_status import wait_until_plugin_runs
    from paddock.cli.output.consent_prompt import confirm, confirm_new_capabilities, parse_grants, print_consent_screen
    from paddock.manifest.capability import parse_capability

    path = f"{plugin_path(name)}/rollback"
    retype = f"paddock plugin rollback {name}" + (f" --to {to}" if to else "")
    granted = parse_grants(grant)
    with open_client() as client:
        preview = client.get(path + (f"?version={path_segment(to)}" if to is not None else ""))
        print_consent_screen(preview["screen"])
        new = [parse_capability(text) for text in preview["capabilities"]]
        retype = " ".join([retype, *(f"--grant {shlex.quote(str(capability))}" for capability in new)])
        confirm(preview["screen"]["question"], yes=yes, retype=retype)
        acknowledged = confirm_new_capabilities(new, granted, retype)
        body = {
            "version": preview["version"],
            "old_version": preview["old_version"],
            "grant": [str(capability) for capability in acknowledged],
        }
        client.post(path, body, timeout_s=None)
        plugin = preview["name"]
        print_message(f"{styled('✓', 'green')} {plugin} is back at {preview['version']}")
        runtime = wait_until_plugin_runs(client, plugin)
    if as_json:
        value = {
            "name": plugin,
            "action": "rolled_back",
            "old_version": preview["old_version"],
            "version": preview["version"],
        }
        print_json(value | ({"runtime": runtime} if runtime else {}))


@command("remove", examples=["paddock plugin remove notes --yes"])
@click.argument("name", help="The name of an installed plugin.")
@click.option("--version", help="Remove only this version.")
@click.option("--force", is_flag=True, help="Remove it even if it is pinned.")
@options.yes
@options.as_json
def remove(name: str, *, version: str | None, force: bool, yes: bool, as_json: bool) -> None:
    """Remove a plugin with all its versions, files, grants, data and configuration."""
    from paddock.cli.client.api_client import open_client_for_change, plugin_path
    from paddock.cli.output.consent_prompt import confirm

    retype = f"paddock plugin remove {name}" + (f" --version {version}" if version else "")
    subject = f"version {version} of {name}" if version else f"{name} with all its versions, data and configuration"
    path, body = f"{plugin_path(name)}/remove", {"force": force} | ({"version": version} if version else {})
    with open_client_for_change() as client:
        client.post(path, body | {"dry_run": True})  # do not ask about what cannot be removed
        confirm(f"Remove {subject}?", yes=yes, retype=retype)
        removed = client.post(path, body)
    plugin, purge_pending = removed["name"], removed["purge_pending"]
    if as_json:
        print_json({"name": plugin, "action": "uninstalled", "version": version, "purge_pending": purge_pending})
    if purge_pending:
        print_message(f"{styled('✓', 'green')} removed {plugin} with all its versions and configuration")
        print_message(
            f"  {styled('→', 'dim')} its data will be dropped when its last call has ended; the daemon sees to that"
        )
    else:
        print_message(f"{styled('✓', 'green')} removed {subject}")
