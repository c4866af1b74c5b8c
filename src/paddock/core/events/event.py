"""Audit events: the base class, conversion to a record, and the interface they are published through."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, cast, dataclass_transform

from paddock.core.errors import HostError


class Event:
    """A fact to record. The recorder adds time, tenant and request id."""

    __slots__ = ()
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


@dataclass_transform(frozen_default=True)
def event(name: str, *, reserved: str = "") -> Callable[[type[_E]], type[_E]]:
    """Class decorator: a frozen event of this type, listed in `EVENT_TYPES`.

    `reserved` names the feature that will publish the event, for one whose name and data other documents fix already.

    Frozen for type checkers only: at run time a frozen class takes five times as long to fill, which matters
    where an event is made for every call.
    """

    def decorate(cls: type[_E]) -> type[_E]:
        if name in _types:
            raise HostError(f"two events are called {name!r}", code="event.duplicate")
        event_class = dataclasses.dataclass(unsafe_hash=True, slots=True)(cls)
        event_class.type = name
        event_class.reserved = reserved
        _types[name] = event_class
        return event_class

    return decorate


def to_record(item: Event) -> dict[str, Any]:
    """The event as plain JSON data: its type, then its fields."""
    record: dict[str, Any] = {"type": item.type}
    for name in field_names(type(item)):
        record[name] = to_json_value(getattr(item, name))
    return record


@cache
def field_names(kind: type[Event]) -> tuple[str, ...]:
    """The fields of an event class, in order."""
    return tuple(field.name for field in dataclasses.fields(cast("Any", kind)))


def to_json_value(value: Any) -> Any:
    """A field's value as plain JSON data."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json_value(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(inner) for inner in cast("tuple[Any, ...]", value)]
    if isinstance(value, (set, frozenset)):
        return sorted(to_json_value(inner) for inner in cast("frozenset[Any]", value))
    return value.value if isinstance(value, Enum) else value
