"""The few keywords of JSON Schema that bound a value, checked on the plugin's side. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from paddock_sdk.call import JsonObject


def broken_limits(value: Any, limits: JsonObject) -> Iterator[str]:
    """What a value breaks, in words. Keywords that are not known here are the host's to check."""
    for name, bound in limits.items():
        known = _CHECKS.get(name)
        if known is not None:
            kinds, broken, words = known
            if isinstance(value, kinds) and not isinstance(value, bool) and broken(value, bound):
                yield words.format(bound)


def _no_match(value: str, pattern: str) -> bool:
    import re

    return re.search(pattern, value) is None


_Check = tuple[tuple[type, ...], Callable[[Any, Any], bool], str]
_NUMBERS = (int, float)

_CHECKS: dict[str, _Check] = {
    "minimum": (_NUMBERS, lambda value, bound: value < bound, "must be at least {}"),
    "maximum": (_NUMBERS, lambda value, bound: value > bound, "must be at most {}"),
    "exclusiveMinimum": (_NUMBERS, lambda value, bound: value <= bound, "must be more than {}"),
    "exclusiveMaximum": (_NUMBERS, lambda value, bound: value >= bound, "must be less than {}"),
    "minLength": ((str,), lambda value, bound: len(value) < bound, "must have at least {} characters"),
    "maxLength": ((str,), lambda value, bound: len(value) > bound, "must have at most {} characters"),
    "pattern": ((str,), _no_match, "must match {}"),
    "minItems": ((list,), lambda value, bound: len(value) < bound, "must have at least {} items"),
    "maxItems": ((list,), lambda value, bound: len(value) > bound, "must have at most {} items"),
}
