"""One request to one place, and its answer. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paddock.capabilities.http.destination import Place
from paddock.capabilities.http.headers import Headers
from paddock.capabilities.methods import SAFE


@dataclass(frozen=True, slots=True)
class Hop:
    """One request to one place."""

    method: str
    place: Place
    headers: Headers
    body: bytes | None

    @property
    def safe(self) -> bool:
        """Whether it changes nothing there."""
        return self.method in SAFE


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whole; its headers by name in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
