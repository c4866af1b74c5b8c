"""Numbers in the text form that Prometheus reads: counters and histograms that are kept, gauges that are looked up.

Ours, and not the client library's: that one takes longer to import than this host takes to open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 10_000  # of one name: plugins choose names, and must not fill the memory with them

Labels = tuple[str, ...]


class Gauge(NamedTuple):
    """A number as it is right now."""

    labels: Labels
    value: float


class Counter:
    """A number that only grows, by labels."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:  # noqa: A002 - Prometheus's own word
        self.name = name
        self._help = help
        self._names = labels
        self._values: dict[Labels, float] = {}

    def add(self, *labels: str, amount: float = 1) -> None:
        """Count."""
        if labels in self._values or len(self._values) < MOST_SERIES:
            self._values[labels] = self._values.get(labels, 0) + amount

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, "counter", self._help)
        for labels, value in self._values.items():
            yield f"{self.name}{_labelled(self._names, labels)} {_number(value)}"


class Histogram:
    """How often a number was how large, by labels."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:  # noqa: A002
        self.name = name
        self._help = help
        self._bounds = bounds
        self._names = labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one number."""
        counts = self._counts.get(labels)
        if counts is None:
            if len(self._counts) >= MOST_SERIES:
                return
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, "histogram", self._help)
        for labels, counts in self._counts.items():
            total = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_labelled((*self._names, 'le'), (*labels, bound))} {total}"
            yield f"{self.name}_sum{_labelled(self._names, labels)} {_number(self._sums[labels])}"
            yield f"{self.name}_count{_labelled(self._names, labels)} {total}"


def gauge_lines(name: str, help: str, names: Labels, values: Iterable[Gauge]) -> Iterable[str]:  # noqa: A002
    """Numbers as they are right now."""
    yield from _head(name, "gauge", help)
    for one in values:
        yield f"{name}{_labelled(names, one.labels)} {_number(one.value)}"


def _head(name: str, kind: str, words: str) -> Iterable[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"


_ESCAPES: Mapping[int, str] = {ord("\\"): r"\\", ord('"'): r"\"", ord("\n"): r"\n"}


def _labelled(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return (
        "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)) + "}"
    )


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
