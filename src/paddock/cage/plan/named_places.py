"""Paths and hosts that a plugin's settings name: its arguments, its variables and its configuration. Pure.

A person chose these, so a plugin that uses one does what it was set up for. What it uses beside them is its own idea.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from paddock.cage.plan.mount_layout import is_below
from paddock.manifest.capability import Capability, Execute, FileAccess
from paddock.manifest.model import CommandRuntime, Manifest, PythonRuntime
from paddock.manifest.network import NetworkAccess

_MAX_PATHS = 50
_OPTION = re.compile(r"-[\w.-]*")
_SEPARATORS = re.compile(r"[=:,;\"'\s]+")
# Scratch directories: what is there may be lost, and every cage has its own.
_SCRATCH_VARIABLES = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR", "PATH"})


@dataclass(frozen=True, slots=True)
class NamedPlaces:
    """What the settings of one plugin name.

    Attributes:
        paths: Where each absolute path is named, as in "its arguments".
        texts: All texts of the settings, each with where it is.
    """

    paths: Mapping[str, str]
    texts: tuple[tuple[str, str], ...]

    def around(self, path: str) -> str | None:
        """The longest named path that is this one, or contains it, or lies in it."""
        related = [one for one in self.paths if is_below(path, one) or (path != "/" and is_below(one, path))]
        return max(related, key=len, default=None)

    def names(self, capability: Capability) -> bool:
        """Whether the settings name what a capability grants."""
        match capability:
            case FileAccess(path=path, root=""):
                return self.around(path) is not None
            case FileAccess():
                return True
            case Execute(binary=binary):
                return any(posixpath.basename(text) == binary for _, text in self.texts)
            case NetworkAccess(host=host):
                return bool(self.where_host(host))
            case _:
                return False

    def where_host(self, host: str) -> str:
        """Where a host is named; empty where it is not."""
        pattern = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", re.IGNORECASE)
        return next((where for where, text in self.texts if pattern.search(text)), "")


@dataclass(frozen=True, slots=True)
class SettingText:
    """One text of a plugin's settings.

    Attributes:
        where: Where it is, as in "its variable STORE".
        name: The name of the variable, the option or the field that it is the value of; empty for other arguments.
        text: The text.
    """

    where: str
    name: str
    text: str


def setting_texts(manifest: Manifest, config: Mapping[str, Any]) -> list[SettingText]:
    """List all texts of a plugin's settings; references in the manifest must be substituted already."""
    runtime = manifest.runtime
    words = runtime.command[1:] if isinstance(runtime, CommandRuntime) else ()
    variables = runtime.env if isinstance(runtime, CommandRuntime | PythonRuntime) else dict[str, str]()
    return [
        *(SettingText("its arguments", _option_of(before, word), word) for before, word in pairwise(("", *words))),
        *(
            SettingText(f"its variable {name}", name, text)
            for name, text in variables.items()
            if name not in _SCRATCH_VARIABLES
        ),
        *(
            SettingText(f"its setting {name}", name, text)
            for name, value in config.items()
            for text in nested_strings(value)
        ),
    ]


def nested_strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, however deep; not the names of its fields."""
    waiting: deque[Any] = deque([value])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)


def find_named_places(manifest: Manifest, config: Mapping[str, Any]) -> NamedPlaces:
    """Find what a plugin's settings name; references in the manifest must be substituted already."""
    texts = [(one.where, one.text) for one in setting_texts(manifest, config)]
    paths: dict[str, str] = {}
    for where, text in texts:
        for path in _paths_in(text):
            if len(paths) < _MAX_PATHS:
                paths.setdefault(path, where)
    return NamedPlaces(paths, tuple(texts))


def _option_of(before: str, word: str) -> str:
    """The option that an argument is the value of: its own, or the word before it."""
    option = _OPTION.match(word)
    if option is not None:
        return option[0]
    return before if before.startswith("-") and "=" not in before else ""


def _paths_in(text: str) -> Iterable[str]:
    for word in (text, *_SEPARATORS.split(text)):
        # A whole argument may be a path with spaces; `file:///srv` leaves three slashes.
        if word.startswith("/") and "\0" not in word and len(word) < 4096:
            yield posixpath.normpath("/" + word.lstrip("/"))
