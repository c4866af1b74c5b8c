"""What a plugin tried in a learning cage. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

FileUse: TypeAlias = Literal["look", "read", "write", "execute"]


@dataclass(frozen=True, slots=True)
class FileAttempt:
    """A file that the plugin named, as the cage sees the path; `look` asks only whether and what it is."""

    use: FileUse
    path: str


@dataclass(frozen=True, slots=True)
class NetworkAttempt:
    """A host that the plugin was refused. Without a port it only asked for the name."""

    host: str
    port: int | None


@dataclass(frozen=True, slots=True)
class Observations:
    """What a plugin tried, each once, in the order of its first attempt.

    Attributes:
        files: The files and programs that it named.
        loopback: Addresses of this machine that it connected to, and at which nothing in its cage listens.
        network: The hosts that it was refused.
        flooded: Whether it tried more than is observed, and was ended for it.
    """

    files: tuple[FileAttempt, ...] = ()
    loopback: tuple[NetworkAttempt, ...] = ()
    network: tuple[NetworkAttempt, ...] = ()
    flooded: bool = False
