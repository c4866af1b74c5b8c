"""The list of promises in tests/requirements.toml, as values.

A promise has an id and one line that says what is promised. One that stands for a table also has rows, and is
proven only when every row is.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing the project promises to do."""

    id: str
    text: str
    rows: tuple[str, ...] = ()


class UnknownPromise(ValueError):
    """A test names an id or a row that the list does not have."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every promise by id, in the order of the file."""

    promises: Mapping[str, Promise]

    def check(self, promise_id: str, row: str | None) -> str | None:
        """Accept a mark that names a promise of the list, and one of its rows where it has any.

        Returns the row as the list spells it: upper and lower case are the same.

        Raises:
            UnknownPromise: with what would have been right.
        """
        promise = self.promises.get(promise_id)
        if promise is None:
            raise UnknownPromise(f"{promise_id!r} is not an id of tests/requirements.toml")
        if row is None:
            if promise.rows:
                raise UnknownPromise(f"{promise_id} is proven row by row; its rows are: {', '.join(promise.rows)}")
            return None
        for known in promise.rows:
            if known.casefold() == row.casefold():
                return known
        if not promise.rows:
            raise UnknownPromise(f"{promise_id} has no rows in tests/requirements.toml, so {row!r} cannot be one")
        raise UnknownPromise(f"{row!r} is not a row of {promise_id}; its rows are: {', '.join(promise.rows)}")


def read_catalogue(path: Path) -> Catalogue:
    """Read the list; a malformed one is an error of ours and says where.

    Raises:
        ValueError: an entry lacks its text, or names a row twice.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    promises: dict[str, Promise] = {}
    for promise_id, entry in table.items():
        text, rows = entry.get("text"), entry.get("rows", [])
        if not isinstance(text, str) or not text:
            raise ValueError(f"{path.name}: {promise_id} has no text")
        if len(set(rows)) != len(rows):
            raise ValueError(f"{path.name}: {promise_id} names a row twice")
        promises[promise_id] = Promise(promise_id, text, tuple(rows))
    return Catalogue(promises)
