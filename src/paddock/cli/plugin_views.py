"""Looking at plugins: `list` and `info`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_problems, styled, table, wrapped
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.plugins.details import Details
    from paddock.plugins.keys import KeyId
    from paddock.plugins.listing import Listed

# Spelled out: the manifest's own list takes longer to import than a listing takes. A test keeps them equal.
KINDS = ("agent", "operator", "tool", "adapter", "plugin")
# What `info` calls a fact where the name that scripts use is not the one the list has above its column.
LABELS = {"tier": "trust", "trust_claim": "claims", "installed_at": "installed"}
MOST_FILES = 20
MOST_DEFINITIONS = 200
# Already said by the state, and by the line at the end.
UNTOLD = ("enabled", "given_up", "repair")
NO_PROCESS = "-"
ON_DEMAND = "on demand"


def register(app: typer.Typer) -> None:
    app.command("list", epilog="Example: paddock plugin list --kind operator --json")(list_)
    app.command("info", epilog="Example: paddock plugin info memory-markdown")(info)


@reporting
def list_(
    *,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"Only plugins of one kind: {', '.join(KINDS)}.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show sources, homepages and digests.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List installed plugins and their state. They are installed for all tenants, and enabled for each by itself."""
    from paddock.cli.daemon import running_daemon
    from paddock.cli.opening import reading
    from paddock.plugins.listing import list_plugins
    from paddock.plugins.trust import trusted_keys

    wanted = _kind(kind)
    daemon = running_daemon(tenant=tenant)
    runtimes = {one["name"]: one["runtime"] for one in daemon.get("/plugins")["plugins"]} if daemon else {}
    with reading(tenant) as host:
        listed = list_plugins(host.plugins, wanted)
        signed = any(one.version and one.version.signature_text for one in listed)
        trusted = {key.key_id: key.label for key in host.plugins.database.read(trusted_keys)} if signed else {}
    rows = [_listed(one, trusted, runtimes.get(one.plugin.name), verbose=verbose or as_json) for one in listed]
    if as_json:
        document({"plugins": rows})
        return
    if not rows:
        say(
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
            _state(row),
            _process_word(row["runtime"]) if row["runtime"] else NO_PROCESS,
            row["kind"],
            row["tier"],
            row["description"],
        ]
        for row in rows
    ]
    for line, row in zip(table(headings, cells, spare=["DESCRIPTION", "KIND"]), [None, *rows], strict=True):
        result(line)
        if row and verbose:
            for label in ("title", "source", "homepage", "digest", "signature", "capabilities"):
                # A plugin whose pinned version is gone has only what its own row says.
                if said := row.get(label):
                    shown = ", ".join(cast("list[str]", said)) if isinstance(said, list) else said
                    result(wrapped(f"    {label.ljust(12)} {printable(str(shown), 300)}", 17))
    for row in rows:
        if row["repair"]:
            say(f"{styled('!', 'yellow')} {row['name']}: {row['repair']}")
        _tell_waiting(row["name"], tenant, row["waiting"])
        _tell_trouble(row, tenant)


def _state(row: Mapping[str, Any]) -> str:
    """What its files and grants say; how its process is doing stands beside it."""
    state: str = row["state"]
    more = [*(["given up"] if row["given_up"] else []), *([f"{row['waiting']} waiting"] if row["waiting"] else [])]
    return f"{state} ({', '.join(more)})" if more else state


def _tell_waiting(name: str, tenant: str, waiting: int) -> None:
    """That a server offers something that nobody accepted yet, on stderr."""
    if waiting:
        what = "one thing that its server says waits" if waiting == 1 else f"{waiting} things that its server says wait"
        say(f"{styled('!', 'yellow')} {name}: {what} for your yes — paddock plugin accept {name}{for_tenant(tenant)}")


def _tell_trouble(row: Mapping[str, Any], tenant: str) -> None:
    """Why a plugin that should run does not, on stderr."""
    from paddock.plugins.mending import mend_and_enable

    name, runtime, mark = row["name"], row["runtime"], styled("!", "yellow")
    if row["given_up"]:
        why = printable(row["given_up"], 400)
        say(f"{mark} {name} was given up and is disabled: it {why} — {mend_and_enable(name, tenant)}")
    elif runtime and runtime["reason"]:
        hint = f" — {printable(runtime['hint'], 400)}" if runtime["hint"] else ""
        say(f"{mark} {name} {runtime['state']}: {printable(runtime['reason'], 400)}{hint}")
    elif runtime and runtime["unused_config"]:
        say(f"{mark} {name}: the new configuration is not used: {printable(runtime['unused_config'], 400)}")


def _kind(written: str | None) -> str | None:
    """The kind that was asked for; its plural is understood too."""
    kind = written.lower().removesuffix("s") if written is not None else None
    if kind is not None and kind not in KINDS:
        raise typer.BadParameter(f"{printable(written or '')} is not one of {', '.join(KINDS)}", param_hint="--kind")
    return kind


