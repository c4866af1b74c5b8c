"""`paddock plugin try`: whether a plugin answers in its cage, and the grants that it needs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import is_interactive, print_json, print_message, styled
from paddock.core.printable import count_text, printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.core.errors import PaddockError

MAX_ROUNDS = 6  # a grant may lead to the next need

Trial: TypeAlias = Mapping[str, Any]
"""What came of a trial, as the API returns it."""


@command("try", examples=["paddock plugin try server-filesystem", "paddock plugin try server-filesystem --yes --write"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.option(
    "--grant",
    multiple=True,
    metavar="CAPABILITY",
    help="Grant this capability beside what is proposed; may be repeated.",
)
@click.option("--write", is_flag=True, help="Let it also change the files and folders that its settings name.")
@options.yes
@options.as_json
def try_plugin(name: str, *, grant: tuple[str, ...], write: bool, yes: bool, as_json: bool) -> None:
    """Start a plugin in a learning cage, propose the grants that it needs, and grant those you choose.

    The cage allows nothing that is not granted; what the plugin tries is observed. Each proposal says why it is needed.
    --yes grants all that are not dangerous. Grants are stored once the plugin answers with them.
    """
    from paddock.cli.client.api_client import open_client_for_change
    from paddock.cli.output.consent_prompt import parse_grants

    given = [str(capability) for capability in parse_grants(grant)]
    retype = " ".join(["paddock plugin try", shlex.quote(name), *(f"--grant {shlex.quote(one)}" for one in given)])
    with open_client_for_change() as client:
        chosen, trial = _choose_grants(client, name, given, retype, write=write, yes=yes)
        stored = None
        if trial["answers"] and chosen:
            stored = _store_grants(client, trial["name"], chosen)
        if as_json and trial["answers"]:
            print_json({**trial, "granted_now": chosen if stored else [], "stored": stored})
    if not as_json:
        _print_result(trial)
    if not trial["answers"]:
        raise _no_answer_error(trial)


def _choose_grants(
    client: ApiClient, name: str, given: Sequence[str], retype: str, *, write: bool, yes: bool
) -> tuple[list[str], Trial]:
    """Try the plugin and ask about what it needs, until it needs nothing more. Returns the chosen grants."""
    chosen, asked = list(given), set(given)
    trial = _try(client, name, chosen)
    for _ in range(MAX_ROUNDS):
        new = [one for one in trial["proposals"] if one["capability"] not in asked]
        offered = [one for one in new if one["selected"]]
        asked |= {one["capability"] for one in new}
        _print_proposals(trial, new)
        if not offered or not trial["grantable"]:
            break
        accepted = _ask(offered, trial, retype, write=write, yes=yes)
        if not accepted:
            break
        chosen += accepted
        asked |= set(accepted)
        trial = _try(client, name, chosen)
    if trial["unneeded"]:
        print_message(f"it answers without {', '.join(trial['unneeded'])}: not granted")
    return [one for one in chosen if one not in trial["unneeded"]], trial


def _try(client: ApiClient, name: str, grants: Sequence[str]) -> Trial:
    from paddock.cli.client.api_client import plugin_path
    from paddock.cli.output.status_line import ProgressLine
    from paddock.plugins.package.extract import InstallProgress

    with ProgressLine() as line:
        if line.callback is not None:
            line.callback(InstallProgress(f"trying {name}"))
        return client.post(f"{plugin_path(name)}/try", {"grant": list(grants)}, timeout_s=None)


def _print_proposals(trial: Trial, proposals: Sequence[Mapping[str, Any]]) -> None:
    for one in proposals:
        mark = styled("•", "cyan") if one["selected"] else styled("!" if one["warning"] else "-", "yellow")
        print_message(f"  {mark} {printable(one['reason'], 400)}: {one['capability']}")
        if one["warning"]:
            print_message(f"      {styled('DANGEROUS', 'red', 'bold')} {printable(one['warning'], 400)}")
        if not one["selected"] and trial["grantable"]:
            command_text = f"paddock plugin try {trial['name']} --grant {shlex.quote(one['capability'])}"
            print_message(f"      if you want that: {command_text}")
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
        install.confirm({"digest": terms["digest"], "signature": terms["signature"], "grant": list(chosen)})
    print_message(f"{styled('✓', 'green')} granted {', '.join(chosen)} to {name} {proposal['version']}")
    runtime = wait_until_plugin_runs(client, name)
    return {"version": proposal["version"], "old_version": proposal["old_version"], "runtime": runtime}


def _print_result(trial: Trial) -> None:
    for one in trial["obstacles"] if not trial["answers"] else ():
        print_message(f"  {styled('!', 'yellow')} {printable(one['message'], 400)}")
        if one["hint"]:
            print_message(f"      {printable(one['hint'], 400)}")
    if trial["answers"]:
        print_message(f"{styled('✓', 'green')} {trial['name']} answers, {count_text(trial['tools'], 'tool')}")


def _no_answer_error(trial: Trial) -> PaddockError:
    from paddock.core.action import Action
    from paddock.core.errors import Failed

    failure = trial["failure"]
    obstacle = next(iter(trial["obstacles"]), {"message": "", "hint": ""})
    return Failed(
        f"{trial['name']} {trial['version']} does not answer: {failure['message']}",
        code=failure["code"],
        hint=failure["hint"] or obstacle["hint"],
        action=Action.from_json(failure["action"]),
        details={"trial": trial},
    )
