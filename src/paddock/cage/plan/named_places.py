"""Paths and hosts that a plugin's settings name: its arguments, its variables and its configuration. Pure.

A person chose these, so a plugin that uses one does what it was set up for. What it uses beside them is its own idea.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.cage.plan.mount_layout import is_below
from paddock.manifest.capability import Capability, Execute, FileAccess
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.manifest.network import NetworkAccess

_MAX_PATHS = 50
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


def find_named_places(manifest: Manifest, config: Mapping[str, Any]) -> NamedPlaces:
    """Find what a plugin's settings name; references in the manifest must be substituted already."""
    texts: list[tuple[str, str]] = []
    runtime = manifest.runtime
    if isinstance(runtime, CommandRuntime):
        texts += [("its arguments", word) for word in runtime.command[1:]]
        texts += [
            (f"its variable {name}", text) for name, text in runtime.env.items() if name not in _SCRATCH_VARIABLES
        ]
    texts += [(f"its setting {name}", text) for name, value in config.items() for text in _strings(value)]
    paths: dict[str, str] = {}
    for where, text in texts:
        for path in _paths_in(text):
            if len(paths) < _MAX_PATHS:
                paths.setdefault(path, where)
    return NamedPlaces(paths, tuple(texts))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value]
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [one for one in items if isinstance(one, str)]


def _paths_in(text: str) -> Iterable[str]:
    for word in (text, *_SEPARATORS.split(text)):
        # A whole argument may be a path with spaces; `file:///srv` leaves three slashes.
        if word.startswith("/") and "\0" not in word and len(word) < 4096:
            yield posixpath.normpath("/" + word.lstrip("/"))
