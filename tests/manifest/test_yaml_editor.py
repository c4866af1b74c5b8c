"""Changes of entries in the text of a paddock.yaml: the rest of the text stays as it is."""

from __future__ import annotations

import pytest

from fixtures.all_cases import all_cases
from paddock.core.errors import OperatorError
from paddock.manifest.syntax.yaml_document import parse_yaml
from paddock.manifest.syntax.yaml_editor import EntryChange, edit_manifest
from paddock.manifest.syntax.yaml_text import yaml_field

COMMENTED = """\
paddock: 1
version: 1.0.0  # raised by hand
tools:
  # the first
  - name: a
    description: |
      Long
      text
    effects: [read_only]  # why

  - name: b
    input_schema:
      type: object  # inner

# of the knobs
knobs: {}
"""


def test_a_field_is_replaced_and_another_added_where_they_belong() -> None:
    changes = [
        EntryChange("tools", "a", {"description": "Short", "input_schema": {"type": "object", "required": ["x"]}}),
        EntryChange("tools", "c", {"description": "New: one"}),
    ]
    assert edit_manifest(COMMENTED, changes, "1.1.0") == (
        COMMENTED.replace("version: 1.0.0", "version: 1.1.0")
        .replace("description: |\n      Long\n      text", "description: Short")
        .replace("# why\n", "# why\n    input_schema: { type: object, required: [x] }\n")
        .replace("# inner\n", '# inner\n  - name: c\n    description: "New: one"\n')
    )


def test_an_entry_is_removed_with_its_lines_and_the_list_with_its_last_entry() -> None:
    without_b = edit_manifest(COMMENTED, [EntryChange("tools", "b", None)])
    assert without_b == COMMENTED.replace("  - name: b\n    input_schema:\n      type: object  # inner\n", "")
    replaced = edit_manifest(without_b, [EntryChange("tools", "a", None), EntryChange("tools", "c", {"title": "C"})])
    assert parse_yaml("", replaced).value["tools"] == [{"name": "c", "title": "C"}]
    assert "tools" not in parse_yaml("", edit_manifest(without_b, [EntryChange("tools", "a", None)])).value


@pytest.mark.parametrize("text", ["paddock: 1\n", "paddock: 1\ntools: []\n", "tools: [{name: a, title: A}] # flow\n"])
def test_a_list_in_another_form_is_written_anew(text: str) -> None:
    edited = edit_manifest(text, [EntryChange("tools", "a", {"description": "Text"})])
    assert parse_yaml("", edited).value["tools"][0]["description"] == "Text"


def test_a_manifest_that_cannot_be_changed_safely_is_left_to_its_author() -> None:
    with pytest.raises(OperatorError, match="cannot be changed automatically"):
        edit_manifest("{paddock: 1, tools: []}", [EntryChange("tools", "a", {"description": "Text"})])


@all_cases(
    "value",
    [
        "", " x", "a: b", "a #b", "yes", "null", "1.0", "- a", "a, b", "é", "a\nb", "\x07", "{x}", "'q'", "a:", "@x",
        {"type": "string", "pattern": "^[a-z]{1,2}$", "enum": ["no", 1, None, True, 1.5]},
        {"properties": {}, "items": [{"a": {"b": 1}}, [[1], {"c": []}]], "x y": "z"},
        ["a" * 130, {"k": "v" * 130}],
    ],
)  # fmt: skip
def test_every_value_is_written_so_that_it_reads_the_same(value: object) -> None:
    assert parse_yaml("", f"{yaml_field('key', value, 0)}\n").value == {"key": value}
