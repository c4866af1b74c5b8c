"""`paddock plugin configure`: what a plugin needs to know on this machine, such as a key for a service."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import OperatorError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.config.plugin_fields import PluginField
    from paddock.plugins.plugin_store import PluginStore

LONGEST_VALUE = 64 * 1024


def register(app: typer.Typer) -> None:
    app.command(
        "configure",
        epilog="Examples: paddock plugin configure weather api_key   ·   paddock plugin configure weather",
    )(configure)


@reporting
def configure(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    key: Annotated[str | None, typer.Argument(help="The field to set; all are listed when left out.")] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Forget the field's value.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Set what a plugin needs on this machine. The value is asked for, or read from stdin; it is never shown."""
    from paddock.cli.opening import changing, reading
    from paddock.config.plugin_fields import require_field, value_from_text

    if key is None:
        if unset:
            raise typer.BadParameter("name the field to forget", param_hint="KEY")
        with reading(tenant) as host:
            _list(host.plugins, name, as_json=as_json)
        return
    with changing(tenant) as host:
        store = host.plugins
        plugin, schema = _declared(store, name)
        field = require_field(schema, plugin, key)
        value = None if unset else value_from_text(schema, field, _typed(field))
        was_set = _write(store, plugin, key, value, unset=unset)
    if as_json:
        document({"name": plugin, "key": key, "set": not unset, "file": str(store.values_file)})
        return
    words = f"set {key} of {plugin}" if not unset else f"forgot {key} of {plugin}" if was_set else f"{key} was not set"
    say(f"{styled('✓', 'green')} {printable(words)}")


def _declared(store: PluginStore, name: str) -> tuple[str, Mapping[str, Any]]:
    """The plugin's own name, and the schema of its configuration on a machine."""
    from paddock.plugins.registry import resolve_plugin

    manifest = resolve_plugin(store, name).manifest
    return manifest.name, manifest.system_config_schema or {}


def _write(store: PluginStore, plugin: str, key: str, value: Any, *, unset: bool) -> bool:
    from paddock.config.local import set_system_value, unset_system_value
    from paddock.plugins.registry import require_plugin

    # Asked again under the lock: the plugin may have been removed while somebody was typing.
    with store.changing():
        store.database.read(lambda tx: require_plugin(tx, plugin))
        if unset:
            return unset_system_value(store.values_file, plugin, key)
        set_system_value(store.values_file, plugin, key, value)
        return True


def _list(store: PluginStore, name: str, *, as_json: bool) -> None:
    from paddock.config.local import read_entries
    from paddock.config.plugin_fields import fields_of

    plugin, schema = _declared(store, name)
    entry = read_entries(store.values_file).get(plugin)
    have = set(entry.written) if entry else set[str]()
    fields = fields_of(schema)
    if as_json:
        rows = [
            {
                "key": field.name,
                "set": field.name in have,
                "required": field.required,
                "secret": field.secret,
                "takes": field.in_words,
                "description": field.description,
            }
            for field in fields
        ]
        document({"name": plugin, "file": str(store.values_file), "fields": rows})
        return
    if not fields:
        say(f"{plugin} needs no configuration on this machine")
        return
    cells = [
        [
            field.name,
            "set" if field.name in have else "not set",
            "required" if field.required else "optional",
            f"{field.description} ({field.in_words})" if field.description else field.in_words,
        ]
        for field in fields
    ]
    for line in table(["FIELD", "STATE", "NEEDED", "DESCRIPTION"], cells):
        result(line)


def _typed(field: PluginField) -> str:
    """What a person types at the prompt, unseen where it is a secret; without a terminal, what stdin holds."""
    if not sys.stdin.isatty():
        text = sys.stdin.read(LONGEST_VALUE + 1).removesuffix("\n")
    elif field.secret:
        import getpass

        try:
            text = getpass.getpass(f"{printable(field.name)} (not shown): ", sys.stderr)
        except EOFError:
            text = ""
    else:
        sys.stderr.write(f"{printable(field.name)} ({printable(field.in_words)}): ")
        sys.stderr.flush()
        text = sys.stdin.readline(LONGEST_VALUE + 1).removesuffix("\n")
    if not text:
        raise OperatorError(
            "no value was given, and nothing was changed",
            code="config.no_value",
            hint="type it at the prompt, or send it on stdin; --unset forgets a value",
        )
    if len(text) > LONGEST_VALUE:
        raise OperatorError(f"the value is longer than {LONGEST_VALUE // 1024} KiB", code="config.too_large")
    return text