def _listed(one: Listed, trusted: Mapping[KeyId, str], runtime: Any, *, verbose: bool) -> dict[str, Any]:
    from paddock.plugins.listing import State, repair_line
    from paddock.plugins.trust import standing_of

    state, words, tier, _ = (
        standing_of(one.version, trusted, intact=one.state is not State.MODIFIED)
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
        "repair": repair_line(one.plugin.name, one.state),
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


@reporting
def info(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show everything about one plugin: versions, trust, capabilities, tools, and what it would do."""
    from paddock.cli.daemon import part, running_daemon
    from paddock.cli.opening import reading
    from paddock.cli.running import warnings_of
    from paddock.plugins.details import details_of

    with reading(tenant) as host:
        details = details_of(host.plugins, name)
    runtime = None
    if (daemon := running_daemon(tenant=tenant)) is not None:
        shown = daemon.get(f"/plugins/{part(details.facts['name'])}")
        runtime, details = shown["runtime"], replace(details, warnings=warnings_of(shown))
    if as_json:
        document(details.to_value() | {"runtime": runtime})
        return
    listed = details.facts
    result(styled(printable(listed["title"] or listed["name"]), "bold", stream=sys.stdout))
    for name_of_fact, value in listed.items():
        if name_of_fact not in UNTOLD and value not in ("", None, [], False):
            shown = ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
            shown += " (given up)" if name_of_fact == "state" and listed["given_up"] else ""
            label = LABELS.get(name_of_fact, name_of_fact)
            result(wrapped(f"  {label.ljust(12)} {printable(shown, 400)}", 15))
    if runtime:
        result(wrapped(f"  {'process'.ljust(12)} {printable(_process(runtime), 400)}", 15))
        if failure := runtime["last_failure"]:
            told = f"{_moment(failure['at'])}: {failure['reason']}; restarted {runtime['restarts']} times"
            result(wrapped(f"  {'last failure'.ljust(12)} {printable(told, 400)}", 15))
    for section in details.sections:
        result("")
        result(f"  {section.title}")
        for line in section.lines:
            result(wrapped(f"    • {printable(line, 400)}", 6))
    _show_definitions(details)
    _show_instructions(details)
    _show_hints(details)
    if listed["callables"]:
        say(wrapped(f"what each does and takes: paddock plugin tools {listed['name']}{for_tenant(tenant)}", 2))
    _warn(details)
    _tell_waiting(details.facts["name"], tenant, details.facts["waiting"])
    _tell_trouble({**details.facts, "runtime": runtime}, tenant)


def _show_definitions(details: Details) -> None:
    """What its server says that it offers, and what may be done with each."""
    if not details.definitions:
        return
    result("")
    result("  What its server offers")
    for one in details.definitions[:MOST_DEFINITIONS]:
        named = one.name if one.kind == one.name else f"{one.kind} {one.name}"
        why = f": {one.reason}" if one.reason else f" ({one.accepted_by})"
        result(wrapped(f"    • {printable(named, 200)} — {one.standing.value}{printable(why, 400)}", 6))
    if len(details.definitions) > MOST_DEFINITIONS:
        result(f"    and {len(details.definitions) - MOST_DEFINITIONS} more")


def _show_instructions(details: Details) -> None:
    """What its server wants models to know: its words, and so shown as such."""
    if details.instructions:
        result("")
        result("  What its server says to models")
        for line in details.instructions.splitlines():
            result(wrapped(f"    {printable(line, 2_000)}", 4))


def _show_hints(details: Details) -> None:
    """What is odd about its words."""
    from paddock.plugins.consent import odd_words

    for section in odd_words(details.tools.hints()):
        result("")
        result(f"  {section.title}")
        for line in section.lines:
            shown = styled(line, "yellow", stream=sys.stdout) if line in section.alarming else line
            result(wrapped(f"    • {shown}", 6))


def _process_word(runtime: Mapping[str, Any]) -> str:
    """How its process is doing, in a word. `disabled` would be said of what people enabled, and can call."""
    return ON_DEMAND if runtime["on_demand"] else str(runtime["state"])


def _process(runtime: Mapping[str, Any]) -> str:
    """How its process is doing, in one line."""
    if runtime["on_demand"]:
        return f"{ON_DEMAND}: it starts when it is called"
    if runtime["state"] != "running":
        return str(runtime["state"])
    since, calls = _moment(runtime["running_since"]), f"{runtime['calls']} calls, {runtime['in_flight']} under way"
    return f"running since {since}, pid {runtime['pid']}, {calls}"


def _moment(at: object) -> str:
    """A time of an ISO-8601 text, as people read it."""
    return str(at)[:19].replace("T", " ")


def _warn(details: Details) -> None:
    """What keeps the plugin from running, on stderr."""
    mark = styled("!", "yellow")
    if details.facts["repair"]:
        say(f"{mark} {printable(details.facts['repair'], 400)}")
        changed = details.changed_files()
        for line in changed[:MOST_FILES]:
            say(f"    {printable(line, 400)}")
        if len(changed) > MOST_FILES:
            say(f"    and {len(changed) - MOST_FILES} more")
    show_problems(details.warnings, "!", "yellow")
    for problem in details.obstacles:
        hint = f" — {printable(problem.hint, 400)}" if problem.hint else ""
        say(f"{mark} cannot be enabled: {printable(problem.message, 400)}{hint}")
