"""The decorator gives what `dataclasses.dataclass` gives."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from paddock.core.lazy_dataclass import dataclass

Decorator = Callable[..., Callable[[type[Any]], type[Any]]]
OPTIONS = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"kw_only": True}, {"eq": False}]


def point(decorator: Any, options: dict[str, bool]) -> type[Any]:
    @decorator(**options)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list[str])
        secret: str = dataclasses.field(default="", repr=False, compare=False)
        seen: int = dataclasses.field(default=0, init=False)
        label: str = dataclasses.field(default="", kw_only=True)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    return Point


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_instances_are_made_compared_shown_and_changed_like_those_of_the_standard_library(
    options: dict[str, bool],
) -> None:
    ours, theirs = (point(decorator, options) for decorator in (dataclass, dataclasses.dataclass))

    def story(cls: type[Any]) -> list[Any]:
        one, same, other = cls(x=1, secret="s"), cls(x=1, label=""), cls(x=1, y=3, tags=["a"])
        return [
            repr(other).replace(cls.__qualname__, ""),
            repr(one).replace(cls.__qualname__, ""),
            one == same,
            one == other,
            one == (1, 2),
            outcome(lambda: cls(1, 5, ["b"]).y),
            outcome(lambda: cls(-1)),
            outcome(lambda: cls()),
            outcome(lambda: cls(1, unknown=2)),
            outcome(lambda: cls(x=1, seen=2)),
            outcome(lambda: hash(cls(x=1, tags=()))) == outcome(lambda: hash(cls(x=1, tags=()))),
            outcome(lambda: type(hash(one)).__name__),
            outcome(lambda: setattr(one, "x", 9)),
            outcome(lambda: delattr(same, "x")),
            one.x,
            one.tags is not cls(x=1).tags,
            dataclasses.asdict(other),
            outcome(lambda: dataclasses.replace(other, x=7).x),
            copy.deepcopy(other).tags,
            copy.copy(other).y,
            [(field.name, field.default) for field in dataclasses.fields(cls) if field.name != "tags"],
            cls.__match_args__,
            cls.__doc__,
            "__dict__" in dir(one),
        ]

    assert story(ours) == story(theirs)


@dataclass(frozen=True, slots=True)
class Node:
    children: list[Any]


@dataclass(frozen=True, slots=True)
class Named:
    name: str

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return True


def test_methods_of_the_class_stay_copies_are_equal_and_a_circle_is_shown() -> None:
    node = Node([])
    node.children.append(node)
    assert repr(node) == "Node(children=[...])"
    assert hash(Named("a")) == 1
    assert Named("a") == 7
    assert outcome(lambda: setattr(node, "unknown", 1)) == "FrozenInstanceError"
    named = pickle.loads(pickle.dumps(Node(["a"])))
    assert named == Node(["a"])


def test_a_class_derived_from_a_frozen_one_has_the_fields_of_both() -> None:
    @dataclass(frozen=True, slots=True)
    class Derived(Named):
        age: int

    one = Derived("ann", 3)
    assert (one.name, one.age) == ("ann", 3)
    assert outcome(lambda: setattr(one, "name", "bob")) == "FrozenInstanceError"


def test_an_init_var_is_refused() -> None:
    with pytest.raises(TypeError, match="InitVar"):

        @dataclass(frozen=True)
        class Wrong:  # pyright: ignore[reportUnusedClass]
            given: dataclasses.InitVar[int]
