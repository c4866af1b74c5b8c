"""Loads the settings of this host: our two files, the project's, the environment and the flags."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from paddock.config.directories import Directories
from paddock.config.project_file import read_project_file
from paddock.config.resolve import LoadedSettings, SettingSources, project_warnings, resolve_settings
from paddock.config.toml_file import TomlFile, read_toml, refuse_unsafe_file
from paddock.core.action import Action
from paddock.core.errors import Invalid, OperatorError, Problem
from paddock.core.printable import MAX_PATH_CHARS, printable


def load_settings(
    directories: Directories,
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    flags: Mapping[str, object] | None = None,
) -> LoadedSettings:
    """Resolve every setting from all its sources.

    Args:
        directories: Where `config.toml` and `local.toml` are; either may be missing.
        environ: The environment.
        cwd: Where to search for a project from; None to use no project.
        flags: Values given on the command line, by setting name.

    Raises:
        Invalid: With every mistake in our own files, the environment and the flags; when a file of ours is not TOML
            at all, with that. A project's mistakes are warnings.
        OperatorError: A file cannot be read, or others can write it; or the home is half restored.
    """
    if directories.restore_journal.exists():
        raise OperatorError(
            "a restore of this home is under way, or was interrupted",
            code="config.half_restored",
            hint="wait for it; where it was interrupted, put back what was there before",
            action=Action.of("restore.undo"),
        )
    errors: list[Invalid] = []
    files: list[TomlFile] = []
    for path in (directories.local_file, directories.config_file):
        try:
            if (file := read_toml(path)) is not None:
                refuse_unsafe_file(file)
                files.append(file)
        except Invalid as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        problems = [problem for refusal in errors for problem in refusal.problems]
        hint = "; ".join(refusal.hint for refusal in errors)
        raise Invalid("neither settings file can be read as TOML", problems, code="config.not_toml", hint=hint)
    project, unreadable = _load_project(cwd, directories)
    loaded = resolve_settings(SettingSources(flags or {}, environ, project, tuple(files)))
    exposed = [
        _exposed_file_warning(file) for file in files if file.path == directories.local_file and file.mode & 0o077
    ]
    return replace(loaded, warnings=(*unreadable, *loaded.warnings, *exposed))


def _load_project(cwd: Path | None, directories: Directories) -> tuple[TomlFile | None, list[Problem]]:
    """The project's file, or the warnings about one that cannot be read."""
    if cwd is None:
        return None, []
    try:
        return read_project_file(cwd, directories), []
    except Invalid as error:
        return None, project_warnings(error.problems[0].path, error.problems)
    except OperatorError as error:
        where = printable(str(cwd / ".paddock"), MAX_PATH_CHARS)
        return None, project_warnings(where, [error.as_problem(where)])


def _exposed_file_warning(file: TomlFile) -> Problem:
    return Problem(
        str(file.path),
        f"others can read it (mode {file.mode:04o}), and it may hold secrets",
        f"chmod 0600 {shlex.quote(str(file.path))}",
        "config.exposed",
    )
