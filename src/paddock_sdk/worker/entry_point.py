"""Resolves `package.module:Attribute` to the object, importing only from the plugin's own folders."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any


class LoadError(Exception):
    """The plugin cannot be loaded, for a reason that fits on one line."""


def set_import_path(root: str, site: Iterable[str]) -> None:
    """Import from the plugin's root, its `vendor/` and its own environment; then the standard library and the SDK."""
    system = [
        entry for entry in sys.path if entry and not entry.rstrip("/").endswith(("site-packages", "dist-packages"))
    ]
    plugin_paths = [root, f"{root}/vendor", *site]
    sys.path[:] = [*plugin_paths, *(entry for entry in system if entry not in plugin_paths)]


def load_target(target: str) -> Any:
    """Return the attribute that an entry point names.

    Raises:
        LoadError: there is no such module or attribute.
        Exception: any error raised while importing the module.
    """
    module_name, _, path = target.partition(":")
    try:
        target_object: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise LoadError(f"the entry point {target} is not in the package: there is no {error.name}") from None
        raise
    for name in path.split("."):
        if not hasattr(target_object, name):
            raise LoadError(f"the entry point {target} is not in the package: {module_name} has no {path}")
        target_object = getattr(target_object, name)
    return target_object


def is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")
