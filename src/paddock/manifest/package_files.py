"""The files beside a manifest, as far as reading a manifest needs them."""

from __future__ import annotations

from typing import Protocol


class PackageFiles(Protocol):
    """What a reader may ask about the package that a manifest stands in."""

    def exists(self, path: str) -> bool:
        """Whether the package has a regular file at this relative path."""
        ...

    def read(self, path: str) -> bytes | None:
        """The file's bytes; None when it is missing or larger than a manifest may be."""
        ...

    def module_source(self, module: str) -> tuple[str, str] | None:
        """The path and text of a Python module of the package, unless it is missing or unreadable."""
        ...


class NoFiles:
    """A manifest on its own, with no package around it."""

    def exists(self, path: str) -> bool:  # noqa: ARG002 - the shape of PackageFiles
        return False

    def read(self, path: str) -> bytes | None:  # noqa: ARG002
        return None

    def module_source(self, module: str) -> tuple[str, str] | None:  # noqa: ARG002
        return None
