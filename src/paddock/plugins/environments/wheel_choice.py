"""Chooses the one wheel of a version that is installed on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import unquote

T = TypeVar("T")


def best_wheel(wheels: Mapping[str, T]) -> T:
    """Return the wheel that fits best, by their file names: the most specific, then the newest build."""
    if len(wheels) == 1:
        return next(iter(wheels.values()))
    # Imported here: most packages have one wheel that fits.
    from packaging.tags import sys_tags
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    ranks = {tag: rank for rank, tag in enumerate(sys_tags())}

    def preference(name: str) -> tuple[int, tuple[int, str] | tuple[()], str]:
        try:
            _, _, build, tags = parse_wheel_filename(unquote(name))
        except InvalidWheelFilename:
            return (-len(ranks), (), name)
        return (-min((ranks.get(tag, len(ranks)) for tag in tags), default=len(ranks)), build, name)

    return wheels[max(wheels, key=preference)]
