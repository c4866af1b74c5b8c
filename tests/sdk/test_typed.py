"""Handlers whose types are their schema: what is told, what is accepted and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pytest

from fixtures.all_cases import all_cases
from paddock.core.schema.compile import compile_schema
from paddock_sdk import Context, Host, InvalidParams, Plugin, PluginFault
from paddock_sdk.handlers import Handler
from paddock_sdk.schema_from_types import build_schema
from paddock_sdk.testing import PluginTester


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict):
    town: str
    zip: NotRequired[int]


@dataclass
class Person:
    name: Annotated[str, "As on the passport", {"minLength": 1, "maxLength": 5}]
    age: int | None = None
    colours: set[Colour] = field(default_factory=set)


@dataclass
class Tree:
    children: list[Tree]


def read(hint: Any, value: Any) -> tuple[Any, list[tuple[str, str]]]:
    mistakes: list[dict[str, str]] = []
    found = build_schema(hint).read(value, "", mistakes)
    return found, [(one["path"], one["message"]) for one in mistakes]


@pytest.mark.req("G-32", "method schemas")
@all_cases(
    ("hint", "schema", "good", "bad"),
    [
        (str, {"type": "string"}, ["", "x"], [1, None, ["x"]]),
        (int, {"type": "integer"}, [1, -5, 2.0], [1.5, True, "1"]),
        (float, {"type": "number"}, [1, 1.5], [True, "1"]),
        (bool, {"type": "boolean"}, [True], [1, "true"]),
        (None, {"type": "null"}, [None], [0]),
        (Any, {}, [1, None, {}], []),
        (list[int], {"type": "array", "items": {"type": "integer"}}, [[], [1]], [["1"], 1]),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}, [["a"]], ["a"]),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}, [["a"]], [[1]]),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [[1, 2]], [["1"]]),
        (dict, {"type": "object"}, [{}, {"a": 1}], [[], 1]),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "1"}]),
        (Optional[int], {"type": ["integer", "null"]}, [1, None], ["1"]),  # noqa: UP045 authors write it
        (Union[int, str], {"type": ["integer", "string"]}, [1, "1"], [[], None]),  # noqa: UP007
        (Literal["a", 1], {"enum": ["a", 1]}, ["a", 1], [True, "b", 1.5]),
        (Colour, {"enum": ["red", "blue"]}, ["red"], ["RED", None]),
        (
            Place,
            {
                "type": "object",
                "properties": {"town": {"type": "string"}, "zip": {"type": "integer"}},
                "additionalProperties": False,
                "required": ["town"],
            },
            [{"town": "Bonn"}, {"town": "Bonn", "zip": 1}],
            [{}, {"town": "Bonn", "x": 1}, {"town": 1}, []],
        ),
        (
            Annotated[list[int], {"minItems": 1, "maxItems": 2}],
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            [[1], [1, 2]],
            [[], [1, 2, 3]],
        ),
        (
            Annotated[str, "A code", {"pattern": "^[a-z]+$"}],
            {"type": "string", "description": "A code", "pattern": "^[a-z]+$"},
            ["abc"],
            ["ABC", ""],
        ),
        (Annotated[float, {"exclusiveMinimum": 0}], {"type": "number", "exclusiveMinimum": 0}, [0.1, 1], [0, -1]),
    ],
    ids=str,
)
def test_a_type_and_its_schema_accept_and_refuse_the_same_values(
    hint: Any, schema: Any, good: list[Any], bad: list[Any]
) -> None:
    assert build_schema(hint).schema == schema
    judge = compile_schema(schema)
    for value in good:
        assert read(hint, value)[1] == [] and judge.is_valid(value), value
    for value in bad:
        assert read(hint, value)[1] and not judge.is_valid(value), value


def test_values_arrive_as_the_types_say() -> None:
    assert read(Person, {"name": "Ann", "colours": ["red", "red"]})[0] == Person("Ann", None, {Colour.RED})
    assert read(list[Person | None], [None, {"name": "B"}])[0] == [None, Person("B")]
    assert read(float, 1)[0] == 1.0 and type(read(float, 1)[0]) is float
    assert type(read(int, 2.0)[0]) is int


def test_every_mistake_is_told_at_once_with_its_path() -> None:
    people = [{"name": "", "age": "old"}, {"colours": ["green"], "x": 1}, 7]
    assert set(read(list[Person], people)[1]) == {
        ("[0].name", "must have at least 1 characters"),
        ("[0].age", "must be a whole number or null"),
        ("[1].name", "is missing"),
        ("[1].x", "is not known"),
        ("[1].colours[0]", "must be one of red, blue"),
        ("[2]", "must be an object"),
    }


@pytest.mark.parametrize(
    "hint", [complex, dict[int, str], tuple[int, str], Tree, Literal[b"x"], object.__init__, list[bytes]], ids=str
)
def test_a_type_that_json_cannot_tell_is_named(hint: Any) -> None:
    with pytest.raises(TypeError, match=r".+"):
        build_schema(hint)


plugin = Plugin("typed", "1.0.0", capabilities_used=["host:cache"])


@plugin.tool
def greet(name: Annotated[str, "Whom"], times: int = 1, *, colour: Colour = Colour.RED) -> Person:
    """Greet a person.

    At length.
    """
    return Person(name * times, colours={colour})


@plugin.tool
async def remember(key: str, context: Context, host: Host) -> dict[str, Any]:
    """Look into the cache."""
    return {"found": await host.cache.get(key), "for": context.request_id}


@plugin.tool
def count(to: int) -> Generator[int, None, list[int]]:
    yield from range(to)
    return list(range(to))


@plugin.tool
async def follow() -> AsyncIterator[int]:
    yield 1
    yield {"type": "result", "result": "end"}  # type: ignore[misc]


@plugin.tool
def liar() -> Place:
    return {"city": "Bonn"}  # type: ignore[return-value, typeddict-item]


@plugin.method("old.style")
def old(params, context):
    return params


def test_typed_handlers_are_called_by_name_and_answer_with_their_types() -> None:
    tester = PluginTester(plugin)
    assert tester.call("greet", {"name": "An", "times": 2, "colour": "blue"}) == {
        "name": "AnAn",
        "age": None,
        "colours": ["blue"],
    }


def test_a_typed_handler_never_sees_what_does_not_fit() -> None:
    with pytest.raises(PluginFault) as caught:
        PluginTester(plugin).call("greet", {"times": "x", "colour": "green", "_x": 1})
    assert caught.value.error_code == InvalidParams.code
    assert {one["path"] for one in caught.value.data["errors"]} == {"name", "times", "colour", "_x"}


def test_an_answer_that_breaks_its_own_type_is_the_plugins_failure() -> None:
    with pytest.raises(PluginFault) as caught:
        PluginTester(plugin).call("liar")
    assert caught.value.error_code == -32603
    assert caught.value.data["code"] == "output_validation_error"
    assert "town is missing" in str(caught.value)


def test_context_and_host_are_given_and_are_no_parameters() -> None:
    tester = PluginTester(plugin)
    tester.host.cache["k"] = ("v", float("inf"))
    with pytest.raises(PluginFault, match="not granted"):
        tester.call("remember", {"key": "k"})
    from paddock_sdk.testing import FakeHost

    granted = FakeHost(["host:cache"])
    granted.cache["k"] = ("v", float("inf"))
    answer = PluginTester(plugin, granted).call("remember", {"key": "k"}, Context(request_id="r"))
    assert answer == {"found": "v", "for": "r"}


def test_typed_generators_stream_and_their_result_is_checked() -> None:
    tester = PluginTester(plugin)
    assert tester.call("count", {"to": 2}) == [0, 1]
    assert tester.events == [{"type": "data", "data": 0}, {"type": "data", "data": 1}]
    assert tester.call("follow") == "end"


def test_the_manifests_entries_are_written_from_the_types() -> None:
    told = plugin.manifest_callables()
    greeting, remembering = told["tools"][:2]
    assert (greeting["name"], greeting["description"]) == ("greet", "Greet a person.")
    assert greeting["input_schema"]["required"] == ["name"]
    assert greeting["input_schema"]["properties"]["times"] == {"type": "integer", "default": 1}
    assert greeting["output_schema"]["required"] == ["name"]
    assert list(remembering["input_schema"]["properties"]) == ["key"]
    assert told["methods"] == [{"name": "old.style"}]
    for tool in told["tools"]:
        compile_schema(tool["input_schema"])


@pytest.mark.parametrize("code", ["lambda *args: 1", "lambda **kwargs: 1", "lambda a, /, b, c: 1"])
def test_parameters_without_a_schema_are_refused(code: str) -> None:
    with pytest.raises(TypeError):
        _ = Handler(eval(code)).typed
