"""`paddock plugin knobs`: what a person may tune of a plugin, listed and turned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_problems, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import Problem
from paddock.core.printable import printable

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def register(app: typer.Typer) -> None:
    app.command(
        "knobs",
        epilog="Examples: paddock plugin knobs weather   ·   paddock plugin knobs weather units=imperial --reset days",
    )(knobs)


@reporting
def knobs(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KNOB=VALUE]...", help="What to set; all knobs are listed when left out."),
    ] = None,
    *,
    reset: Annotated[
        list[str] | None,
        typer.Option("--reset", metavar="KNOB", help="Put one back to its default; repeat it for more."),
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show what you can tune of a plugin, or turn it. A running plugin goes by it when the command returns.

    Either all is set or nothing is: every mistake is told at once, and so is what the plugin refuses.
    """
    from paddock.cli.opening import reading
    from paddock.host.knobs import knobs_of

    texts = _split(settings or [])
    with reading(tenant) as host:
        shown = knobs_of(host.plugins, name)
    if not texts and not reset:
        _show(shown, as_json=as_json)
        return
    accepts = {knob["name"]: knob["accepts"] for knob in shown["knobs"]}
    values = {knob: value_from_text(accepts.get(knob, {}), text) for knob, text in texts.items()}
    turned = _turn(shown["name"], values, reset or [], tenant)
    if not as_json:
        words = [f"set {knob}" for knob in values] + [f"put {knob} back to its default" for knob in reset or []]
        say(f"{styled('✓', 'green')} {printable(', '.join(words), 400)}")
    _show(turned, as_json=as_json)


def _split(settings: Sequence[str]) -> dict[str, str]:
    """What was typed, by knob."""
    texts: dict[str, str] = {}
    for setting in settings:
        knob, equals, text = setting.partition("=")
        if not knob or not equals:
            raise typer.BadParameter(f"write KNOB=VALUE instead of {setting!r}", param_hint="KNOB=VALUE")
        if knob in texts:
            raise typer.BadParameter(f"{knob} is set twice", param_hint="KNOB=VALUE")
        texts[knob] = text
    return texts


def value_from_text(accepts: Mapping[str, Any], text: str) -> Any:
    """What a text means to a knob. One that means nothing to it stays a text, and is told with all other mistakes."""
    kind = accepts.get("type")
    if kind == "boolean":
        return _BOOLEANS.get(text.strip().lower(), text)
    if kind in ("number", "integer"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, int | float) and value - value == 0 else text  # and neither NaN nor endless
    return text


def _turn(name: str, values: Mapping[str, Any], reset: Sequence[str], tenant: str) -> dict[str, Any]:
    from paddock.cli.daemon import part, running_daemon

    if (daemon := running_daemon(tenant=tenant)) is not None:
        return daemon.put(f"/plugins/{part(name)}/knobs", {"knobs": values, "reset": list(reset)})
    from paddock.cli.opening import changing
    from paddock.config.knob_values import Turn
    from paddock.host.knobs import carry_out, knobs_of, plan_turn

    with changing(tenant) as host:
        carry_out(host.plugins, plan_turn(host.plugins, name, Turn(values, tuple(reset))))
        return knobs_of(host.plugins, name)


def _show(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        document(shown)
        return
    if not shown["knobs"]:
        say(f"{shown['name']} has no knobs")
    else:
        cells = [
            [
                knob["name"],
                _in_words(knob["value"]),
                "set" if knob["set"] else "default",
                _takes(knob),
                f"{knob['label']}: {knob['description']}" if knob["description"] else knob["label"],
            ]
            for knob in shown["knobs"]
        ]
        for line in table(["KNOB", "VALUE", "STATE", "TAKES", "DESCRIPTION"], cells):
            result(line)
    left_out = [
        Problem(one["knob"], f"{_in_words(one['value'])} is not used: {one['reason']}", _way_out(shown, one["knob"]))
        for one in shown["left_out"]
    ]
    show_problems(left_out, "!", "yellow")


def _way_out(shown: dict[str, Any], knob: str) -> str:
    return f"set another value, or forget it: paddock plugin knobs {shown['name']} --reset {knob}"


def _in_words(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _takes(knob: Mapping[str, Any]) -> str:
    """What it may be set to, in a few words."""
    options = knob["options"]
    match knob["type"]:
        case "range" | "int_range":
            return f"{options['min']} to {options['max']}"
        case "enum":
            return ", ".join(options["values"])
        case "boolean":
            return "true or false"
        case "path":
            return "a path below " + " or ".join(f"{prefix}/" for prefix in options["prefixes"])
        case "model_alias":
            return "the name of a model"
        case _:
            return f"up to {options['max_length']} characters" if "max_length" in options else "text"
