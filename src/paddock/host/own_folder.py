"""Making directories inside a folder that a plugin may write to, without following anything the plugin put there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from paddock.core.errors import PluginError


def make_directory(base: Path, path: Path) -> None:
    """Make `path`, which lies below `base`, and every directory between them that is missing.

    Only `base` itself is trusted. Each step below it is taken by descriptor and refuses a link: a plugin that put one
    there would otherwise have us create directories, as ourselves, wherever it points.

    Raises:
        PluginError: something else than a directory stands in the way.
    """
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    here = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.relative_to(base).parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
    except OSError as error:
        raise PluginError(
            f"{path} cannot be made for the plugin: {error.strerror}",
            code="plugin.folder_blocked",
            hint=f"look at what is there: ls -ld {path}",
        ) from error
    finally:
        os.close(here)
