"""Installs a package through the API: shows what it would change, asks for consent, and reports the result."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output.report import print_json, print_message, print_problems, styled
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.cli.client.install_job import FollowedInstall
    from paddock.manifest.capability import Capability


def install_package(
    client: ApiClient,
    body: Mapping[str, Any],
    granted: Sequence[Capability],
    retype: str,
    *,
    yes: bool,
    less_trust: bool = False,
    introduce: Callable[[Sequence[Mapping[str, Any]]], None] | None = None,
    save: Path | None = None,
    enables: bool = False,
    choose_grants: Callable[[Mapping[str, Any]], Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Fetch, show, confirm and install a package. Returns the result as JSON data.

    Args:
        client: Installs it.
        body: The request, as in `POST /installs`.
        granted: The capabilities that the person granted on the command line.
        retype: The command to type again, without consent.
        yes: Whether they consent to the whole.
        less_trust: Whether they accept a loss of trust.
        introduce: Prints more about the package before its screen; gets the warnings that follow the screen.
        save: The folder to write the package of a server file to, in place of installing it.
        enables: Whether the caller enables it next.
        choose_grants: Returns grants that the person adds; gets the proposal with its `missing_grants`.

    Raises:
        NeedsConsent: the person declined, or there is no terminal to ask on.
        PaddockError: it cannot be installed.
    """
    from paddock.cli.client.install_job import start_install
    from paddock.cli.output.consent_prompt import parse_grants

    with start_install(client, body) as install:
        fetched = install.wait_for_proposal()
        proposal = fetched["proposal"]
        chosen = choose_grants(proposal) if choose_grants and proposal and proposal["missing_grants"] else ()
        if not chosen:
            if introduce is not None:
                introduce(proposal["warnings"] if proposal else ())
            if save is not None:
                return _save_proposal(proposal, body["source"], save)
            if proposal is None or proposal["screen"] is None:
                return _confirm_unchanged(install, fetched, retype, yes=yes)
            return _confirm_files(
                install, proposal, body, granted, retype, yes=yes, less_trust=less_trust, enables=enables
            )
    # What was fetched is remembered, so that nothing is fetched twice.
    return install_package(
        client,
        {**body, "capabilities": [*body.get("capabilities", ()), *chosen]},
        [*granted, *parse_grants(chosen)],
        " ".join([retype, *(f"--capability {shlex.quote(one)}" for one in chosen)]),
        yes=yes,
        less_trust=less_trust,
        introduce=introduce,
        enables=enables,
    )


def _save_proposal(proposal: Mapping[str, Any] | None, source: str, folder: Path) -> dict[str, Any]:
    """Save the package of a server file; leaving the installation then cancels it."""
    from paddock.cli.output.save_package import save_package
    from paddock.core.errors import Conflict, OperatorError

    if proposal is None:
        raise Conflict("it is installed already, with exactly these files", code="plugin.unchanged")
    if proposal["server"] is None:
        raise OperatorError(
            "--save is for a server in one file: everything else has a package already",
            code="source.not_a_server_file",
            hint="leave it out",
        )
    return save_package(proposal, Path(source), folder)


def _confirm_files(
    install: FollowedInstall,
    proposal: Mapping[str, Any],
    body: Mapping[str, Any],
    granted: Sequence[Capability],
    retype: str,
    *,
    yes: bool,
    less_trust: bool,
    enables: bool,
) -> dict[str, Any]:
    from paddock.cli.output.consent_prompt import (
        confirm,
        confirm_lower_trust,
        confirm_new_capabilities,
        confirm_or_edit,
        print_consent_screen,
    )
    from paddock.core.error_formats import problem_from_dict
    from paddock.manifest.capability import parse_capability
    from paddock.manifest.rules.author_lint import without_author_lint

    screen, terms = proposal["screen"], proposal["terms"]
    print_consent_screen(screen)
    print_problems(without_author_lint(map(problem_from_dict, proposal["warnings"])), "!", "yellow")
    separate = [parse_capability(text) for text in proposal["separate"]]
    flags = [
        *(f"--grant {shlex.quote(str(capability))}" for capability in separate if capability not in granted),
        *(["--less-trust"] if terms["trust_lost"] else []),
    ]
    retype = " ".join([retype, *flags])
    server = proposal["server"]
    details = {"screen": screen} | ({"server": server} if server else {})
    if server and "source" in body:
        folder = Path.cwd() / proposal["name"]
        edit = f"e: write the package to {printable(str(folder))} and edit it first"
        if not confirm_or_edit(screen["question"], edit, yes=yes, retype=retype, details=details):
            return _save_proposal(proposal, body["source"], folder)
    else:
        confirm(screen["question"], yes=yes, retype=retype, details=details)
    confirm_lower_trust(terms["trust_lost"], accepted=less_trust, retype=retype)
    confirm_new_capabilities(separate, granted, retype, terms["dangers"])
    done = install.confirm(
        {
            "digest": terms["digest"],
            "signature": terms["signature"],
            # The question about a new plugin covers every capability on its screen that is not dangerous; those, and
            # all of an upgrade, were asked for one by one.
            "grant": terms["capabilities"],
            "accept_dangers": [danger["capability"] for danger in terms["dangers"]],
            "trust_lost": terms["trust_lost"],
        }
    )
    _print_installed(proposal, done["outcome"]["unset"], enables=enables)
    result = {
        "name": proposal["name"],
        "version": proposal["version"],
        "digest": terms["digest"],
        "warnings": proposal["warnings"],
        "hints": proposal["hints"],
        "action": proposal["action"],
    } | ({"server": server} if server else {})
    if proposal["action"] == "upgraded":
        return result | {"old_version": proposal["old_version"], "screen": screen}
    return result | {"state": "disabled", "screen": screen}


