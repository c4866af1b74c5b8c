"""The example plugins that lie with this host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from paddock.core.errors import PaddockError
from paddock.manifest.read import FILE_NAMES, read_package


def examples_directory() -> Path:
    """Where the examples are: beside the source in a checkout, inside the package when installed."""
    package = Path(__file__).parents[1]
    packaged = package / "examples"
    return packaged if packaged.is_dir() else package.parents[1] / "examples"


def example_plugins(place: Path | None = None) -> list[Path]:
    """The directories of those that are plugins: examples of other things stand beside them."""
    place = place or examples_directory()
    return sorted(path for path in place.glob("*") if any((path / name).is_file() for name in FILE_NAMES))


@dataclass(frozen=True, slots=True)
class Example:
    """One of them, for a person who looks for something to try."""

    name: str
    title: str
    description: str
    folder: Path


@cache
def list_examples() -> tuple[Example, ...]:
    """All that can be read. Blocks the first time: it reads their manifests, which come with the program."""
    found: list[Example] = []
    for folder in example_plugins():
        try:
            manifest = read_package(folder).single()
        except (PaddockError, OSError):
            continue
        found.append(Example(manifest.name, manifest.display_name, manifest.description, folder))
    return tuple(found)
