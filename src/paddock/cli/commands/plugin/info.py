"""Looking at plugins: `list` and `info`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, TenantOption
from paddock.cli.output.report import (
    JsonOption,
    format_table,
    handle_errors,
    print_json,
    print_message,
    print_problems,
    print_result,
    styled,
    wrap_text,
)
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.plugins.manage.details import PluginDetails
    from paddock.plugins.store.listing import InstalledPlugin
    from paddock.plugins.trust.signing_keys import KeyId

# Spelled out: the manifest's own list takes longer to import than a listing takes. A test keeps them equal.
KINDS = ("agent", "operator", "tool", "adapter", "plugin")
# What `info` calls a fact where the name that scripts use is not the one the list has above its column.
FACT_LABELS = {"tier": "trust", "trust_claim": "claims", "installed_at": "installed"}
MAX_CHANGED_FILES = 20
MAX_DEFINITIONS = 200
# Already said by the state, and by the line at the end.
HIDDEN_FACTS = ("enabled", "given_up", "repair")
NO_PROCESS = "-"
ON_DEMAND = "on demand"


def register(app: typer.Typer) -> None:
    app.command("list", epilog="Example: paddock plugin list --kind operator --json")(list_)
    app.command("info", epilog="Example: paddock plugin info memory-markdown")(info)


@handle_errors
def list_(
    *,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"Only plugins of one kind: {', '.join(KINDS)}.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show sources, homepages and digests.")] = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """List installed plugins and their state. They are installed for all tenants, and enabled for each by itself."""
    from paddock.cli.client.daemon_client import running_daemon
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.store.listing import list_plugins
    from paddock.plugins.trust.trusted_keys import list_trusted_keys

    wanted = _parse_kind(kind)
    daemon = running_daemon(tenant=tenant)
    runtimes = {one["name"]: one["runtime"] for one in daemon.get("/plugins")["plugins"]} if daemon else {}
    with open_for_read(tenant) as host:
        listed = list_plugins(host.plugins, wanted)
        signed = any(one.version and one.version.signature_text for one in listed)
        trusted = {key.key_id: key.label for key in host.plugins.database.read(list_trusted_keys)} if signed else {}
    rows = [_row_json(one, trusted, runtimes.get(one.plugin.name), verbose=verbose or as_json) for one in listed]
    if as_json:
        print_json({"plugins": rows})
        return
    if not rows:
        print_message(
            f"no plugin of kind {wanted} is installed; all of them: paddock plugin list"
            if wanted
            else "no plugins are installed; try: paddock plugin install DIR"
        )
        return
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
    for line, row in zip(format_table(headings, cells, spare=["DESCRIPTION", "KIND"]), [None, *rows], strict=True):
        print_result(line)
        if row and verbose:
            for label in ("title", "source", "homepage", "digest", "signature", "capabilities"):
                # A plugin whose pinned version is gone has only what its own row says.
                if said := row.get(label):
                    shown = ", ".join(cast("list[str]", said)) if isinstance(said, list) else said
                    print_result(wrap_text(f"    {label.ljust(12)} {printable(str(shown), 300)}", 17))
    for row in rows:
        if row["repair"]:
            print_message(f"{styled('!', 'yellow')} {row['name']}: {row['repair']}")
        _report_unaccepted_tools(row["name"], tenant, row["waiting"])
        _report_not_running(row, tenant)


def _state_text(row: Mapping[str, Any]) -> str:
    """What its files and grants say; how its process is doing stands beside it."""
    state: str = row["state"]
    more = [*(["given up"] if row["given_up"] else []), *([f"{row['waiting']} waiting"] if row["waiting"] else [])]
    return f"{state} ({', '.join(more)})" if more else state


def _report_unaccepted_tools(name: str, tenant: str, waiting: int) -> None:
    """That a server offers something that nobody accepted yet, on stderr."""
    if waiting:
        what = "one thing that its server says waits" if waiting == 1 else f"{waiting} things that its server says wait"
        print_message(
            f"{styled('!', 'yellow')} {name}: {what} for your yes — paddock plugin accept {name}{tenant_option(tenant)}"
        )


def _report_not_running(row: Mapping[str, Any], tenant: str) -> None:
    """Why a plugin that should run does not, on stderr."""
    from paddock.plugins.manage.repair_text import upgrade_or_enable_hint

    name, runtime, mark = row["name"], row["runtime"], styled("!", "yellow")
    if row["given_up"]:
        why = printable(row["given_up"], 400)
        print_message(f"{mark} {name} was given up and is disabled: it {why} — {upgrade_or_enable_hint(name, tenant)}")
    elif runtime and runtime["reason"]:
        hint = f" — {printable(runtime['hint'], 400)}" if runtime["hint"] else ""
        print_message(f"{mark} {name} {runtime['state']}: {printable(runtime['reason'], 400)}{hint}")
    elif runtime and runtime["unused_config"]:
        print_message(f"{mark} {name}: the new configuration is not used: {printable(runtime['unused_config'], 400)}")


def _parse_kind(written: str | None) -> str | None:
    """The kind that was asked for; its plural is understood too."""
    kind = written.lower().removesuffix("s") if written is not None else None
    if kind is not None and kind not in KINDS:
        raise typer.BadParameter(f"{printable(written or '')} is not one of {', '.join(KINDS)}", param_hint="--kind")
    return kind


def _row_json(one: InstalledPlugin, trusted: Mapping[KeyId, str], runtime: Any, *, verbose: bool) -> dict[str, Any]:
    from paddock.plugins.store.listing import InstalledState, repair_hint
    from paddock.plugins.trust.trusted_keys import describe_signer

    state, words, tier, _ = (
        describe_signer(one.version, trusted, intact=one.state is not InstalledState.MODIFIED)
        if one.version
        else ("unknown", "", "personal", None)
    )
    row: dict[str, Any] = {
        "name": one.plugin.name,
        "title": one.plugin.title,
        "version": one.plugin.current_version,
        "versions": list(one.versions),
        "state": one.state.value,
        "enabled": bool(one.grant and one.grant.enabled),
        "given_up": one.given_up,
        "pinned": one.plugin.pinned_version,
        "kind": one.kind,
        "dialect": one.version.dialect if one.version else "",
        "tier": tier,
        "signature": f"{state}: {words}" if verbose else str(state),
        "description": one.description,
        "repair": repair_hint(one.plugin.name, one.state),
        "waiting": one.waiting,
        "runtime": runtime,
    }
    if verbose and one.version:
        row |= {
            "source": one.version.source.describe(),
            "homepage": one.version.document.get("homepage", ""),
            "digest": one.version.digest,
            "capabilities": one.version.document.get("capabilities", []),
        }
    return row


@handle_errors
def info(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    *,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one plugin: versions, trust, capabilities, tools, and what it would do."""
    from paddock.cli.client.daemon_client import path_segment, running_daemon
    from paddock.cli.client.one_shot import open_for_read
    from paddock.cli.client.plugin_status import warnings_from_response
    from paddock.plugins.manage.details import load_details

    with open_for_read(tenant) as host:
        details = load_details(host.plugins, name)
    runtime = None
    if (daemon := running_daemon(tenant=tenant)) is not None:
        shown = daemon.get(f"/plugins/{path_segment(details.facts['name'])}")
        runtime, details = shown["runtime"], replace(details, warnings=warnings_from_response(shown))
    if as_json:
        print_json(details.to_value() | {"runtime": runtime})
        return
    listed = details.facts
    print_result(styled(printable(listed["title"] or listed["name"]), "bold", stream=sys.stdout))
    for name_of_fact, value in listed.items():
        if name_of_fact not in HIDDEN_FACTS and value not in ("", None, [], False):
            shown = ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
            shown += " (given up)" if name_of_fact == "state" and listed["given_up"] else ""
            label = FACT_LABELS.get(name_of_fact, name_of_fact)
            print_result(wrap_text(f"  {label.ljust(12)} {printable(shown, 400)}", 15))
    if runtime:
        print_result(wrap_text(f"  {'process'.ljust(12)} {printable(_process_text(runtime), 400)}", 15))
        if failure := runtime["last_failure"]:
            told = f"{_format_time(failure['at'])}: {failure['reason']}; restarted {runtime['restarts']} times"
            print_result(wrap_text(f"  {'last failure'.ljust(12)} {printable(told, 400)}", 15))
    for section in details.sections:
        print_result("")
        print_result(f"  {section.title}")
        for line in section.lines:
            print_result(wrap_text(f"    • {printable(line, 400)}", 6))
    _print_definitions(details)
    _print_instructions(details)
    _print_suspicious_text(details)
    if listed["callables"]:
        print_message(
            wrap_text(f"what each does and takes: paddock plugin tools {listed['name']}{tenant_option(tenant)}", 2)
        )
    _print_warnings(details)
    _report_unaccepted_tools(details.facts["name"], tenant, details.facts["waiting"])
    _report_not_running({**details.facts, "runtime": runtime}, tenant)


