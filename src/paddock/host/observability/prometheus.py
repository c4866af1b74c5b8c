"""Formats metrics in Prometheus's text format. Pure: callers hold the values.

Not the official client library: that takes longer to import than this host takes to open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple, TypedDict

from paddock.core.schema_annotations import NonNegativeInt

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LabelValues = tuple[str, ...]


class HistogramBucketJson(TypedDict):
    """A bucket of a histogram; it includes the values of all smaller buckets."""

    le: Annotated[float | None, "The upper bound, inclusive; null for the last bucket, which counts all values."]
    count: NonNegativeInt


class HistogramJson(TypedDict):
    """A distribution of values."""

    count: NonNegativeInt
    sum: float
    buckets: list[HistogramBucketJson]


class Histogram:
    """A histogram of values with fixed bucket bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram with the same bounds."""
        self.counts = [own + more for own, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    def to_json(self) -> HistogramJson:
        """Serialize it; each bucket counts the values up to its bound, the last one, without a bound, all of them."""
        bounds = (*self.bounds, None)
        buckets: list[HistogramBucketJson] = [
            {"le": le, "count": count} for le, count in zip(bounds, accumulate(self.counts), strict=True)
        ]
        return {"count": self.count, "sum": self.total, "buckets": buckets}


class MetricFamily(NamedTuple):
    """A metric family: name, kind, help text and labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help_text: str
    labels: LabelValues = ()

    def lines(self, values: Mapping[LabelValues, float | Histogram]) -> Iterable[str]:
        """Yield the lines of the text format, for each set of label values."""
        yield f"# HELP {self.name} {self.help_text}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in values.items():
            if isinstance(value, Histogram):
                yield from self._buckets(labels, value)
            else:
                yield f"{self.name}{_format_labels(self.labels, labels)} {_format_number(value)}"

    def _buckets(self, labels: LabelValues, histogram: Histogram) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(_format_number, histogram.bounds), "+Inf"), histogram.counts, strict=True):
            total += count
            yield f"{self.name}_bucket{_format_labels((*self.labels, 'le'), (*labels, bound))} {total}"
        yield f"{self.name}_sum{_format_labels(self.labels, labels)} {_format_number(histogram.total)}"
        yield f"{self.name}_count{_format_labels(self.labels, labels)} {total}"


_ESCAPES: Mapping[int, str] = {ord("\\"): r"\\", ord('"'): r"\"", ord("\n"): r"\n"}


def _format_labels(names: LabelValues, values: LabelValues) -> str:
    if not names:
        return ""
    return (
        "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)) + "}"
    )


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
