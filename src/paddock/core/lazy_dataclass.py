"""A `dataclass` decorator that costs little until the class is used.

`dataclasses.dataclass` compiles six functions for a frozen class, about 0.3 ms. The host has more than 600 such
classes, and a command that opens a host uses few of them. Here `__init__` is compiled when the first instance is made,
and the other methods are not compiled at all. The result is a dataclass like any other: `fields`, `replace`, `asdict`,
`match` and `copy` work, and type checkers see the decorator of the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
    ) -> Any:
        """Make a dataclass, with these arguments of `dataclasses.dataclass`.

        A class that inherits from a frozen one has to use this decorator if that does. `InitVar` is not supported.
        """

        def decorate(plain: type) -> type:
            # Frozen only by what is added below: else two functions are compiled here.
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(plain)
            _add_methods(made, eq=eq, frozen=frozen)
            return made

        return decorate if cls is None else decorate(cls)


_object_setattr = object.__setattr__


def _add_methods(cls: type[Any], *, eq: bool, frozen: bool) -> None:
    own, fields = cls.__dict__, dataclasses.fields(cls)
    if any("InitVar" in str(annotation) for annotation in own.get("__annotations__", {}).values()):
        raise TypeError(f"{cls.__qualname__} has an InitVar: use dataclasses.dataclass")
    methods: dict[str, Any] = {"__init__": _compiled_at_first_use(cls, fields, frozen=frozen), "__repr__": _repr}
    if eq:
        values = _values_getter([one.name for one in fields if one.compare])
        methods["__eq__"] = _equality(values)
        if own.get("__hash__") is None:  # not defined, or None since `__eq__` is defined
            methods["__hash__"] = _hash(values) if frozen else None
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _refusals(cls, frozenset(one.name for one in fields))
        if "__slots__" in own:  # copies and pickles assign to slots one by one
            methods["__getstate__"], methods["__setstate__"] = _state, _set_state
    for name, method in methods.items():
        if name not in own or name == "__hash__":
            setattr(cls, name, method)


def _compiled_at_first_use(
    cls: type[Any], fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool
) -> Callable[..., None]:
    def first_init(self: Any, *args: Any, **kwargs: Any) -> None:
        # Threads may do this at the same time, with the same result.
        compiled = _compile_init(cls, fields, frozen=frozen)
        type.__setattr__(cls, "__init__", compiled)
        compiled(self, *args, **kwargs)

    return first_init


def _compile_init(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool) -> Callable[..., None]:
    """Compile `__init__` from the fields, as the standard library does."""
    names: dict[str, Any] = {"_missing": dataclasses.MISSING}
    positional, keywords, lines = ["_self"], list[str](), list[str]()
    for field in fields:
        name, value = field.name, field.name
        parameter = name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_factory_{name}"] = field.default_factory
            parameter = f"{name}=_missing"
            value = f"_factory_{name}() if {name} is _missing else {name}"
        if field.init:
            (keywords if field.kw_only else positional).append(parameter)
        elif field.default_factory is not dataclasses.MISSING:
            value = f"_factory_{name}()"
        elif field.default is not dataclasses.MISSING:
            value = f"_default_{name}"
        else:
            continue
        if not frozen:
            lines.append(f"_self.{name} = {value}")
        elif (setter := getattr(getattr(cls, name, None), "__set__", None)) is not None:
            names[f"_set_{name}"] = setter  # of the slot
            lines.append(f"_set_{name}(_self, {value})")
        else:
            names["_setattr"] = _object_setattr
            lines.append(f"_setattr(_self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("_self.__post_init__()")
    parameters = [*positional, *(["*", *keywords] if keywords else [])]
    # As a function in a function, so that its names are closed over and not looked up among globals.
    body = "\n  ".join(lines or ["pass"])
    source = f"def make({', '.join(names)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    made: dict[str, Any] = {}
    exec(source, {}, made)  # noqa: S102 - the names are those of the fields in our own source
    init = made["make"](**names)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _values_getter(names: list[str]) -> Callable[[Any], Any]:
    if len(names) > 1:
        return attrgetter(*names)
    # A tuple of one compares like several do: the same object is equal to itself.
    return (lambda self: (getattr(self, names[0]),)) if names else lambda _: ()


def _equality(values: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def equals(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _hash(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def hash_values(self: Any) -> int:
        return hash(values(self))

    return hash_values


def _refusals(cls: type[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    def refuse_assignment(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        _object_setattr(self, name, value)

    def refuse_deletion(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return refuse_assignment, refuse_deletion


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        _object_setattr(self, one.name, value)
