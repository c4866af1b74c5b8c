"""The example plugins that ship with this host."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec import Struct

from paddock.core.errors import PaddockError
from paddock.manifest.read import FILE_NAMES, read_package


def examples_directory() -> Path:
    """Return the directory of the examples: beside the source in a checkout, inside the package when installed."""
    package = Path(__file__).parents[1]
    packaged = package / "examples"
    return packaged if packaged.is_dir() else package.parents[1] / "examples"


def example_plugins(directory: Path | None = None) -> list[Path]:
    """Return the directories that are plugins; other examples stand beside them."""
    directory = directory or examples_directory()
    return sorted(path for path in directory.glob("*") if any((path / name).is_file() for name in FILE_NAMES))


class Example(Struct, frozen=True):
    """An example plugin, for a person who looks for something to try."""

    name: str
    title: str
    description: str
    folder: Path


@cache
def list_examples() -> tuple[Example, ...]:
    """Return all readable examples. Blocks the first time: it reads their manifests, which ship with the program."""
    examples: list[Example] = []
    for folder in example_plugins():
        try:
            manifest = read_package(folder).single()
        except (PaddockError, OSError):
            continue
        examples.append(Example(manifest.name, manifest.display_name, manifest.description, folder))
    return tuple(examples)
