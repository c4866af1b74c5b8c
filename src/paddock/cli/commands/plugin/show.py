"""`paddock plugin list` and `paddock plugin show`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click
from msgspec.structs import replace

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.trust import print_untrusted_marks
from paddock.cli.output.action_text import remedy_lines, remedy_lines_of, tenant_option
from paddock.cli.output.report import (
    format_table,
    print_json,
    print_message,
    print_problems,
    print_remedy_lines,
    print_result,
    styled,
    wrap_text,
)
from paddock.core.action import Action
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.plugins.manage.details import PluginDetails
    from paddock.plugins.store.listing import InstalledPlugin
    from paddock.plugins.trust.signing_keys import KeyId

# Duplicated: importing the manifest's own list takes longer than a listing. A test keeps them equal.
KINDS = ("agent", "operator", "tool", "adapter", "plugin")
# Labels of `info` where the JSON name differs from the heading of the list's column.
FACT_LABELS = {"tier": "trust", "trust_claim": "claims", "installed_at": "installed"}
MAX_CHANGED_FILES = 20
MAX_DEFINITIONS = 200
# Already shown by the state, and by the last line.
HIDDEN_FACTS = ("enabled", "given_up", "repair", "repair_action")
NO_PROCESS = "-"
ON_DEMAND = "on demand"


@command("list", examples=["paddock plugin list --kind operator --json"])
@click.option("--kind", metavar="KIND", help=f"Only plugins of one kind: {', '.join(KINDS)}.")
@click.option("--verbose", "-v", is_flag=True, help="Also show sources, homepages and digests.")
@options.tenant
@options.as_json
def list_(*, kind: str | None, verbose: bool, tenant: str, as_json: bool) -> None:
    """List installed plugins and their state. Plugins are installed for all tenants and enabled for each of them."""
    from paddock.cli.client.api_client import running_daemon
    from paddock.cli.client.local_store import open_for_read
    from paddock.plugins.store.listing import list_plugins
    from paddock.plugins.trust.trusted_keys import list_trusted_keys

    kind_filter = _parse_kind(kind)
    daemon = running_daemon(tenant=tenant)
    runtimes = {plugin["name"]: plugin["runtime"] for plugin in daemon.get("/plugins")["plugins"]} if daemon else {}
    with open_for_read(tenant) as store:
        plugins = list_plugins(store.plugins, kind_filter)
        signed = any(plugin.version and plugin.version.signature_text for plugin in plugins)
        trusted = {key.key_id: key.label for key in store.plugins.database.read(list_trusted_keys)} if signed else {}
    rows = [
        _row_json(plugin, trusted, runtimes.get(plugin.plugin.name), verbose=verbose or as_json) for plugin in plugins
    ]
    if as_json:
        print_json({"plugins": rows})
        return
    if not rows:
        print_message(
            f"no plugin of kind {kind_filter} is installed; all of them: paddock plugin list"
            if kind_filter
            else "no plugins are installed; try: paddock plugin install DIR"
        )
        return
    _print_table(rows, verbose=verbose)
    for row in rows:
        if row["repair"]:
            print_message(f"{styled('!', 'yellow')} {row['name']}: {row['repair']}")
            print_remedy_lines(remedy_lines("", Action.from_json(row["repair_action"])))
        _report_unaccepted_tools(row["name"], tenant, row["waiting"])
        _report_not_running(row, tenant)


def _print_table(rows: Sequence[Mapping[str, Any]], *, verbose: bool) -> None:
    headings = ["NAME", "VERSION", "STATE", "PROCESS", "KIND", "TRUST", "DESCRIPTION"]
    cells = [
        [
            row["name"],
            row["version"] + (" (pinned)" if row["pinned"] else ""),
            _state_text(row),
            _process_state(row["runtime"]) if row["runtime"] else NO_PROCESS,
            row["kind"],
            row["tier"],
            row["description"],
        ]
        for row in rows
    ]
    for line, row in zip(format_table(headings, cells, hideable=["DESCRIPTION", "KIND"]), [None, *rows], strict=True):
        print_result(line)
        if row and verbose:
            for label in ("title", "source", "homepage", "digest", "signature", "capabilities"):
                # A plugin whose pinned version is gone has only the values of its own row.
                if value := row.get(label):
                    value_text = ", ".join(cast("list[str]", value)) if isinstance(value, list) else value
                    print_result(wrap_text(f"    {label.ljust(12)} {printable(str(value_text), 300)}", 17))


def _state_text(row: Mapping[str, Any]) -> str:
    """Describe the state of its files and grants; the process has its own column."""
    state: str = row["state"]
    notes = [*(["given up"] if row["given_up"] else []), *([f"{row['waiting']} waiting"] if row["waiting"] else [])]
    return f"{state} ({', '.join(notes)})" if notes else state


def _report_unaccepted_tools(name: str, tenant: str, count: int) -> None:
    """Print on stderr that definitions of a server wait for acceptance."""
    if count:
        subject = "one thing that its server says waits" if count == 1 else f"{count} things that its server says wait"
        print_message(
            f"{styled('!', 'yellow')} {name}: {subject} for your yes —"
            f" paddock plugin accept {name}{tenant_option(tenant)}"
        )


def _report_not_running(row: Mapping[str, Any], tenant: str) -> None:
    """Print on stderr why a plugin that should run does not."""
    from paddock.plugins.store.rows import UPGRADE_FIRST_HINT

    name, runtime, mark = row["name"], row["runtime"], styled("!", "yellow")
    if row["given_up"]:
        reason = printable(row["given_up"], 400)
        print_message(f"{mark} {name} was given up and is disabled: it {reason}")
        print_remedy_lines(remedy_lines(UPGRADE_FIRST_HINT, Action.of("plugin.enable", plugin=name, tenant=tenant)))
    elif runtime and runtime["reason"]:
        print_message(f"{mark} {name} {runtime['state']}: {printable(runtime['reason'], 400)}")
        print_remedy_lines(remedy_lines_of(runtime))
    elif runtime and runtime["unused_config"]:
        print_message(f"{mark} {name}: the new configuration is not used: {printable(runtime['unused_config'], 400)}")


def _parse_kind(option: str | None) -> str | None:
    """Return the requested kind; its plural is accepted too."""
    kind = option.lower().removesuffix("s") if option is not None else None
    if kind is not None and kind not in KINDS:
        raise click.BadParameter(f"{printable(option or '')} is not one of {', '.join(KINDS)}", param_hint="--kind")
    return kind


def _row_json(plugin: InstalledPlugin, trusted: Mapping[KeyId, str], runtime: Any, *, verbose: bool) -> dict[str, Any]:
    from paddock.plugins.store.listing import InstalledState, repair_of
    from paddock.plugins.trust.trusted_keys import describe_signer

    state, reason, tier, _ = (
        describe_signer(plugin.version, trusted, intact=plugin.state is not InstalledState.MODIFIED)
        if plugin.version
        else ("unknown", "", "personal", None)
    )
    repair, repair_action = repair_of(plugin.plugin.name, plugin.state)
    row: dict[str, Any] = {
        "name": plugin.plugin.name,
        "title": plugin.plugin.title,
        "version": plugin.plugin.current_version,
        "versions": list(plugin.versions),
        "state": plugin.state.value,
        "enabled": bool(plugin.grant and plugin.grant.enabled),
        "given_up": plugin.given_up,
        "pinned": plugin.plugin.pinned_version,
        "kind": plugin.kind,
        "dialect": plugin.version.dialect if plugin.version else "",
        "tier": tier,
        "signature": f"{state}: {reason}" if verbose else str(state),
        "description": plugin.description,
        "repair": repair,
        "repair_action": repair_action.to_json() if repair_action else None,
        "waiting": plugin.waiting,
        "runtime": runtime,
    }
    if verbose and plugin.version:
        row |= {
            "source": plugin.version.source.describe(),
            "homepage": plugin.version.document.get("homepage", ""),
            "digest": plugin.version.digest,
            "capabilities": plugin.version.document.get("capabilities", []),
        }
    return row


@command("show", examples=["paddock plugin show memory-markdown"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@options.tenant
@options.as_json
def show(name: str, *, tenant: str, as_json: bool) -> None:
    """Show a plugin: its versions, trust, capabilities, tools and effects."""
    from paddock.cli.client.api_client import path_segment, running_daemon
    from paddock.cli.client.local_store import open_for_read
    from paddock.cli.client.plugin_status import warnings_from_response
    from paddock.plugins.manage.details import load_details

    with open_for_read(tenant) as store:
        details = load_details(store.plugins, name)
    runtime = None
    if (daemon := running_daemon(tenant=tenant)) is not None:
        response = daemon.get(f"/plugins/{path_segment(details.facts['name'])}")
        runtime, details = response["runtime"], replace(details, warnings=warnings_from_response(response))
    if as_json:
        print_json(details.to_value() | {"runtime": runtime})
        return
    facts = details.facts
    print_result(styled(printable(facts["title"] or facts["name"]), "bold", stream=sys.stdout))
    for fact, value in facts.items():
        if fact not in HIDDEN_FACTS and value not in ("", None, [], False):
            response = ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
            response += " (given up)" if fact == "state" and facts["given_up"] else ""
            label = FACT_LABELS.get(fact, fact)
            print_result(wrap_text(f"  {label.ljust(12)} {printable(response, 400)}", 15))
    if runtime:
        print_result(wrap_text(f"  {'process'.ljust(12)} {printable(_process_text(runtime), 400)}", 15))
        if failure := runtime["last_failure"]:
            times = "once" if runtime["restarts"] == 1 else f"{runtime['restarts']} times"
            text = f"{_format_time(failure['at'])}: {failure['reason']}; restarted {times}"
            print_result(wrap_text(f"  {'last failure'.ljust(12)} {printable(text, 400)}", 15))
    if details.dangers:
        print_result("")
        print_result(f"  {styled('Dangerous permissions', 'red', stream=sys.stdout)}")
        for danger in details.dangers:
            print_result(
                wrap_text(f"    ! {printable(f'{danger.capability} — {danger.means}. {danger.reason}', 400)}", 6)
            )
    for section in details.sections:
        print_result("")
        print_result(f"  {section.title}")
        for line in section.lines:
            print_result(wrap_text(f"    • {printable(line, 400)}", 6))
    _print_definitions(details)
    _print_instructions(details)
    _print_suspicious_text(details)
    if facts["callables"]:
        print_message(
            wrap_text(f"what each does and takes: paddock plugin tools {facts['name']}{tenant_option(tenant)}", 2)
        )
    _print_warnings(details)
    if marked := list(details.tools.read_marks()["untrusted"]):
        print_untrusted_marks(details.facts["name"], marked, tenant)
    _report_unaccepted_tools(details.facts["name"], tenant, details.facts["waiting"])
    _report_not_running({**details.facts, "runtime": runtime}, tenant)


def _print_definitions(details: PluginDetails) -> None:
    """Print the server's definitions, and the status of each."""
    if not details.definitions:
        return
    print_result("")
    print_result("  What its server offers")
    said = {tool["name"]: "; ".join(tool["does"]) for tool in details.tools.values()}
    for definition in details.definitions[:MAX_DEFINITIONS]:
        name = definition.name if definition.kind == definition.name else f"{definition.kind} {definition.name}"
        note = f": {definition.reason}" if definition.reason else f" ({definition.accepted_by})"
        if definition.kind == "tool" and definition.name in said:
            note += f"; {said[definition.name]}"
        print_result(wrap_text(f"    • {printable(name, 200)} — {definition.standing.value}{printable(note, 400)}", 6))
    if len(details.definitions) > MAX_DEFINITIONS:
        print_result(f"    and {len(details.definitions) - MAX_DEFINITIONS} more")


