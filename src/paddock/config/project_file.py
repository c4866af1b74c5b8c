"""What a project says about settings: `.paddock/config.toml` in the nearest directory above the working one.

A project is something people clone. Its file may only make a limit tighter (see `Setting.tighter`), takes nothing
from the environment, and cannot hold anything about plugins or secrets.
"""

from __future__ import annotations

from pathlib import Path

from paddock.config.directories import Directories
from paddock.config.toml_file import TomlFile, read_toml

# A few limits fit into much less; whoever wrote the file, reading it must stay quick.
_MAX_PROJECT_FILE_BYTES = 64 * 1024


def working_directory() -> Path | None:
    """Where we are, or None when that directory was removed meanwhile: there is no project then."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def read_project_file(cwd: Path, directories: Directories) -> TomlFile | None:
    """The nearest project file at or above `cwd`, or None.

    Raises:
        Invalid: It is not TOML.
        OperatorError: It cannot be read or is not an ordinary file of a sane size.
    """
    for directory in (cwd, *cwd.parents):
        path = directory / ".paddock" / "config.toml"
        # With PADDOCK_HOME=~/.paddock our own file has the very name of a project's.
        if path != directories.config_file and (file := read_toml(path, _MAX_PROJECT_FILE_BYTES)) is not None:
            return file
    return None
