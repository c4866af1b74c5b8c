"""Numbers in the text form that Prometheus reads. Pure: whoever has them keeps them.

Ours, and not the client library's: that one takes longer to import than this host takes to open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class Spread:
    """How often a number was how large."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one number."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def merge(self, other: Spread) -> None:
        """Count all that the other has counted."""
        self.counts = [own + more for own, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


def gauge_lines(name: str, words: str, names: Labels, values: Mapping[Labels, float]) -> Iterable[str]:
    """Numbers as they are right now, by labels."""
    return _lines(name, "gauge", words, names, values)


def counter_lines(name: str, words: str, names: Labels, values: Mapping[Labels, float]) -> Iterable[str]:
    """Numbers that only grow, by labels."""
    return _lines(name, "counter", words, names, values)


def histogram_lines(name: str, words: str, names: Labels, values: Mapping[Labels, Spread]) -> Iterable[str]:
    """How often a number was how large, by labels."""
    yield from _head(name, "histogram", words)
    for labels, spread in values.items():
        total = 0
        for bound, count in zip((*map(_number, spread.bounds), "+Inf"), spread.counts, strict=True):
            total += count
            yield f"{name}_bucket{_labelled((*names, 'le'), (*labels, bound))} {total}"
        yield f"{name}_sum{_labelled(names, labels)} {_number(spread.total)}"
        yield f"{name}_count{_labelled(names, labels)} {total}"


def _lines(name: str, kind: str, words: str, names: Labels, values: Mapping[Labels, float]) -> Iterable[str]:
    yield from _head(name, kind, words)
    for labels, value in values.items():
        yield f"{name}{_labelled(names, labels)} {_number(value)}"


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
