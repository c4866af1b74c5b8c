"""`paddock plugin trust`: what a person takes a plugin's word for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import (
    ask_yes_no,
    is_interactive,
    print_json,
    print_message,
    print_result,
    styled,
    wrap_text,
)
from paddock.core.printable import count_text, printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient

MAX_NAMES = 12
trust_reads_option = click.option(
    "--trust-reads/--no-trust-reads",
    default=None,
    help="Take its word for tools that say that they only read. [default: ask]",
)
_WORD_TEXTS = {"reads": "only reads, as it says", "errors": "has done nothing where it answers with an error"}


@command(
    "trust",
    examples=[
        "paddock plugin trust files",
        "paddock plugin trust files --reads",
        "paddock plugin trust files write_file --errors",
        "paddock plugin trust files --reads --off",
    ],
)
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.argument(
    "tools", nargs=-1, metavar="[TOOL]...", help="Only these tools. [default with --reads: all marked ones]"
)
@click.option(
    "--reads", "word", flag_value="reads", help="Take its word that tools only read: they need no confirmation."
)
@click.option(
    "--errors", "word", flag_value="errors", help="Treat errors of a tool as not done: they are never in doubt."
)
@click.option("--off", is_flag=True, help="No longer take its word for that.")
@options.tenant
@options.yes
@options.as_json
def trust(
    name: str, tools: tuple[str, ...], *, word: str | None, off: bool, tenant: str, yes: bool, as_json: bool
) -> None:
    """Show what you take a plugin's word for, or change it.

    It holds for the installed version and for tools as they are defined now: an upgrade or a change ends it.
    """
    from paddock.cli.client.api_client import open_client, plugin_path

    _check_options(tools, word, off=off)
    path = plugin_path(name)
    with open_client(tenant) as client:
        recorded = client.get(f"{path}/tools")
        if not recorded["known"] and client.get(path)["enabled"]:
            recorded = client.post(f"{path}/tools/meet", timeout_s=None)
        if word is None:
            _print_trust(recorded, tenant, as_json=as_json)
            return
        if off:
            changed = client.post(f"{path}/trust", _trust_body(word, tools, trusted=False))
        else:
            _confirm(recorded, tools, word, tenant, yes=yes)
            changed = client.post(f"{path}/trust", _trust_body(word, tools, recorded, trusted=True))
    if as_json:
        print_json(changed)
    else:
        _report_change(changed)


def _check_options(tools: Sequence[str], word: str | None, *, off: bool) -> None:
    if word is None and (tools or off):
        raise click.BadParameter("say what it is about: --reads or --errors")
    if word == "errors" and not tools and not off:
        raise click.BadParameter("name the tools whose errors mean that nothing was done", param_hint="--errors")


def _trust_body(
    word: str, tools: Sequence[str], recorded: Mapping[str, Any] | None = None, *, trusted: bool
) -> dict[str, Any]:
    shown: dict[str, str] = recorded["read_marks"]["untrusted"] if recorded is not None and word == "reads" else {}
    names = list(tools) or (list(shown) if trusted else [])
    body: dict[str, Any] = {"word": word, "trusted": trusted}
    return body | ({"tools": names} if names else {}) | ({"shown": shown} if shown else {})


def _confirm(recorded: Mapping[str, Any], tools: Sequence[str], word: str, tenant: str, *, yes: bool) -> None:
    """Show the tools and ask whether to take their word.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
    """
    from paddock.cli.output.consent_prompt import confirm

    names = list(tools) or list(recorded["read_marks"]["untrusted"])
    if not names:
        return  # nothing is new, which the host answers
    plugin = recorded["name"]
    does = {tool["name"]: "; ".join(tool["does"]) for tool in recorded["tools"]}
    for name in names:
        print_message(f"  • {printable(name, 200)}: {does.get(name, 'is not offered')}")
    command = f"paddock plugin trust {shlex.join([plugin, *tools])} --{word}{tenant_option(tenant)}"
    count = count_text(len(names), "tool")
    question = (
        _read_marks_question(names)
        if word == "reads"
        else f"Treat errors of {count} of {plugin} as not done? A second attempt is made without asking"
    )
    confirm(question, yes=yes, retype=command, details={"plugin": plugin, "word": word, "tools": names})


def _read_marks_question(names: Sequence[str]) -> str:
    return f"Trust its own read-only marks: {count_text(len(names), 'tool')}? Calls of them need no confirmation"


def _report_change(changed: Mapping[str, Any]) -> None:
    plugin, tools = changed["name"], changed["tools"]
    if not tools:
        print_message(f"nothing changed for {plugin}")
        return
    verb, count = "takes" if changed["trusted"] else "no longer takes", count_text(len(tools), "tool")
    print_message(f"{styled('✓', 'green')} Paddock {verb} the word of {plugin} {changed['version']} for {count}")
    for tool in tools:
        print_message(f"  • {printable(tool, 200)}: {_WORD_TEXTS[changed['word']]}")


def _print_trust(recorded: Mapping[str, Any], tenant: str, *, as_json: bool) -> None:
    marks = recorded["read_marks"]
    errors = {tool["name"]: tool["errors_trusted_by"] for tool in recorded["tools"] if tool["errors_trusted_by"]}
    reads = {tool["name"]: tool["reads_trusted_by"] for tool in recorded["tools"] if tool["reads_trusted_by"]}
    if as_json:
        print_json(
            {
                "name": recorded["name"],
                "reads": reads,
                "errors": errors,
                "untrusted_reads": list(marks["untrusted"]),
            }
        )
        return
    for word, trusted in (("reads", reads), ("errors", errors)):
        for tool, person in trusted.items():
            print_result(wrap_text(f"{printable(tool, 200)}: {_WORD_TEXTS[word]} (trusted by {printable(person)})", 4))
    if not reads and not errors:
        print_message(f"you take the word of {recorded['name']} for nothing")
    if marks["untrusted"]:
        print_untrusted_marks(recorded["name"], list(marks["untrusted"]), tenant)


def print_untrusted_marks(plugin: str, names: Sequence[str], tenant: str) -> None:
    """Say that tools claim to only read, and how to take their word for it."""
    print_read_claims(names)
    pronoun = "its" if len(names) == 1 else "their"
    print_message(
        f"  {styled('→', 'dim')} to take {pronoun} word for it: paddock plugin trust {plugin} --reads"
        f"{tenant_option(tenant)}"
    )


def print_read_claims(names: Sequence[str]) -> None:
    """Say which tools claim to only read."""
    verb = "says it only reads" if len(names) == 1 else "say they only read"
    shown = ", ".join(printable(name) for name in names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")
    print_message(wrap_text(f"{count_text(len(names), 'tool')} {verb} (unverified): {shown}", 2))


def offer_read_marks(client: ApiClient, plugin: str, tenant: str) -> list[str]:
    """Ask at the terminal whether to trust a plugin's read-only marks; without one, say how to.

    Returns the tools that are trusted now.
    """
    from paddock.cli.client.api_client import plugin_path

    recorded = client.get(f"{plugin_path(plugin)}/tools")
    names = list(recorded["read_marks"]["untrusted"])
    if not names:
        return []
    print_untrusted_marks(plugin, names, tenant)
    if not is_interactive() or not ask_yes_no(_read_marks_question(names)):
        return []
    return _take_word(client, plugin, _trust_body("reads", (), recorded, trusted=True))


def trust_tried_marks(
    client: ApiClient, plugin: str, shown: Mapping[str, str], *, trusted: bool | None, retype: str
) -> list[str]:
    """Take the word of tools as a trial showed them; where nothing is said about it, ask at the terminal.

    Args:
        client: Stores it.
        plugin: The plugin.
        shown: The hashes of the tools that say that they only read.
        trusted: Whether the person has said so on the command line; None: ask.
        retype: The command that says so.

    Returns the tools that are trusted now.
    """
    names = list(shown)
    if not names or trusted is False:
        return []
    if trusted is None:
        print_read_claims(names)
        if not is_interactive():
            print_message(
                f"  {styled('→', 'dim')} to take {'its' if len(names) == 1 else 'their'} word for it: {retype}"
            )
            return []
        if not ask_yes_no(_read_marks_question(names)):
            return []
    return _take_word(client, plugin, {"word": "reads", "trusted": True, "tools": names, "shown": dict(shown)})


def _take_word(client: ApiClient, plugin: str, body: Mapping[str, Any]) -> list[str]:
    from paddock.cli.client.api_client import plugin_path

    changed = client.post(f"{plugin_path(plugin)}/trust", dict(body))
    _report_change(changed)
    return changed["tools"]
