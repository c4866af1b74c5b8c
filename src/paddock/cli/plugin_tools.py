"""`paddock plugin tools`: what a plugin can be asked to do, what each takes and changes, and how it stands."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from paddock.cli.odd_words import tell_odd_words
from paddock.cli.output import AsJson, document, reporting, result, say, styled, wrapped
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.core.schema_walk import as_object
from paddock.plugins.definitions.flagging.hints import in_words

MOST_TOOLS = 200
MOST_LINES = 12  # of a description, where all tools are listed
MOST_CHOICES = 30
LONGEST_LINE = 10_000


def register(app: typer.Typer) -> None:
    app.command(
        "tools", epilog="Examples: paddock plugin tools slow-count   ·   paddock plugin tools slow-count count"
    )(tools)


@reporting
def tools(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    tool: Annotated[
        str | None, typer.Argument(help="One of them, with its whole schemas; all are listed without.")
    ] = None,
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show what a plugin can be asked to do: what each tool says, takes and changes.

    What a package declares is shown without running it; what a server says, as it said it last. An enabled server that
    never ran is started once, to ask it.
    """
    listed, enabled = _recorded(name, tenant)
    if not listed["known"] and enabled:
        say(f"{listed['name']} never ran: it is started once, to hear what it offers")
        listed = _met(listed["name"], tenant)
    if tool is not None:
        _show_one(listed, tool, as_json=as_json)
    elif as_json:
        document(listed)
    else:
        _show_all(listed)


def _recorded(name: str, tenant: str) -> tuple[dict[str, Any], bool]:
    """What is on record, and whether the plugin may run."""
    from paddock.cli.opening import reading
    from paddock.plugins.definitions.tools import tools_of
    from paddock.plugins.rows import find_grant

    with reading(tenant) as host:
        store = host.plugins
        found = tools_of(store, name)
        grant = store.database.read(lambda tx: find_grant(tx, store.tenant, found.manifest.name))
    return found.to_value(), bool(grant and grant.enabled)


def _met(name: str, tenant: str) -> dict[str, Any]:
    from paddock.cli.daemon import part, running_daemon

    if (daemon := running_daemon(tenant=tenant)) is not None:
        return daemon.post(f"/plugins/{part(name)}/tools/meet", wait=None)
    from paddock.cli.one_reading import read_once

    return read_once(lambda host, context: host.tools(name, tenant=context.tenant, meet=True), tenant)


def _show_all(listed: Mapping[str, Any]) -> None:
    found = listed["tools"]
    for number, one in enumerate(found[:MOST_TOOLS]):
        if number:
            result("")
        _show(listed["name"], one, MOST_LINES)
    if len(found) > MOST_TOOLS:
        say(f"and {len(found) - MOST_TOOLS} more, which --json prints")
    tell_odd_words(listed["hints"], f"paddock plugin info {listed['name']}")
    if not listed["known"]:
        say(_unknown(listed["name"]))
    elif not found:
        say(f"{listed['name']} offers nothing to call")


def _show_one(listed: Mapping[str, Any], tool: str, *, as_json: bool) -> None:
    plugin = listed["name"]
    found = next((one for one in listed["tools"] if tool in (one["name"], one["call"])), None)
    if found is None:
        names = ", ".join(one["name"] for one in listed["tools"][:20])
        hint = f"it offers: {names}" if names else "it offers nothing to call"
        raise NotFound(
            f"{plugin} has no {tool!r}",
            code="callable.not_found",
            hint=hint if listed["known"] else _unknown(plugin),
            details={"plugin": plugin},
        )
    if as_json:
        document({"plugin": plugin, **found})
        return
    _show(plugin, found)
    for title, schema in (("takes", found["input_schema"]), ("gives", found["output_schema"])):
        if schema is not None:
            result("")
            result(f"  What it {title}, as JSON Schema")
            for line in _readable(schema):
                result(f"    {line}")


def _unknown(plugin: str) -> str:
    return f"nobody knows yet what {plugin} offers: it never ran; let it: paddock plugin enable {plugin}"


def _show(plugin: str, tool: Mapping[str, Any], most_lines: int | None = None) -> None:
    """One tool. Whatever it says is its author's: made printable when it was read, and cut here."""
    title = f" — {tool['title']}" if tool["title"] else ""
    result(styled(printable(f"{tool['call']}{title}", 400), "bold", stream=sys.stdout))
    described: Sequence[str] = tool["description"].splitlines()
    for line in described[:most_lines]:
        result(wrapped(f"    {printable(line, LONGEST_LINE)}", 4))
    if most_lines is not None and len(described) > most_lines:
        result(f"    … and {len(described) - most_lines} more lines")
    for one in tool["parameters"]:
        result(wrapped(f"    • {printable(_parameter(one), LONGEST_LINE)}", 8))
    if not tool["parameters"]:
        result("    • takes no parameters" if _takes_nothing(tool) else "    • does not say what it takes")
    for label, words in _about(plugin, tool):
        result(wrapped(f"    {label}: {printable(words, LONGEST_LINE)}", 8))
    for hint in tool["hints"]:
        result(wrapped(styled(f"    odd: {in_words(hint)}", "yellow", stream=sys.stdout), 8))


def _about(plugin: str, tool: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    from paddock.manifest.effects import HARMLESS, IN_WORDS, Effect
    from paddock.manifest.recovery import in_words

    yield "effects", "; ".join(IN_WORDS[Effect(effect)] for effect in tool["effects"])
    if not HARMLESS.issuperset(map(Effect, tool["effects"])):
        yield "recovery", f"{tool['recovery']}: if it is cut off, {in_words(tool['recovery'], tool['probe'])}"
    if tool["requires_approval"]:
        yield "approval", "a person has to approve each call"
    if tool["required_scopes"]:
        yield "scopes", ", ".join(tool["required_scopes"])
    match tool["standing"]:
        case "declared":
            pass  # as its package says, which somebody consented to
        case "unmet":
            yield "standing", "its package names it; its server never ran"
        case "accepted":
            yield "standing", f"accepted ({tool['accepted_by']})"
        case "quarantined":
            look = f"paddock plugin accept {plugin} {shlex.quote(tool['name'])}"
            yield "standing", f"quarantined: {tool['reason']} — look at it: {look}"
        case standing:
            yield "standing", f"{standing}: {tool['reason']}" if tool["reason"] else standing


def _takes_nothing(tool: Mapping[str, Any]) -> bool:
    schema = as_object(tool["input_schema"]) or {}
    return "properties" in schema or schema.get("additionalProperties") is False


def _parameter(one: Mapping[str, Any]) -> str:
    facts = [one["type"], *(["required"] if one["required"] else [])]
    if "default" in one:
        facts.append(f"default {_value(one['default'])}")
    if "enum" in one:
        more = ", …" if len(one["enum"]) > MOST_CHOICES else ""
        facts.append(f"one of {', '.join(map(_value, one['enum'][:MOST_CHOICES]))}{more}")
    words = " ".join(one["description"].split())
    return f"{one['name']} ({', '.join(facts)})" + (f": {words}" if words else "")


def _value(value: Any) -> str:
    from paddock.plugins.definitions.parameters import visible

    return printable(visible(json.dumps(value, ensure_ascii=False)), 200)


def _readable(schema: Any) -> list[str]:
    from paddock.plugins.definitions.hidden import unhidden

    lines = json.dumps(schema, indent=2, ensure_ascii=False).split("\n")
    return [printable(unhidden(line), LONGEST_LINE) for line in lines]
