"""What an audit event is, how it becomes a record, and the seam it is published through."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, cast, dataclass_transform

from paddock.core.errors import HostError


class Event:
    """A fact worth keeping. Time, tenant and request id are added by whoever records it."""

    __slots__ = ()
    type: ClassVar[str]


class EventSink(Protocol):
    """The one seam that events leave through."""

    def publish(self, event: Event) -> None:
        """Hand the event on: it is kept together with the work that it tells about, or neither is."""
        ...


_E = TypeVar("_E", bound=Event)
_types: dict[str, type[Event]] = {}

EVENT_TYPES: Mapping[str, type[Event]] = _types
"""Every kind of event by its type string; complete once `paddock.core.events.index` is imported."""


@dataclass_transform(frozen_default=True)
def event(name: str) -> Callable[[type[_E]], type[_E]]:
    """Make a class a frozen event of this type and list it in `EVENT_TYPES`.

    Frozen for whoever checks the types: at run time a frozen class takes five times as long to fill, which is felt
    where an event is made for every call.
    """

    def made(cls: type[_E]) -> type[_E]:
        if name in _types:
            raise HostError(f"two events are called {name!r}", code="event.duplicate")
        made_of = dataclasses.dataclass(unsafe_hash=True, slots=True)(cls)
        made_of.type = name
        _types[name] = made_of
        return made_of

    return made


def to_record(fact: Event) -> dict[str, Any]:
    """The event as plain JSON data: its type, then its fields."""
    record: dict[str, Any] = {"type": fact.type}
    for name in field_names(type(fact)):
        record[name] = to_json_value(getattr(fact, name))
    return record


@cache
def field_names(kind: type[Event]) -> tuple[str, ...]:
    """The fields of a kind of event, in order."""
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
