"""Files that no package may bring: links, which could lead out of an environment, and those that are the environment's.

Looked for before anything is made of what a package client left behind.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from paddock.core.errors import PluginError
from paddock.core.printable import printable


def refuse_strange_files(root: Path, taken: Collection[str] = ()) -> None:
    """Refuse what is neither a directory nor a file of its own, and whatever stands at a path that is `taken`.

    Raises:
        PluginError: there is such a thing.
    """
    for path in (Path(one) for one in taken):
        for step in (path, *path.parents):
            if os.path.lexists(root / step) and (step == path or not (root / step).is_dir()):
                raise _refused(str(step), "which belongs to the environment itself")
    for directory, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(directory, name)
            found = path.lstat()
            # A second name of a file is a link, too: what is done to one is done to the other.
            if not stat.S_ISDIR(found.st_mode) and not (stat.S_ISREG(found.st_mode) and found.st_nlink == 1):
                raise _refused(str(path.relative_to(root)), "which is a link or no file at all")


def _refused(path: str, why: str) -> PluginError:
    return PluginError(
        f"a package brings {printable(path, 200)}, {why}",
        code="environment.strange_file",
        hint="nothing was installed and nothing of it ran; do not trust it before its author has explained that",
    )