def _print_definitions(details: PluginDetails) -> None:
    """What its server says that it offers, and what may be done with each."""
    if not details.definitions:
        return
    print_result("")
    print_result("  What its server offers")
    for one in details.definitions[:MAX_DEFINITIONS]:
        named = one.name if one.kind == one.name else f"{one.kind} {one.name}"
        why = f": {one.reason}" if one.reason else f" ({one.accepted_by})"
        print_result(wrap_text(f"    • {printable(named, 200)} — {one.standing.value}{printable(why, 400)}", 6))
    if len(details.definitions) > MAX_DEFINITIONS:
        print_result(f"    and {len(details.definitions) - MAX_DEFINITIONS} more")


def _print_instructions(details: PluginDetails) -> None:
    """What its server wants models to know: its words, and so shown as such."""
    if details.instructions:
        print_result("")
        print_result("  What its server says to models")
        for line in details.instructions.splitlines():
            print_result(wrap_text(f"    {printable(line, 2_000)}", 4))


def _print_suspicious_text(details: PluginDetails) -> None:
    """What is odd about its words."""
    from paddock.plugins.install.consent_screen import suspicious_text_sections

    for section in suspicious_text_sections(details.tools.scan_findings()):
        print_result("")
        print_result(f"  {section.title}")
        for line in section.lines:
            shown = styled(line, "yellow", stream=sys.stdout) if line in section.alarming else line
            print_result(wrap_text(f"    • {shown}", 6))


