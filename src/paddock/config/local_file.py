"""The plugin entries of `local.toml`, `[plugins."<name>"]`, read and edited without losing a comment.

An entry holds which version is installed (`installed`, `local`) and the plugin's system configuration, often secrets.
Writing is atomic for every reader: a private temporary file, synced, renamed over the old one, under a lock.

A file that others can read is repaired by the next write (always 0600) and warned about until then; one that others
can write, or that another user owns, is refused: its content may not be what its owner wrote.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shlex
import time
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from paddock.config.toml_file import parse_toml, read_toml, refuse_unsafe_file
from paddock.config.variables import substitute
from paddock.core.errors import Conflict, HostError, Invalid, OperatorError, Problem
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.store.filesystem import replace_private_file

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

#: Keys of an entry that are ours, so a plugin cannot have system configuration under these names.
RESERVED_FIELDS = frozenset({"installed", "local"})

_LOCK_TIMEOUT_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class PluginEntry:
    """One plugin's entry as written; references to variables are not filled yet."""

    name: str
    installed: str | None
    local: bool
    raw_values: Mapping[str, Any] = dataclasses.field(repr=False)

    @property
    def path(self) -> str:
        """Its path in the file."""
        return f'plugins."{self.name}"'

    def system_values(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """The plugin's system configuration with every `${VAR}` filled and every text in it a `Secret`.

        Raises:
            Invalid: Variables and secrets that are not set, each with its key; never with a value.
        """
        problems: list[Problem] = []
        values = substitute(dict(self.raw_values), environ, self.path, problems)
        if problems:
            raise Invalid(
                f"local.toml: the configuration of {self.name} cannot be filled", problems, code="config.variable_unset"
            )
        return _as_secrets(values)


def _as_secrets(value: Any) -> Any:
    """Wrap each text in a value, at any depth, in a `Secret`."""
    if isinstance(value, str):
        return Secret(value)
    if isinstance(value, dict):
        return {key: _as_secrets(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_as_secrets(part) for part in cast("list[Any]", value)]
    return value


def read_entries(path: Path) -> dict[str, PluginEntry]:
    """Every plugin entry of this `local.toml`, by plugin name; none when there is no file.

    Raises:
        Invalid: The file is not TOML, or an entry has the wrong shape; all of them at once.
        OperatorError: The file is not safe to trust.
    """
    file = read_toml(path)
    if file is None:
        return {}
    refuse_unsafe_file(file)
    problems: list[Problem] = []
    entries: dict[str, PluginEntry] = {}
    for name, table in _entry_tables(file.values).items():
        location = f'{path}: plugins."{printable(name)}"'
        installed, is_local = table.get("installed"), table.get("local", True)
        if installed is not None and not isinstance(installed, str):
            problems.append(Problem(f"{location}.installed", "expected a version as text", code="config.type"))
        elif not isinstance(is_local, bool):
            problems.append(Problem(f"{location}.local", "expected true or false", code="config.type"))
        else:
            system_values = {key: value for key, value in table.items() if key not in RESERVED_FIELDS}
            entries[name] = PluginEntry(name, installed, is_local, MappingProxyType(system_values))
    if problems:
        raise Invalid(f"{path} has entries of the wrong shape", problems, code="config.invalid")
    return entries


def record_installed(
    path: Path, name: str, version: str, *, local: bool = True, values: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Record that this version is installed, keeping the entry's other values.

    Args:
        path: The `local.toml`; created when missing.
        name: The plugin.
        version: The version that is now the default.
        local: Whether the whole machine may use it, or only the project that requested it.
        values: System configuration that came with it, written in the same step.
    """

    def edit(document: MutableMapping[str, Any]) -> None:
        entry = _entry_table(document, name, path)
        entry["installed"] = version
        entry["local"] = local
        entry.update(values)

    edit_local_file(path, edit)


def check_entry_writable(path: Path, name: str, keys: Iterable[str] = ()) -> None:
    """Raise what writing this plugin's entry would raise, without writing anything.

    Raises:
        Invalid: The file is not TOML.
        OperatorError: The file is not safe to trust, a setting has that name, or a field is one of ours.
    """
    reserved = sorted(RESERVED_FIELDS.intersection(keys))
    if reserved:
        raise OperatorError(f"{reserved[0]} is written by Paddock itself", code="config.reserved")
    file = read_toml(path)
    if file is not None:
        refuse_unsafe_file(file)
        _entry_table(deepcopy(dict(file.values)), name, path)


def set_system_value(path: Path, name: str, key: str, value: Any) -> None:
    """Write one field of a plugin's system configuration.

    Raises:
        OperatorError: The field is one of ours (`installed`, `local`).
    """
    if key in RESERVED_FIELDS:
        raise OperatorError(f"{key} is written by Paddock itself", code="config.reserved")

    def edit(document: MutableMapping[str, Any]) -> None:
        _entry_table(document, name, path)[key] = value

    edit_local_file(path, edit)


def change_system_values(path: Path, name: str, values: Mapping[str, Any], removed: Iterable[str] = ()) -> list[str]:
    """Write fields of a plugin's system configuration and remove others, all in one step.

    Returns:
        Which of the removed ones were set.

    Raises:
        OperatorError: A field is one of ours (`installed`, `local`).
    """
    reserved = sorted(RESERVED_FIELDS.intersection({*values, *removed}))
    if reserved:
        raise OperatorError(f"{reserved[0]} is written by Paddock itself", code="config.reserved")
    entry = read_entries(path).get(name)
    removed_keys = [key for key in removed if entry is not None and key in entry.raw_values]
    if not values and not removed_keys:
        return []

    def edit(document: MutableMapping[str, Any]) -> None:
        table = _entry_table(document, name, path)
        for key in removed_keys:
            table.pop(key, None)
        table.update(values)

    edit_local_file(path, edit)
    return removed_keys


def remove_entry(path: Path, name: str) -> bool:
    """Remove a plugin's entry with everything below it; False when there was none."""
    if name not in read_entries(path):
        return False

    def edit(document: MutableMapping[str, Any]) -> None:
        plugins = cast("MutableMapping[str, Any]", document.get("plugins", {}))
        plugins.pop(name, None)
        if not plugins:
            document.pop("plugins", None)

    edit_local_file(path, edit)
    return True


def edit_local_file(path: Path, edit: Callable[[MutableMapping[str, Any]], None]) -> None:
    """Apply an edit to the file atomically, keeping comments and layout.

    The same edit is applied to the plain values as well, and nothing is written unless both give the same result.

    Raises:
        Invalid: The file is not TOML; it stays as it is.
        OperatorError: The file is a link of another user, not ours, or writable by others.
        Conflict: Another command has held the lock for 10 seconds.
    """
    target = _resolve_target(path)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # of a tenant whose first value this is
    with _file_lock(target):
        file = read_toml(target)
        if file is not None:
            refuse_unsafe_file(file)
        before = file.text if file is not None else ""
        after, values = _apply_edit(before, edit, target)
        if file is None or after != before or file.mode != 0o600:
            _write_atomically(target, after, values)


def _apply_edit(text: str, edit: Callable[[MutableMapping[str, Any]], None], path: Path) -> tuple[str, dict[str, Any]]:
    """The new text, and the values it must parse to."""
    # Imported here: it is slow to load, and only commands that write need it.
    import tomlkit

    _, expected = parse_toml(text.encode(), path)
    edit(expected)
    document: TOMLDocument = tomlkit.parse(text)
    edit(cast("MutableMapping[str, Any]", document))
    return tomlkit.dumps(document), expected  # pyright: ignore[reportUnknownMemberType]


def _entry_table(document: MutableMapping[str, Any], name: str, path: Path) -> MutableMapping[str, Any]:
    """The plugin's table, created when missing."""
    plugins = document.setdefault("plugins", {})
    entry = plugins.setdefault(name, {})
    if not isinstance(entry, MutableMapping):
        raise OperatorError(
            f"{path}: plugins.{name} is a setting, so a plugin of that name cannot have an entry",
            code="config.name_taken",
            hint=f"move the setting plugins.{name} to config.toml",
        )
    return cast("MutableMapping[str, Any]", entry)


def _entry_tables(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    plugins = values.get("plugins", {})
    if not isinstance(plugins, dict):
        return {}
    tables = cast("dict[str, Any]", plugins)
    return {name: cast("dict[str, Any]", table) for name, table in tables.items() if isinstance(table, dict)}


def _resolve_target(path: Path) -> Path:
    """The file to replace. A symbolic link is followed only when it is ours, for people who link their dotfiles."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return path
    if not path.is_symlink():
        return path
    if status.st_uid != os.geteuid():
        raise OperatorError(
            f"{path} is a symbolic link that belongs to user {status.st_uid}",
            code="config.foreign_link",
            hint=f"rm {shlex.quote(str(path))}",
        )
    return path.resolve()


@contextmanager
def _file_lock(path: Path) -> Generator[None]:
    """Keep other commands from editing the same file meanwhile."""
    # A separate file: the file itself is replaced, and a lock on the old one would exclude no process.
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Conflict(
                        f"another command is still editing {path}",
                        code="config.locked",
                        hint=f"fuser {shlex.quote(str(lock))}",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _write_atomically(path: Path, text: str, expected: dict[str, Any]) -> None:
    """Replace the file, if the new text says what is expected."""
    _, values = parse_toml(text.encode(), path)
    if values != expected:
        raise HostError(
            f"{path} is laid out in a way that cannot be edited safely, and was left as it is",
            code="config.edit_unsafe",
            hint="edit it by hand",
        )
    replace_private_file(path, text.encode())
