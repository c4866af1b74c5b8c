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
        match mark.args:
            case (str() as promise_id,) if not mark.kwargs:
                yield promise_id, None
            case (str() as promise_id, str() as row) if not mark.kwargs:
                yield promise_id, row
            case _:
                raise UnknownPromise('write req("ID") or req("ID", "row")')
