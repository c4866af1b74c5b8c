"""What a test says it proves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from promises.catalogue import UnknownPromise

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def marks(item: pytest.Item) -> Iterator[tuple[str, str | None]]:
    """Each promise that a test says it proves, with the row if it names one."""
    for mark in item.iter_markers("req"):
        if not mark.args or mark.kwargs or not all(isinstance(arg, str) for arg in mark.args) or len(mark.args) > 2:
            raise UnknownPromise('write req("ID") or req("ID", "row")')
        yield mark.args[0], mark.args[1] if len(mark.args) == 2 else None
