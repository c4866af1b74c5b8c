"""Changes the version and the entries of `tools` and `methods` in the text of a paddock.yaml.

Everything else stays as its author wrote it, with its comments. The result is parsed again and compared with what it
should say, so that a manifest in a form that is not understood here is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, cast

from msgspec import Struct

from paddock.core.errors import Invalid, OperatorError
from paddock.manifest.syntax.yaml_document import parse_yaml
from paddock.manifest.syntax.yaml_text import yaml_field, yaml_item, yaml_scalar


class EntryChange(Struct, frozen=True):
    """A change of one entry.

    Attributes:
        section: `tools` or `methods`.
        name: The entry.
        fields: The fields to write; None removes the entry, and a new name adds one.
    """

    section: str
    name: str
    fields: Mapping[str, Any] | None


def edit_manifest(text: str, changes: Iterable[EntryChange], version: str | None = None) -> str:
    """Return the text with these changes, and with another version if there is one.

    Raises:
        OperatorError: the text is written in a way that cannot be changed without its author.
    """
    expected = _apply(cast("dict[str, Any]", parse_yaml("paddock.yaml", text).value), changes := list(changes), version)
    edited = text
    for section in dict.fromkeys(change.section for change in changes):
        edited = _edit_section(edited, section, [change for change in changes if change.section == section])
    if version is not None:
        edited = _edit_version(edited, version)
    if _parsed(edited) != expected:
        raise OperatorError(
            "paddock.yaml is written in a way that cannot be changed automatically",
            code="sync.unsupported_yaml",
            hint="write `tools` as a list with one entry per dash, each field on its own line",
        )
    return edited


def _parsed(text: str) -> Any:
    """Return the values of a text; None if it is not YAML."""
    try:
        return parse_yaml("paddock.yaml", text).value
    except Invalid:
        return None


def _apply(document: dict[str, Any], changes: list[EntryChange], version: str | None) -> dict[str, Any]:
    result = deepcopy(document)
    if version is not None:
        result["version"] = version
    for change in changes:
        entries: list[dict[str, Any]] = result.get(change.section) or []
        if change.fields is None:
            entries = [entry for entry in entries if entry["name"] != change.name]
        elif entry := next((entry for entry in entries if entry["name"] == change.name), None):
            entry.update(change.fields)
        else:
            entries = [*entries, {"name": change.name, **change.fields}]
        result[change.section] = entries
        if not entries:
            del result[change.section]
    return result


def _edit_version(text: str, version: str) -> str:
    for key, value in _compose(text).value:
        if key.value == "version":
            return text[: value.start_mark.index] + yaml_scalar(version, flow=False) + text[_end(text, value) :]
    return text


def _edit_section(text: str, section: str, changes: list[EntryChange]) -> str:
    root = _compose(text)
    found = next(((key, value) for key, value in root.value if key.value == section), None)
    document = cast("dict[str, Any]", parse_yaml("paddock.yaml", text).value)
    entries = cast("list[dict[str, Any]]", _apply(document, changes, None).get(section, []))
    if found is None:
        return f"{text.rstrip()}\n\n{_section_text(section, entries)}\n" if entries else text
    key, sequence = found
    if not entries:
        start, end = key.start_mark.index, _line_end(text, _end(text, sequence))
        return text[:start] + text[end + 1 :]
    removed = {change.name for change in changes if change.fields is None}
    kept = [item for item in sequence.value if _entry_name(item) not in removed] if _has_blocks(sequence) else []
    if not kept:
        return text[: key.start_mark.index] + _section_text(section, entries) + text[_end(text, sequence) :]
    splices = [splice for change in changes for splice in _entry_splices(text, sequence.value, kept[-1], change)]
    # From the last to the first, so that the positions of the others stay valid.
    for _, (start, end, replacement) in sorted(enumerate(splices), key=lambda one: (one[1][0], one[0]), reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _section_text(section: str, entries: list[dict[str, Any]]) -> str:
    return f"{section}:\n  " + "\n  ".join(yaml_item(entry, 2) for entry in entries)


def _entry_splices(text: str, items: list[Any], last: Any, change: EntryChange) -> list[tuple[int, int, str]]:
    """Return the replacements of text for one entry: start, end, and the new text. A new one goes after `last`."""
    item = next((item for item in items if _entry_name(item) == change.name), None)
    if change.fields is None:
        return [] if item is None else [(_line_start(text, item), _line_end(text, _end(text, item)) + 1, "")]
    if item is None:
        dash = text.rfind("-", 0, last.start_mark.index)
        indent = dash - _line_start(text, last)
        gap = text[dash + 1 : last.start_mark.index]
        end = _line_end(text, _end(text, last))
        return [(end, end, f"\n{' ' * indent}" + yaml_item({"name": change.name, **change.fields}, indent, gap))]
    column = item.start_mark.column
    written = {key.value: (key, value) for key, value in item.value}
    splices: list[tuple[int, int, str]] = []
    added: list[str] = []
    for name, value in change.fields.items():
        line = yaml_field(name, value, column)
        if name in written:
            key, old = written[name]
            splices.append((key.start_mark.index, _end(text, old), line))
        else:
            added.append(f"\n{' ' * column}{line}")
    if added:
        end = _line_end(text, _end(text, item))
        splices.append((end, end, "".join(added)))
    return splices


def _compose(text: str) -> Any:
    import yaml

    # Safe: the reader has refused aliases.
    return cast("Any", yaml.compose(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]


def _has_blocks(node: Any) -> bool:
    return (
        node.id == "sequence"
        and not node.flow_style
        and bool(node.value)
        and all(item.id == "mapping" and not item.flow_style for item in node.value)
    )


def _entry_name(item: Any) -> str | None:
    return next((value.value for key, value in item.value if key.value == "name"), None)


def _end(text: str, node: Any) -> int:
    """Return where the text of a value ends. The parser ends a block where the next one begins, after comments."""
    while node.id != "scalar" and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if node.id == "mapping" else last
    end: int = node.end_mark.index
    if node.id == "scalar" and node.style in ("|", ">"):
        return len(text[:end].rstrip())
    return end


def _line_start(text: str, node: Any) -> int:
    return text.rfind("\n", 0, node.start_mark.index) + 1


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end
