"""Looking through a package for imports that its plugin may not make, before anybody is asked to install it.

The same names are refused once more while it runs. Both tell an honest author early and clearly; what holds a dishonest
one is the cage.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paddock
from paddock.core.errors import Invalid, Problem
from paddock.manifest.imports import refused_imports
from paddock.manifest.model import Manifest, PythonRuntime

MOST_TOLD = 50
LARGEST_FILE = 1024 * 1024
# Read as data: the host never imports what plugins import.
TABLE = Path(paddock.__file__).parents[1] / "paddock_sdk" / "worker" / "refused_imports.json"


def require_allowed_imports(manifest: Manifest, root: Path) -> None:
    """Refuse a package whose Python code imports what plugins of its dialect may not.

    Raises:
        Invalid: it does; carries every such import with its file and line.
    """
    problems = import_problems(manifest, root)
    if problems:
        raise Invalid(f"{manifest.name} imports what a plugin may not", problems[:MOST_TOLD], code="import.refused")


def import_problems(manifest: Manifest, root: Path) -> list[Problem]:
    """Every refused import in the package of a plugin that is Python code; a program of its own may import anything."""
    if not isinstance(manifest.runtime, PythonRuntime):
        return []
    refused = _refused(manifest.dialect.value)
    roots = {name.partition(".")[0] for name in refused}
    found: list[Problem] = []
    for file in _python_files(root):
        text = file.read_bytes().decode("utf-8", "replace")
        if any(name in text for name in roots):  # many files name none, and parsing costs a thousand times more
            found += refused_imports(file.relative_to(root).as_posix(), text, refused)
    return found


def _refused(dialect: str) -> dict[str, str]:
    groups: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    held = [group for group in groups.values() if dialect in group["dialects"] or "*" in group["dialects"]]
    return {name: group["reason"] for group in held for name in group["names"]}


def _python_files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith(".py") and not file.is_symlink() and file.stat().st_size <= LARGEST_FILE:
                yield file
