"""Access to the files beside a manifest, as far as manifest readers need it."""

from __future__ import annotations

from typing import Protocol


class PackageFiles(Protocol):
    """The files of the package that a manifest belongs to."""

    def exists(self, path: str) -> bool:
        """Whether the package has a regular file at this relative path."""
        ...

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes; None if it is missing or larger than a manifest may be."""
        ...

    def module_source(self, module: str) -> tuple[str, str] | None:
        """Return the path and text of a Python module of the package; None if missing or unreadable."""
        ...


class NoFiles:
    """No package: a manifest on its own."""

    def exists(self, path: str) -> bool:  # noqa: ARG002 - the shape of PackageFiles
        return False

    def read(self, path: str) -> bytes | None:  # noqa: ARG002
        return None

    def module_source(self, module: str) -> tuple[str, str] | None:  # noqa: ARG002
        return None
