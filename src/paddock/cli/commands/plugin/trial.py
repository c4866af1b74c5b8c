"""`paddock plugin try`: whether a plugin answers in its cage, and the grants that it needs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.trust import trust_reads_option, trust_tried_marks
from paddock.cli.output.report import is_interactive, print_json, print_message, styled
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import count_text, printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.core.errors import PaddockError

MAX_ROUNDS = 6  # a grant may lead to the next need

Trial: TypeAlias = Mapping[str, Any]
"""What came of a trial, as the API returns it."""


@command(
    "try",
    examples=[
        "paddock plugin try server-filesystem",
        "paddock plugin try server-filesystem --yes --write",
        "paddock plugin try git --call git_status",
    ],
)
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.option(
    "--grant",
    multiple=True,
    metavar="CAPABILITY",
    help="Grant this capability beside what is proposed; may be repeated.",
)
@click.option("--write", is_flag=True, help="Let it also change the files and folders that its settings name.")
@click.option("--call", metavar="TOOL", help="Also call this tool, to see what that needs. The call is real.")
@click.option("--input", "input_text", metavar="JSON", help="The parameters of that call. [default: {}]")
@trust_reads_option
@options.tenant
@options.yes
@options.as_json
def try_plugin(
    name: str,
    *,
    grant: tuple[str, ...],
    write: bool,
    call: str | None,
    input_text: str | None,
    trust_reads: bool | None,
    tenant: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Start a plugin in a learning cage, propose the grants that it needs, and grant those you choose.

    The cage allows nothing that is not granted; what the plugin tries is observed. Each proposal says why it is needed.
    --yes grants all that are not dangerous. Grants are stored once the plugin answers with them.

    Many servers open their files only when a tool is called: --call makes such a call, if the rules let you. A tool
    that does not say that it only reads is called once each time you have chosen grants; others at every start.

    With --tenant it is tried with that tenant's configuration and grants, and no grant is stored.
    """
    from paddock.cli.client.api_client import open_client_for_change
    from paddock.cli.output.consent_prompt import parse_grants

    given = [str(capability) for capability in parse_grants(grant)]
    wanted = _parse_call(call, input_text)
    flags = [f"--grant {shlex.quote(one)}" for one in given]
    flags += [f"--call {shlex.quote(call)}"] if call else []
    flags += [f"--input {shlex.quote(input_text)}"] if input_text else []
    retype = " ".join(["paddock plugin try", shlex.quote(name), *flags])
    if wanted is not None:
        _confirm_call(name, wanted, retype, yes=yes)
    with open_client_for_change(tenant) as client:
        if tenant == DEFAULT_TENANT:
            result = try_and_grant(
                client, name, given, retype, write=write, trust_reads=trust_reads, yes=yes, call=wanted
            )
        else:
            result = _try_for_tenant(client, tenant, name, given, wanted)
    if not result["answers"]:
        print_obstacles(result)
        raise no_answer_error(result)
    if result["call"] and not result["call"]["succeeded"]:
        raise _failed_call_error(result)
    if as_json:
        print_json(result)


def _parse_call(tool: str | None, input_text: str | None) -> dict[str, Any] | None:
    """Return the call as the API takes it; None if none is wanted."""
    import json

    if tool is None:
        if input_text is not None:
            raise click.UsageError("--input is for --call")
        return None
    try:
        parameters: Any = json.loads(input_text or "{}")
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}", param_hint="--input") from None
    if not isinstance(parameters, dict):
        raise click.BadParameter('it is not a JSON object, as {"path": "/srv/docs"}', param_hint="--input")
    return {"call": tool, "input": parameters}


def _confirm_call(name: str, call: Mapping[str, Any], retype: str, *, yes: bool) -> None:
    """Ask whether to make the call.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
    """
    from paddock.cli.output.consent_prompt import confirm

    tool = printable(call["call"], 200)
    print_message(f"{styled('!', 'yellow')} {tool} of {printable(name)} is really called: what it may do, it does")
    confirm(f"Call {tool} for the trial?", yes=yes, retype=retype, details=dict(call))


