"""A project's settings: `.paddock/config.toml` in the nearest directory at or above the working one.

Projects are cloned from others. Their file may only make a limit tighter (see `SettingSpec.tighter`), takes nothing
from the environment, and cannot contain anything about plugins or secrets.
"""

from __future__ import annotations

from pathlib import Path

from paddock.config.directories import Directories
from paddock.config.toml_file import TomlFile, read_toml

# A few limits need much less; reading an untrusted file must stay quick.
_MAX_PROJECT_FILE_BYTES = 64 * 1024


def working_directory() -> Path | None:
    """The working directory, or None when it was removed meanwhile: there is no project then."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def read_project_file(cwd: Path, directories: Directories) -> TomlFile | None:
    """The nearest project file at or above `cwd`, or None.

    Raises:
        Invalid: It is not TOML.
        OperatorError: It cannot be read, or is not a regular file of a reasonable size.
    """
    for directory in (cwd, *cwd.parents):
        path = directory / ".paddock" / "config.toml"
        # With PADDOCK_HOME=~/.paddock our own file has the very path of a project's.
        if path != directories.config_file and (file := read_toml(path, _MAX_PROJECT_FILE_BYTES)) is not None:
            return file
    return None