def _process_state(runtime: Mapping[str, Any]) -> str:
    """How its process is doing, in a word. `disabled` would be said of what people enabled, and can call."""
    return ON_DEMAND if runtime["on_demand"] else str(runtime["state"])


def _process_text(runtime: Mapping[str, Any]) -> str:
    """How its process is doing, in one line."""
    if runtime["on_demand"]:
        return f"{ON_DEMAND}: it starts when it is called"
    if runtime["state"] != "running":
        return str(runtime["state"])
    since, calls = _format_time(runtime["running_since"]), f"{runtime['calls']} calls, {runtime['in_flight']} under way"
    return f"running since {since}, pid {runtime['pid']}, {calls}"


def _format_time(at: object) -> str:
    """A time of an ISO-8601 text, as people read it."""
    return str(at)[:19].replace("T", " ")


def _print_warnings(details: PluginDetails) -> None:
    """What keeps the plugin from running, on stderr."""
    mark = styled("!", "yellow")
    if details.facts["repair"]:
        print_message(f"{mark} {printable(details.facts['repair'], 400)}")
        changed = details.changed_files()
        for line in changed[:MAX_CHANGED_FILES]:
            print_message(f"    {printable(line, 400)}")
        if len(changed) > MAX_CHANGED_FILES:
            print_message(f"    and {len(changed) - MAX_CHANGED_FILES} more")
    print_problems(details.warnings, "!", "yellow")
    for problem in details.obstacles:
        hint = f" — {printable(problem.hint, 400)}" if problem.hint else ""
        print_message(f"{mark} cannot be enabled: {printable(problem.message, 400)}{hint}")
