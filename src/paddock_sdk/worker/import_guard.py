"""Refuses imports that a plugin's own code may not make, by name and with the reason.

The names are in `refused_imports.json`, which the host's package check before installation reads as well. Only imports
by files below the plugin's root are refused, its `vendor/` included. A standard library module that imports one of
these names for itself still loads.

What this does not buy: Python code can always circumvent it. It tells an honest author early and clearly. A dishonest
one is held by the cage, which has no network and none of the host's files.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

from paddock_sdk.worker.entry_point import is_below

REFUSED_IMPORTS_FILE = os.path.join(os.path.dirname(__file__), "refused_imports.json")  # noqa: PTH118, PTH120 pathlib is slow to import


class RefusedImport(ImportError):
    """A plugin imported a refused module."""


def refused_names(dialect: str) -> dict[str, str]:
    """Return the modules that plugins of a dialect may not import, each with the reason."""
    with open(REFUSED_IMPORTS_FILE, encoding="utf-8") as file:  # noqa: PTH123
        groups: Mapping[str, Any] = json.load(file)
    matching = [group for group in groups.values() if dialect in group["dialects"] or "*" in group["dialects"]]
    return {name: group["reason"] for group in matching for name in group["names"]}


class ImportGuard:
    """Checks modules before they are loaded (`sys.meta_path`) and before they are returned (`__import__`)."""

    def __init__(self, root: str, refused: Mapping[str, str]) -> None:
        self._root = root
        self._refused = refused
        self._import: Callable[..., Any] = builtins.__import__

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        builtins.__import__ = self._guarded

    def remove(self) -> None:
        sys.meta_path.remove(self)
        builtins.__import__ = self._import

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Refuse a module that is about to be loaded; never finds one itself."""
        del path, target
        reason = self._reason(name)
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] no other way to find the importer
        if reason is not None and self._by_plugin(_importer(caller)):
            raise refused_import_error(name, reason)

    def _guarded(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 as Python calls it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Iterable[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level == 0:
            for module in (name, *(f"{name}.{attribute}" for attribute in fromlist or ())):
                reason = self._reason(module)
                if reason is not None and self._by_plugin((globals or {}).get("__file__")):
                    raise refused_import_error(module, reason)
        return self._import(name, globals, locals, fromlist, level)

    def _reason(self, name: str) -> str | None:
        while name:
            if name in self._refused:
                return self._refused[name]
            name = name.rpartition(".")[0]
        return None

    def _by_plugin(self, path: Any) -> bool:
        return isinstance(path, str) and is_below(path, self._root)


def refused_import_error(name: str, reason: str) -> RefusedImport:
    return RefusedImport(f"a plugin may not import {name}: {reason}", name=name)


def _importer(frame: FrameType | None) -> str | None:
    """Return the file that requested an import: the first frame outside the import machinery."""
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith("<frozen importlib") and path not in (importlib.__file__, __file__):
            return path
        frame = frame.f_back
    return None
