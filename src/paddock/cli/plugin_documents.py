"""`paddock plugin resources` and `paddock plugin prompts`: what a plugin has to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.plugins.definitions.documents import Listed

LONGEST_LINE = 10_000


def register(app: typer.Typer) -> None:
    app.command(
        "resources",
        epilog="Examples: paddock plugin resources library   ·   paddock plugin resources library memo://one",
    )(resources)
    app.command(
        "prompts",
        epilog="Examples: paddock plugin prompts library   ·   "
        """paddock plugin prompts library greet --params '{"who": "Ann"}'""",
    )(prompts)


@reporting
def resources(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    uri: Annotated[
        str | None, typer.Argument(help="The address of a document to read; all are listed without.")
    ] = None,
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the documents of a plugin, or read one of them: its server gives it."""
    from paddock.plugins.definitions.documents import resources_of

    if uri is None:
        listed = _listed(resources_of, name, tenant)
        rows = [
            *([one.get("uri"), one.get("name"), one.get("description")] for one in listed.entries["resources"]),
            *([one.get("uriTemplate"), one.get("name"), one.get("description")] for one in listed.entries["templates"]),
        ]
        _show_list(listed, ["ADDRESS", "NAME", "DESCRIPTION"], rows, "document", as_json=as_json)
        return
    found = _read_resource(name, uri, tenant)
    if as_json:
        document(found)
        return
    for content in _objects(found.get("contents")):
        _show_content(content)


@reporting
def prompts(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    prompt: Annotated[str | None, typer.Argument(help="A prompt to fill in; all are listed without.")] = None,
    *,
    params: Annotated[
        str, typer.Option("--params", "-p", metavar="JSON", help="Its arguments; @FILE reads a file, - reads stdin.")
    ] = "{}",
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the prompts of a plugin, or fill one of them in."""
    from paddock.cli.call import parameters
    from paddock.plugins.definitions.documents import prompts_of

    if prompt is None:
        listed = _listed(prompts_of, name, tenant)
        rows = [[one.get("name"), _arguments(one), one.get("description")] for one in listed.entries["prompts"]]
        _show_list(listed, ["NAME", "ARGUMENTS", "DESCRIPTION"], rows, "prompt", as_json=as_json)
        return
    found = _get_prompt(name, prompt, parameters(params, prompt), tenant)
    if as_json:
        document(found)
        return
    for message in _objects(found.get("messages")):
        say(styled(f"{printable(str(message.get('role')))}:", "bold"))
        content = message.get("content")
        for part in _objects(content if isinstance(content, list) else [content]):
            _show_content(part)


def _listed(look: Any, name: str, tenant: str) -> Listed:
    from paddock.cli.opening import reading

    with reading(tenant) as host:
        return look(host.plugins, name)


def _show_list(listed: Listed, headings: list[str], rows: list[list[Any]], what: str, *, as_json: bool) -> None:
    if as_json:
        document(listed.to_value())
        return
    if rows:
        for line in table(headings, [["" if cell is None else str(cell) for cell in row] for row in rows]):
            result(line)
    elif listed.known:
        say(f"{listed.name} has no {what}s")
    else:
        say(f"nobody knows yet what {listed.name} has: it never ran; enable it, or call it once")
    for row in listed.withheld:
        mark = styled("!", "yellow")
        say(f"{mark} {row.kind} {printable(row.name)} is {row.standing.value}: {printable(row.reason, 400)}")


def _arguments(prompt: Mapping[str, Any]) -> str:
    """The names of what it takes; those that it needs without anything around them."""
    named = [(str(one.get("name")), one.get("required") is True) for one in _objects(prompt.get("arguments"))]
    return " ".join(name if needed else f"[{name}]" for name, needed in named)


def _show_content(content: Mapping[str, Any]) -> None:
    text = content.get("text")
    if isinstance(text, str):
        for line in text.split("\n"):
            result(printable(line.replace("\t", "    "), LONGEST_LINE))
    elif isinstance(content.get("resource"), dict):
        _show_content(cast("dict[str, Any]", content["resource"]))
    else:
        kind = content.get("mimeType") or content.get("type") or "something"
        say(f"({printable(str(kind))}, which is no text; --json prints it)")


def _read_resource(name: str, uri: str, tenant: str) -> dict[str, Any]:
    from paddock.cli.daemon import part, running_daemon
    from paddock.cli.opening import in_path

    daemon = running_daemon(tenant=tenant)
    if daemon is not None:
        return daemon.get(f"/plugins/{in_path(name)}/resources/read?uri={part(uri)}", wait=None)
    from paddock.cli.one_reading import read_once

    return read_once(lambda host, context: host.read_resource(name, uri, context=context), tenant)


def _get_prompt(name: str, prompt: str, arguments: dict[str, Any], tenant: str) -> dict[str, Any]:
    from paddock.cli.daemon import part, running_daemon
    from paddock.cli.opening import in_path

    daemon = running_daemon(tenant=tenant)
    if daemon is not None:
        return daemon.post(f"/plugins/{in_path(name)}/prompts/{part(prompt)}", {"arguments": arguments}, wait=None)
    from paddock.cli.one_reading import read_once

    return read_once(lambda host, context: host.get_prompt(name, prompt, arguments, context=context), tenant)


def _objects(values: Any) -> Sequence[Mapping[str, Any]]:
    listed = cast("list[Any]", values) if isinstance(values, list) else []
    return [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]