def _print_instructions(details: PluginDetails) -> None:
    """Print the server's instructions for models, as its own words."""
    if details.instructions:
        print_result("")
        print_result("  What its server says to models")
        for line in details.instructions.splitlines():
            print_result(wrap_text(f"    {printable(line, 2_000)}", 4))


def _print_suspicious_text(details: PluginDetails) -> None:
    """Print suspicious text in the plugin's descriptions."""
    from paddock.plugins.install.consent_screen import suspicious_text_sections

    for section in suspicious_text_sections(details.tools.scan_findings()):
        print_result("")
        print_result(f"  {section.title}")
        for line in section.lines:
            text = styled(line, "yellow", stream=sys.stdout) if line in section.alarming else line
            print_result(wrap_text(f"    • {text}", 6))


def _process_state(runtime: Mapping[str, Any]) -> str:
    """Return the process state in a word. On demand: an enabled plugin must not appear as `disabled`."""
    return ON_DEMAND if runtime["on_demand"] else str(runtime["state"])


def _process_text(runtime: Mapping[str, Any]) -> str:
    """Describe the process state in one line."""
    if runtime["on_demand"]:
        return f"{ON_DEMAND}: it starts when it is called"
    if runtime["state"] != "running":
        return str(runtime["state"])
    since, calls = _format_time(runtime["running_since"]), f"{runtime['calls']} calls, {runtime['in_flight']} under way"
    return f"running since {since}, pid {runtime['pid']}, {calls}"


def _format_time(timestamp: object) -> str:
    """Format an ISO 8601 time for people."""
    return str(timestamp)[:19].replace("T", " ")


def _print_warnings(details: PluginDetails) -> None:
    """Print on stderr what keeps the plugin from running."""
    mark = styled("!", "yellow")
    if details.facts["repair"]:
        print_message(f"{mark} {printable(details.facts['repair'], 400)}")
        print_remedy_lines(remedy_lines("", Action.from_json(details.facts["repair_action"])))
        changed = details.changed_files()
        for line in changed[:MAX_CHANGED_FILES]:
            print_message(f"    {printable(line, 400)}")
        if len(changed) > MAX_CHANGED_FILES:
            print_message(f"    and {len(changed) - MAX_CHANGED_FILES} more")
    print_problems(details.warnings, "!", "yellow")
    for problem in details.obstacles:
        print_message(f"{mark} cannot be enabled: {printable(problem.message, 400)}")
        print_remedy_lines(remedy_lines(problem.hint, problem.action))
