"""`paddock plugin resources` and `paddock plugin prompts`: list and read a plugin's documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.plugins.tool_pinning.documents import DocumentListing

MAX_LINE_CHARS = 10_000


@command("resources", examples=["paddock plugin resources library", "paddock plugin resources library memo://one"])
@click.argument("name", help="The plugin's name or an alias of it.")
@click.argument("uri", required=False, help="The address of a document to read; all are listed without.")
@options.tenant
@options.as_json
def resources(name: str, uri: str | None, *, tenant: str, as_json: bool) -> None:
    """List the documents of a plugin, or read one of them: its server gives it."""
    from paddock.plugins.tool_pinning.documents import list_resources

    if uri is None:
        listing = _read_listing(list_resources, name, tenant)
        rows = [
            *(
                [entry.get("uri"), entry.get("name"), entry.get("description")]
                for entry in listing.entries["resources"]
            ),
            *(
                [entry.get("uriTemplate"), entry.get("name"), entry.get("description")]
                for entry in listing.entries["templates"]
            ),
        ]
        _print_listing(listing, ["ADDRESS", "NAME", "DESCRIPTION"], rows, "document", as_json=as_json)
        return
    result = _read_resource(name, uri, tenant)
    if as_json:
        print_json(result)
        return
    for content in _only_objects(result.get("contents")):
        _print_content(content)


@command(
    "prompts",
    examples=["paddock plugin prompts library", """paddock plugin prompts library greet --params '{"who": "Ann"}'"""],
)
@click.argument("name", help="The plugin's name or an alias of it.")
@click.argument("prompt", required=False, help="A prompt to fill in; all are listed without.")
@click.option("--params", "-p", default="{}", metavar="JSON", help="Its arguments; @FILE reads a file, - reads stdin.")
@options.tenant
@options.as_json
def prompts(name: str, prompt: str | None, *, params: str, tenant: str, as_json: bool) -> None:
    """List the prompts of a plugin, or fill one of them in."""
    from paddock.cli.commands.call import read_parameters
    from paddock.plugins.tool_pinning.documents import list_prompts

    if prompt is None:
        listing = _read_listing(list_prompts, name, tenant)
        rows = [
            [entry.get("name"), _argument_names(entry), entry.get("description")]
            for entry in listing.entries["prompts"]
        ]
        _print_listing(listing, ["NAME", "ARGUMENTS", "DESCRIPTION"], rows, "prompt", as_json=as_json)
        return
    result = _get_prompt(name, prompt, read_parameters(params, prompt), tenant)
    if as_json:
        print_json(result)
        return
    for message in _only_objects(result.get("messages")):
        print_message(styled(f"{printable(str(message.get('role')))}:", "bold"))
        content = message.get("content")
        for part in _only_objects(content if isinstance(content, list) else [content]):
            _print_content(part)


def _read_listing(list_documents: Any, name: str, tenant: str) -> DocumentListing:
    from paddock.cli.client.one_shot import open_for_read

    with open_for_read(tenant) as host:
        return list_documents(host.plugins, name)


def _print_listing(
    listing: DocumentListing, headings: list[str], rows: list[list[Any]], noun: str, *, as_json: bool
) -> None:
    if as_json:
        print_json(listing.to_value())
        return
    if rows:
        for line in format_table(headings, [["" if cell is None else str(cell) for cell in row] for row in rows]):
            print_result(line)
    elif listing.known:
        print_message(f"{listing.name} has no {noun}s")
    else:
        print_message(f"nobody knows yet what {listing.name} has: it never ran; enable it, or call it once")
    for row in listing.withheld:
        mark = styled("!", "yellow")
        print_message(f"{mark} {row.kind} {printable(row.name)} is {row.standing.value}: {printable(row.reason, 400)}")


def _argument_names(prompt: Mapping[str, Any]) -> str:
    """Return the argument names, optional ones in brackets."""
    arguments = [
        (str(argument.get("name")), argument.get("required") is True)
        for argument in _only_objects(prompt.get("arguments"))
    ]
    return " ".join(name if required else f"[{name}]" for name, required in arguments)


def _print_content(content: Mapping[str, Any]) -> None:
    text = content.get("text")
    if isinstance(text, str):
        for line in text.split("\n"):
            print_result(printable(line.replace("\t", "    "), MAX_LINE_CHARS))
    elif isinstance(content.get("resource"), dict):
        _print_content(cast("dict[str, Any]", content["resource"]))
    else:
        media_type = content.get("mimeType") or content.get("type") or "something"
        print_message(f"({printable(str(media_type))}, which is no text; --json prints it)")


def _read_resource(name: str, uri: str, tenant: str) -> dict[str, Any]:
    from paddock.cli.client.daemon_client import path_segment, running_daemon
    from paddock.cli.client.one_shot import plugin_path_segment

    daemon = running_daemon(tenant=tenant)
    if daemon is not None:
        return daemon.get(
            f"/plugins/{plugin_path_segment(name)}/resources/read?uri={path_segment(uri)}", timeout_s=None
        )
    from paddock.cli.client.in_process import read_in_process

    return read_in_process(lambda host, context: host.read_resource(name, uri, context=context), tenant)


def _get_prompt(name: str, prompt: str, arguments: dict[str, Any], tenant: str) -> dict[str, Any]:
    from paddock.cli.client.daemon_client import path_segment, running_daemon
    from paddock.cli.client.one_shot import plugin_path_segment

    daemon = running_daemon(tenant=tenant)
    if daemon is not None:
        return daemon.post(
            f"/plugins/{plugin_path_segment(name)}/prompts/{path_segment(prompt)}",
            {"arguments": arguments},
            timeout_s=None,
        )
    from paddock.cli.client.in_process import read_in_process

    return read_in_process(lambda host, context: host.get_prompt(name, prompt, arguments, context=context), tenant)


def _only_objects(values: Any) -> Sequence[Mapping[str, Any]]:
    items = cast("list[Any]", values) if isinstance(values, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
