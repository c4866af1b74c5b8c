"""The Kernel's manifest: kinds, effects and requirements."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import kernel, native, sound, the_only_error, warned

from paddock.manifest.effects import Effect
from paddock.manifest.model import SchemaFile


@pytest.mark.req("K-02", "no effects declared")
def test_an_operator_that_declares_no_effects_is_warned_about_and_held_to_none() -> None:
    reading = kernel(effects=None)

    assert sound(reading).callables[0].effects == (Effect.READ_ONLY,)
    assert warned(reading) == ["effects_missing"]


def test_an_operator_that_declares_an_empty_list_has_no_effects_and_no_warning() -> None:
    reading = kernel(effects=[])

    assert sound(reading).callables[0].effects == (Effect.READ_ONLY,)
    assert warned(reading) == []


def test_the_words_of_the_document_stand_for_our_effects() -> None:
    words = ["db_write", "gmail_send", "webhook_emit", "s3_final_write"]

    assert sound(kernel(effects=words)).callables[0].effects == (
        Effect.DB_WRITE,
        Effect.EXTERNAL_SEND,
        Effect.WEBHOOK_EMIT,
        Effect.FINAL_WRITE,
    )


@pytest.mark.req("K-02", "unknown effects")
def test_an_unknown_effect_is_refused_with_the_known_ones() -> None:
    error = the_only_error(kernel(effects=["db_write", "launch_rocket"]))

    assert (error.path, error.code) == ("effects[1]", "effect")
    assert "webhook_emit" in error.hint


def test_reading_only_beside_writing_contradicts_itself() -> None:
    assert the_only_error(kernel(effects=["read_only", "db_write"])).code == "effect_contradiction"


@pytest.mark.req("K-01", "only operators have effects")
@pytest.mark.parametrize("kind", ["agent", "tool", "adapter"])
def test_only_an_operator_may_have_effects(kind: str) -> None:
    assert the_only_error(kernel(type=kind)).code == "kind_boundary"
    assert the_only_error(native(kind=kind, execute=[{"name": "x", "effects": ["db_write"]}])).code == "kind_boundary"
    assert sound(kernel(type=kind, effects=None)).callables[0].effects == (Effect.READ_ONLY,)
    assert sound(kernel(type=kind, effects=["read_only"])).kind == kind


@pytest.mark.parametrize("kind", ["plugin", "Operator", "", 5])
def test_a_kind_outside_the_four_is_refused(kind: Any) -> None:
    assert the_only_error(kernel(type=kind, schemas={})).path == "type"


@pytest.mark.parametrize(
    ("tool", "good"),
    [
        ("A.B", True),
        ("A.B@1.x", True),
        ("A.B@^1.2", True),
        ("A.B@>=1 <2", True),
        ("A.B@banana", False),
        ("@1.x", False),
    ],
)
def test_a_required_tool_is_a_name_and_a_constraint(tool: str, *, good: bool) -> None:
    reading = kernel(requires={"tools": [tool]})

    assert reading.valid is good
    assert [error.path for error in reading.errors] == ([] if good else ["requires.tools[0]"])


@pytest.mark.parametrize("path", ["/etc/passwd", "../up.json", "a/../../b.json", "a\\b.json", "", "a\nb"])
def test_a_schema_file_stays_inside_the_package(path: str) -> None:
    assert the_only_error(kernel(schemas={"input": path})).path == "schemas.input"


def test_a_schema_may_be_a_file_or_stand_in_the_manifest() -> None:
    (whole,) = sound(kernel(schemas={"input": "schemas/in.json", "output": {"type": "object"}})).callables

    assert whole.input_schema == SchemaFile("schemas/in.json")
    assert whole.output_schema == {"type": "object"}
