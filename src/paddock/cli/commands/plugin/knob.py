"""`paddock plugin knob`: list and set a plugin's knobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import format_table, print_json, print_message, print_problems, print_result, styled
from paddock.core.errors import Problem
from paddock.core.printable import printable

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@command("knob", examples=["paddock plugin knob weather", "paddock plugin knob weather units=imperial --reset days"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.argument("settings", nargs=-1, metavar="[KNOB=VALUE]...", help="The knobs to set. [default: list all knobs]")
@click.option("--reset", multiple=True, metavar="KNOB", help="Reset a knob to its default; may be repeated.")
@options.tenant
@options.as_json
def knob(name: str, settings: tuple[str, ...], *, reset: tuple[str, ...], tenant: str, as_json: bool) -> None:
    """Show or set the knobs of a plugin. When the command returns, a running plugin has applied the values.

    Either all values are set or none; all mistakes are reported at once, including values that the plugin rejects.
    """
    from paddock.cli.client.api_client import open_client, plugin_path

    texts, address = _parse_assignments(settings), f"{plugin_path(name)}/knobs"
    with open_client(tenant) as client:
        description = client.get(address)
        if not texts and not reset:
            _print_knobs(description, as_json=as_json)
            return
        accepts = {knob["name"]: knob["accepts"] for knob in description["knobs"]}
        values = {knob: parse_knob_value(accepts.get(knob, {}), text) for knob, text in texts.items()}
        updated = client.put(address, {"knobs": values, "reset": list(reset)})
    if not as_json:
        changes = [f"set {knob}" for knob in values] + [f"put {knob} back to its default" for knob in reset]
        print_message(f"{styled('✓', 'green')} {printable(', '.join(changes), 400)}")
    _print_knobs(updated, as_json=as_json)


def _parse_assignments(settings: Sequence[str]) -> dict[str, str]:
    """Parse KNOB=VALUE arguments, by knob."""
    texts: dict[str, str] = {}
    for setting in settings:
        knob, equals, text = setting.partition("=")
        if not knob or not equals:
            raise click.BadParameter(f"write KNOB=VALUE instead of {setting!r}", param_hint="KNOB=VALUE")
        if knob in texts:
            raise click.BadParameter(f"{knob} is set twice", param_hint="KNOB=VALUE")
        texts[knob] = text
    return texts


def parse_knob_value(accepts: Mapping[str, Any], text: str) -> Any:
    """Parse a text as a knob's type. An invalid text is kept, and reported with all other problems."""
    kind = accepts.get("type")
    if kind == "boolean":
        return _BOOLEANS.get(text.strip().lower(), text)
    if kind in ("number", "integer"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, int | float) and value - value == 0 else text  # rejects NaN and infinities
    return text


def _print_knobs(description: Mapping[str, Any], *, as_json: bool) -> None:
    from paddock.manifest.rules.knobs import accepted_values_text

    if as_json:
        print_json(description)
        return
    if not description["knobs"]:
        print_message(f"{description['name']} has no knobs")
    else:
        cells = [
            [
                knob["name"],
                _value_text(knob["value"]),
                "set" if knob["set"] else "default",
                accepted_values_text(knob["type"], knob["options"]),
                f"{knob['label']}: {knob['description']}" if knob["description"] else knob["label"],
            ]
            for knob in description["knobs"]
        ]
        for line in format_table(["KNOB", "VALUE", "STATE", "TAKES", "DESCRIPTION"], cells):
            print_result(line)
    problems = [
        Problem(
            item["knob"],
            f"{_value_text(item['value'])} is not used: {item['reason']}",
            _reset_hint(description, item["knob"]),
        )
        for item in description["left_out"]
    ]
    print_problems(problems, "!", "yellow")


def _reset_hint(description: Mapping[str, Any], knob: str) -> str:
    return f"set another value, or forget it: paddock plugin knob {description['name']} --reset {knob}"


def _value_text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
