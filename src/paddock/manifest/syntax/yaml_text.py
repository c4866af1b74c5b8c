"""Writes values as YAML for people: small mappings and lists on one line, others as blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from paddock.manifest.syntax.yaml_document import plain_scalar

LINE_LENGTH = 120

# Characters that mean nothing to YAML anywhere in a scalar that begins with a letter or a digit.
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_ .;!?'()/+=*<>@$^|~-]*[A-Za-z0-9_.;!?')/+=*<>@$^|~-])?")
_YAML_1_1_WORDS = frozenset({"y", "n", "yes", "no", "on", "off"})  # other readers take them for true and false


def yaml_field(key: str, value: Any, indent: int) -> str:
    """Return `key: value` as it stands at a column; all lines but the first are indented."""
    return f"{yaml_scalar(key)}:{_after_key(value, indent, len(yaml_scalar(key)))}"


def yaml_item(value: Mapping[str, Any], indent: int, gap: str = " ") -> str:
    """Return a mapping as an item of a list whose dashes stand at a column; all lines but the first are indented."""
    column = indent + 1 + len(gap)
    fields = [yaml_field(key, one, column) for key, one in value.items()]
    return f"-{gap}" + f"\n{' ' * column}".join(fields)


def yaml_scalar(value: Any, *, flow: bool = True) -> str:
    """Return a text, number, truth value or null. Inside `{}` and `[]` a comma needs quotes."""
    if not isinstance(value, str):
        return json.dumps(value)
    # A comma and a colon are plain outside of flows, if no space makes the colon a key.
    candidate = value if flow else value.replace(",", ".").replace(":", ".")
    plain = _PLAIN.fullmatch(candidate) is not None and isinstance(plain_scalar(value), str)
    if plain and value.lower() not in _YAML_1_1_WORDS and (flow or (": " not in value and not value.endswith(":"))):
        return value
    return json.dumps(value, ensure_ascii=not value.isprintable())


def _after_key(value: Any, indent: int, key_length: int) -> str:
    flow = _flow(value)
    if flow is not None and (not isinstance(value, dict | list) or indent + key_length + 2 + len(flow) <= LINE_LENGTH):
        return f" {flow if isinstance(value, dict | list) else yaml_scalar(value, flow=False)}"
    inner = indent + 2
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return "".join(f"\n{' ' * inner}{yaml_field(key, one, inner)}" for key, one in fields.items())
    return "".join(f"\n{' ' * inner}{_list_item(one, inner)}" for one in cast("list[Any]", value))


def _list_item(value: Any, indent: int) -> str:
    flow = _flow(value)
    if flow is not None and (not isinstance(value, dict | list) or indent + 2 + len(flow) <= LINE_LENGTH):
        return f"- {flow}"
    if isinstance(value, dict):
        return yaml_item(cast("dict[str, Any]", value), indent)
    inner = indent + 2
    return "-" + "".join(f"\n{' ' * inner}{_list_item(one, inner)}" for one in cast("list[Any]", value))


def _flow(value: Any) -> str | None:
    """Return a value on one line; None for one that holds mappings inside, which are easier to read as a block."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        inner = [_flow(one) for one in fields.values()]
        if None in inner or any(isinstance(one, dict) and one != {} for one in fields.values()):
            return None
        texts = [f"{yaml_scalar(key)}: {text}" for key, text in zip(fields, inner, strict=True)]
        return f"{{ {', '.join(texts)} }}" if texts else "{}"
    if isinstance(value, list):
        entries = [_flow(one) for one in cast("list[Any]", value)]
        return None if any(one is None for one in entries) else f"[{', '.join(cast('list[str]', entries))}]"
    return yaml_scalar(value)