def _print_installed(proposal: Mapping[str, Any], unset: Sequence[str], *, enables: bool) -> None:
    from paddock.cli.output.action_text import command_line
    from paddock.core.action import Action

    name, version = proposal["name"], proposal["version"]
    if proposal["action"] == "upgraded":
        print_message(f"{styled('✓', 'green')} upgraded {name} {proposal['old_version']} → {version}")
        return
    print_message(f"{styled('✓', 'green')} installed {name} {version}{'' if enables else '; it is disabled'}")
    for field in unset:
        command = command_line(Action.of("plugin.configure", plugin=name, field=field))
        print_message(f"  {styled('→', 'dim')} first set its configuration: {command}")
    if not enables:
        print_message(f"  {styled('→', 'dim')} enable it: paddock plugin enable {name}")


def enable_after_install(client: ApiClient, name: str, *, quiet: bool, offers_trial: bool = False) -> dict[str, Any]:
    """Enable what was just installed for the default tenant. Returns what changed as JSON data.

    With `offers_trial`, a person at a terminal may try one that does not start.

    Raises:
        PaddockError: it cannot be enabled, or does not answer; it stays installed.
    """
    from paddock.cli.client.api_client import plugin_path
    from paddock.cli.commands.plugin.enable import enable_installed, report_enabled, report_or_try
    from paddock.cli.commands.plugin.trust import print_untrusted_marks

    if offers_trial:
        enabled, facts = report_or_try(client, lambda: enable_installed(client, name), DEFAULT_TENANT, quiet=quiet)
    else:
        enabled = enable_installed(client, name)
        facts = report_enabled(enabled, DEFAULT_TENANT, quiet=quiet)
    if enabled.has_marks and not quiet:
        marks = client.get(f"{plugin_path(name)}/tools")["read_marks"]
        print_untrusted_marks(name, list(marks["untrusted"]), DEFAULT_TENANT)
    return {key: facts[key] for key in ("state", "runtime", "trusted_reads")}


def _confirm_unchanged(
    install: FollowedInstall, fetched: Mapping[str, Any], retype: str, *, yes: bool
) -> dict[str, Any]:
    """Handle files that are installed already: at most their signature or their configuration is new."""
    from paddock.cli.output.consent_prompt import confirm

    proposal = fetched["proposal"]
    change = proposal or fetched["outcome"]
    digest = proposal["terms"]["digest"] if proposal else change["digest"]
    result = {"name": change["name"], "version": change["version"], "digest": digest, "action": change["action"]}
    print_message(f"{change['name']} {change['version']} is installed already, with exactly these files")
    if proposal is None:
        return result
    fields = ", ".join(proposal["fields"])
    if proposal["action"] == "reconfigured":
        confirm(f"Replace its stored configuration ({fields})?", yes=yes, retype=retype)
        result["fields"] = proposal["fields"]
    install.confirm({"digest": digest, "signature": proposal["terms"]["signature"]})
    if proposal["action"] == "signed":
        print_message(f"{styled('✓', 'green')} kept its new signature: {proposal['signature']['reason']}")
        result["signature"] = proposal["signature"]["state"]
    else:
        print_message(f"{styled('✓', 'green')} replaced {fields}")
    return result


def report_installed(client: ApiClient, result: dict[str, Any], *, as_json: bool) -> None:
    """Report an installation and, after an upgrade, whether the plugin still runs.

    Raises:
        Unavailable: it does not.
    """
    from paddock.cli.client.plugin_status import wait_until_plugin_runs

    name, runtime = result["name"], None
    if result["action"] == "upgraded":
        runtime = wait_until_plugin_runs(client, name, rollback_command=f"paddock plugin rollback {name}")
    if as_json:
        print_json(result | ({"runtime": runtime} if runtime else {}))
