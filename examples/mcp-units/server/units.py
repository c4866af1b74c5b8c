"""Lengths, weights and temperatures. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """One unit as so many of its kind's own, and where its zero lies there."""

    kind: str
    size: float
    zero: float = 0.0


UNITS = {
    "m": Unit("length", 1),
    "km": Unit("length", 1000),
    "mi": Unit("length", 1609.344),
    "ft": Unit("length", 0.3048),
    "in": Unit("length", 0.0254),
    "yd": Unit("length", 0.9144),
    "kg": Unit("weight", 1),
    "lb": Unit("weight", 0.45359237),
    "oz": Unit("weight", 0.028349523125),
    "°C": Unit("temperature", 1, 273.15),
    "°F": Unit("temperature", 5 / 9, 459.67 * 5 / 9),
    "K": Unit("temperature", 1),
}
MORE = {"in", "yd", "oz"}
"""Those that are offered only where somebody wants them."""


class NotConvertible(Exception):
    """One is no other."""


def converted(value: float, here: str, there: str) -> float:
    """A value in another unit.

    Raises:
        NotConvertible: the two measure different things.
    """
    one, other = UNITS[here], UNITS[there]
    if one.kind != other.kind:
        raise NotConvertible(f"{here} is a {one.kind}, and {there} is a {other.kind}")
    return round((value * one.size + one.zero - other.zero) / other.size, 9)
