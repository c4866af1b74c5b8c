"""`paddock plugin resources` and `paddock plugin prompts`: list and read a plugin's documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled
from paddock.core.printable import printable

MAX_LINE_CHARS = 10_000


@command("resources", examples=["paddock plugin resources library", "paddock plugin resources library memo://one"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.argument("uri", required=False, help="The URI of a resource to read. [default: list all]")
@options.tenant
@options.as_json
def resources(name: str, uri: str | None, *, tenant: str, as_json: bool) -> None:
    """List the resources of a plugin, or read one of them."""
    from paddock.cli.client.api_client import open_client, path_segment, plugin_path

    address = f"{plugin_path(name)}/resources"
    with open_client(tenant) as client:
        if uri is None:
            response = client.get(address)
        else:
            response = client.get(f"{address}/read?uri={path_segment(uri)}", timeout_s=None)
    if uri is None:
        rows = [
            *([entry.get("uri"), entry.get("name"), entry.get("description")] for entry in response["resources"]),
            *(
                [entry.get("uriTemplate"), entry.get("name"), entry.get("description")]
                for entry in response["templates"]
            ),
        ]
        _print_listing(response, ["ADDRESS", "NAME", "DESCRIPTION"], rows, "document", as_json=as_json)
        return
    if as_json:
        print_json(response)
        return
    for content in _only_objects(response.get("contents")):
        _print_content(content)


@command(
    "prompts",
    examples=["paddock plugin prompts library", """paddock plugin prompts library greet --params '{"who": "Ann"}'"""],
)
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.argument("prompt", required=False, help="A prompt to render. [default: list all]")
@click.option(
    "--params",
    "-p",
    default="{}",
    metavar="JSON",
    help="The arguments of the prompt; @FILE reads a file, - reads stdin.",
)
@options.tenant
@options.as_json
def prompts(name: str, prompt: str | None, *, params: str, tenant: str, as_json: bool) -> None:
    """List the prompts of a plugin, or render one of them."""
    from paddock.cli.client.api_client import open_client, path_segment, plugin_path
    from paddock.cli.commands.call.make import read_parameters

    address = f"{plugin_path(name)}/prompts"
    body = {} if prompt is None else {"arguments": read_parameters(params, prompt)}
    with open_client(tenant) as client:
        if prompt is None:
            response = client.get(address)
        else:
            response = client.post(f"{address}/{path_segment(prompt)}", body, timeout_s=None)
    if prompt is None:
        rows = [[entry.get("name"), _argument_names(entry), entry.get("description")] for entry in response["prompts"]]
        _print_listing(response, ["NAME", "ARGUMENTS", "DESCRIPTION"], rows, "prompt", as_json=as_json)
        return
    if as_json:
        print_json(response)
        return
    for message in _only_objects(response.get("messages")):
        print_message(styled(f"{printable(str(message.get('role')))}:", "bold"))
        content = message.get("content")
        for part in _only_objects(content if isinstance(content, list) else [content]):
            _print_content(part)


def _print_listing(
    listing: Mapping[str, Any], headings: list[str], rows: list[list[Any]], noun: str, *, as_json: bool
) -> None:
    if as_json:
        print_json(listing)
        return
    if rows:
        for line in format_table(headings, [["" if cell is None else str(cell) for cell in row] for row in rows]):
            print_result(line)
    elif listing["known"]:
        print_message(f"{listing['name']} has no {noun}s")
    else:
        print_message(f"nobody knows yet what {listing['name']} has: it never ran; enable it, or call it once")
    for row in listing["withheld"]:
        mark = styled("!", "yellow")
        print_message(
            f"{mark} {row['kind']} {printable(row['name'])} is {row['standing']}: {printable(row['reason'], 400)}"
        )


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


def _only_objects(values: Any) -> Sequence[Mapping[str, Any]]:
    items = cast("list[Any]", values) if isinstance(values, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