def _try_for_tenant(
    client: ApiClient, tenant: str, name: str, given: Sequence[str], call: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Try a plugin for a tenant. What it lacks is granted where it was installed, and then by the tenant."""
    known = _has_known_tools(client, name)
    trial = _try(client, name, given, call)
    _print_proposals(trial, trial["proposals"], f"paddock plugin try {trial['name']}")
    if trial["answers"] and (trial["call"] is None or trial["call"]["succeeded"]):
        _print_answer(trial)
        if not known:
            _report_seen_tools(client, trial["name"], tenant)
    if trial["proposals"]:
        print_message(f"  {styled('→', 'dim')} grant them first: paddock plugin try {trial['name']}")
    return {**trial, "granted_now": [], "stored": None, "trusted_reads": []}


def try_and_grant(
    client: ApiClient,
    name: str,
    given: Sequence[str],
    retype: str,
    *,
    write: bool = False,
    trust_reads: bool | None = None,
    yes: bool = False,
    call: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Try a plugin, ask about what it needs, and store what was chosen once it answers. Returns the last trial.

    Args:
        client: Tries it and stores the grants.
        name: The plugin.
        given: Grants that the person gave on the command line.
        retype: The command to type again, without consent.
        write: Whether places that the settings name may be changed too.
        trust_reads: Whether its read-only marks are trusted; None: ask.
        yes: Whether they consent to all that is not dangerous.
        call: A call to make, to see what it needs.

    Raises:
        NeedsConsent: there is no terminal to ask on.
    """
    known = _has_known_tools(client, name)
    chosen, trial = _choose_grants(client, name, given, retype, write=write, yes=yes, call=call)
    stored, trusted = None, list[str]()
    if trial["answers"] and (trial["call"] is None or trial["call"]["succeeded"]):
        stored = _store_grants(client, trial["name"], chosen) if chosen else None
        _print_answer(trial)
        print_obstacles(trial)
        if not known:
            _report_seen_tools(client, trial["name"], DEFAULT_TENANT)
        # Stored grants make another version, and trust holds for a version.
        marks = {one["tool"]: one["hash"] for one in trial["read_marks"] if stored or not one["trusted"]}
        trusted = trust_tried_marks(
            client, trial["name"], marks, trusted=trust_reads, retype=f"paddock plugin try {name} --trust-reads"
        )
    return {**trial, "granted_now": chosen if stored else [], "stored": stored, "trusted_reads": trusted}


def _choose_grants(
    client: ApiClient,
    name: str,
    given: Sequence[str],
    retype: str,
    *,
    write: bool,
    yes: bool,
    call: Mapping[str, Any] | None,
) -> tuple[list[str], Trial]:
    """Try the plugin and ask about what it needs, until it needs nothing more. Returns the chosen grants."""
    chosen, asked = list(given), set(given)
    trial = _try(client, name, chosen, call)
    if write and trial["grantable"] and trial["widenable"]:
        offers = [_widening(one) for one in trial["widenable"]]
        _print_proposals(trial, offers, retype)
        chosen += _ask(offers, trial, f"{retype} --write", write=True, yes=yes)
        asked |= set(chosen)
        trial = _try(client, name, chosen, call) if set(chosen) - set(given) else trial
    for _ in range(MAX_ROUNDS):
        new = [one for one in trial["proposals"] if one["capability"] not in asked]
        offered = [one for one in new if one["selected"]]
        asked |= {one["capability"] for one in new}
        _print_proposals(trial, new, retype)
        if not offered or not trial["grantable"]:
            break
        accepted = _ask(offered, trial, retype, write=write, yes=yes)
        if not accepted:
            break
        chosen += accepted
        asked |= set(accepted)
        trial = _try(client, name, chosen, call)
    if trial["unneeded"]:
        print_message(f"it answers without {', '.join(trial['unneeded'])}: not granted")
    return [one for one in chosen if one not in trial["unneeded"]], trial


def _try(client: ApiClient, name: str, grants: Sequence[str], call: Mapping[str, Any] | None = None) -> Trial:
    from paddock.cli.client.api_client import plugin_path
    from paddock.cli.output.status_line import ProgressLine
    from paddock.plugins.package.extract import InstallProgress

    with ProgressLine() as line:
        if line.callback is not None:
            line.callback(InstallProgress(f"trying {name}"))
        body = {"grant": list(grants), **(call or {})}
        return client.post(f"{plugin_path(name)}/try", body, timeout_s=None)


def _print_proposals(trial: Trial, proposals: Sequence[Mapping[str, Any]], retype: str) -> None:
    for one in proposals:
        mark = styled("•", "cyan") if one["selected"] else styled("!" if one["warning"] else "-", "yellow")
        print_message(f"  {mark} {printable(one['reason'], 400)}: {one['capability']}")
        if one["warning"]:
            print_message(f"      {styled('DANGEROUS', 'red', 'bold')} {printable(one['warning'], 400)}")
        if not one["selected"] and trial["grantable"]:
            print_message(f"      if you want that: {retype} --grant {shlex.quote(one['capability'])}")
    if proposals and not trial["grantable"]:
        print_message("  its own manifest declares what it may do: these belong into its capabilities")


def _ask(offered: Sequence[Mapping[str, Any]], trial: Trial, retype: str, *, write: bool, yes: bool) -> list[str]:
    """Ask about each proposal and return the accepted capabilities.

    Raises:
        NeedsConsent: there is no terminal to ask on.
    """
    if yes:
        return [(one["writable"] if write else None) or one["capability"] for one in offered]
    if not is_interactive():
        from paddock.core.errors import NeedsConsent

        raise NeedsConsent(
            f"{trial['name']} needs {', '.join(one['capability'] for one in offered)}",
            hint=f"there is no terminal to ask on; if you agree to each of them: {retype} --yes",
            details={"trial": trial},
        )
    accepted = [_ask_grant(one, write=write) for one in offered]
    return [one for one in accepted if one]


def _widening(capability: str) -> dict[str, Any]:
    """Render a grant that --write adds as a proposal."""
    reason = "changes what its settings name and what it may read already"
    return {"capability": capability, "reason": reason, "selected": True, "warning": "", "writable": None}


def _ask_grant(proposal: Mapping[str, Any], *, write: bool) -> str:
    """Ask about one grant; anything but a clear yes is no."""
    from paddock.manifest.capability import describe_capability, parse_capability

    writable = proposal["writable"]
    capability = writable if write and writable else proposal["capability"]
    choices = "[y/N]" if capability == writable or not writable else "[y/w/N]"
    question = f"Allow it to {describe_capability(parse_capability(capability))}"
    question += ", or with w to change it too?" if "w" in choices else "?"
    sys.stderr.write(f"{question} {choices} ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip().lower()
    if answer in ("w", "write") and writable:
        return writable
    return capability if answer in ("y", "yes") else ""


def _store_grants(client: ApiClient, name: str, chosen: Sequence[str]) -> dict[str, Any]:
    """Add the chosen grants to the plugin as it is installed. A running daemon restarts it."""
    from paddock.cli.client.install_job import start_install
    from paddock.cli.client.plugin_status import wait_until_plugin_runs

    with start_install(client, {"upgrade": name, "as_installed": True, "grant": list(chosen)}) as install:
        proposal = install.wait_for_proposal()["proposal"]
        if proposal is None:
            return {}  # it has them already
        terms = proposal["terms"]
        answer = {"grant": list(chosen), "accept_dangers": list(chosen)}  # each was chosen by itself
        install.confirm({"digest": terms["digest"], "signature": terms["signature"], **answer})
    print_message(f"{styled('✓', 'green')} granted {', '.join(chosen)} to {name} {proposal['version']}")
    runtime = wait_until_plugin_runs(client, name)
    return {"version": proposal["version"], "old_version": proposal["old_version"], "runtime": runtime}


def print_obstacles(trial: Trial) -> None:
    """Print what no grant allows."""
    for one in trial["obstacles"]:
        print_message(f"  {styled('!', 'yellow')} {printable(one['message'], 400)}")
        if one["hint"]:
            print_message(f"      {printable(one['hint'], 400)}")


def _print_answer(trial: Trial) -> None:
    count = count_text(trial["tools"], "tool")
    called = f"; {printable(trial['call']['tool'], 200)} succeeded" if trial["call"] else ""
    print_message(f"{styled('✓', 'green')} {trial['name']} answers, {count}{called}")


def _has_known_tools(client: ApiClient, name: str) -> bool:
    from paddock.cli.client.api_client import plugin_path

    return client.get(f"{plugin_path(name)}/tools")["known"]


def _report_seen_tools(client: ApiClient, name: str, tenant: str) -> None:
    """Print what a trial saw, unless it was not kept."""
    from paddock.cli.client.api_client import plugin_path
    from paddock.cli.commands.plugin.tools import report_discovered_tools

    if _has_known_tools(client, name):
        report_discovered_tools(client.get(plugin_path(name)), tenant)


def no_answer_error(trial: Trial) -> PaddockError:
    """Build the error for a plugin that does not answer."""
    return _failed_error(trial, f"{trial['name']} {trial['version']} does not answer", trial["failure"])


def _failed_call_error(trial: Trial) -> PaddockError:
    tool, failure = printable(trial["call"]["tool"], 200), trial["call"]["failure"]
    return _failed_error(trial, f"{trial['name']} answers, and {tool} failed", failure)


def _failed_error(trial: Trial, what: str, failure: Mapping[str, Any]) -> PaddockError:
    from paddock.core.action import Action
    from paddock.core.errors import Failed

    obstacles = sorted(trial["obstacles"], key=lambda one: not one["saves"])
    hint, action = failure["hint"], Action.from_json(failure["action"])
    if failure["code"] == "tool.failed" and (trial["proposals"] or any(one["saves"] for one in obstacles)):
        hint, action = "", None  # a guess by the words of the error, where it was seen what is missing
    return Failed(
        f"{what}: {failure['message']}",
        code=failure["code"],
        hint=hint or (obstacles[0]["hint"] if obstacles else ""),
        action=action,
        details={"trial": trial},
    )
