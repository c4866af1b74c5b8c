"""Reading the manifest of a staged package, and where none is, saying which folders in it have one.

A repository with several plugins looks like a package at first, and whoever names it is one step away from what
they want.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import LONGEST_PATH, printable
from paddock.manifest.read import FILE_NAMES, DirectoryFiles, Reading, read_package
from paddock.plugins.sources import Source, SourceKind
from paddock.plugins.staging import Staged

_LOOKED_AT = 500  # folders
_LISTED = 10


def read_staged(staged: Staged) -> Reading:
    """The manifest of a package, told of as whoever named it knows it.

    Raises:
        Invalid: there is no manifest, or it cannot be parsed at all.
    """
    try:
        return read_package(staged.root)
    except Invalid as error:
        if error.error_code != "manifest.missing":
            raise
        source = staged.source.source
        name = printable(_named(source), LONGEST_PATH)
        found = sorted(folders_with_manifests(staged.root))
        below = Problem("", "there is none at its top, but there are plugins below it", _hint(source, found), "missing")
        problems = [below] if found else error.problems
        raise Invalid(f"{name} holds no manifest", problems, code=error.error_code) from None


def folders_with_manifests(root: Path) -> Iterator[str]:
    """The folders in a folder that have a manifest, one or two steps down; links are not followed."""
    outer = list(islice(_folders(root), _LOOKED_AT))
    for folder in outer:
        if DirectoryFiles(root / folder).existing(FILE_NAMES):
            yield folder
        else:
            inner = (f"{folder}/{name}" for name in islice(_folders(root / folder), _LOOKED_AT // len(outer) + 1))
            yield from (path for path in inner if DirectoryFiles(root / path).existing(FILE_NAMES))


def _folders(root: Path) -> list[str]:
    try:
        return sorted(one.name for one in os.scandir(root) if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _named(source: Source) -> str:
    return source.location if source.kind is SourceKind.DIRECTORY else source.describe()


def _hint(source: Source, found: list[str]) -> str:
    shown = ", ".join(printable(folder) for folder in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    if source.kind is SourceKind.DIRECTORY:
        return f"name one of the folders in it: {shown}{more}"
    return f"take it apart first, then name one of the folders in it: {shown}{more}"
