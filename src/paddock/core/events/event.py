"""Audit events: the base class, conversion to a record, and the interface they are published through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeVar, cast

from msgspec import Struct

from paddock.core.errors import HostError


class Event(Struct, frozen=True):
    """A fact to record. The recorder adds time, tenant and request id."""

    type: ClassVar[str]
    reserved: ClassVar[str]  # the feature that will publish it; empty if the host publishes it


class EventSink(Protocol):
    """Receives events; the one interface through which they are published."""

    def publish(self, event: Event) -> None:
        """Publish the event: it is stored together with the work it describes, or neither is."""
        ...


_E = TypeVar("_E", bound=Event)
_types: dict[str, type[Event]] = {}

EVENT_TYPES: Mapping[str, type[Event]] = _types
"""Every event class by its type string; complete once `paddock.core.events.index` is imported."""


def event(name: str, *, reserved: str = "") -> Callable[[type[_E]], type[_E]]:
    """Class decorator: lists the event in `EVENT_TYPES` under this type.

    `reserved` names the feature that will publish the event, for one whose name and data other documents fix already.
    """

    def decorate(cls: type[_E]) -> type[_E]:
        if name in _types:
            raise HostError(f"two events are called {name!r}", code="event.duplicate")
        cls.type = name
        cls.reserved = reserved
        _types[name] = cls
        return cls

    return decorate


def to_record(item: Event) -> dict[str, Any]:
    """The event as plain JSON data: its type, then its fields."""
    record: dict[str, Any] = {"type": item.type}
    for name in item.__struct_fields__:
        record[name] = to_json_value(getattr(item, name))
    return record


def to_json_value(value: Any) -> Any:
    """A field's value as plain JSON data."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Struct):
        return {name: to_json_value(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): to_json_value(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(inner) for inner in cast("tuple[Any, ...]", value)]
    if isinstance(value, (set, frozenset)):
        return sorted(to_json_value(inner) for inner in cast("frozenset[Any]", value))
    return value.value if isinstance(value, Enum) else value
