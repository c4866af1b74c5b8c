"""From `package.module:Attribute` to the object itself, with the plugin's own folders and nothing else of the host."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any


class LoadError(Exception):
    """The plugin cannot be run, for a reason that one line can say."""


def set_import_path(root: str, site: Iterable[str]) -> None:
    """Import from the plugin's root, its `vendor/` and its own environment; then the standard library and the SDK."""
    kept = [entry for entry in sys.path if entry and not entry.rstrip("/").endswith(("site-packages", "dist-packages"))]
    own = [root, f"{root}/vendor", *site]
    sys.path[:] = [*own, *(entry for entry in kept if entry not in own)]


def load_target(target: str) -> Any:
    """The attribute that an entry point names.

    Raises:
        LoadError: there is no such module or attribute.
        Exception: whatever the module raises when it is imported.
    """
    module_name, _, path = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise LoadError(f"the entry point {target} is not in the package: there is no {error.name}") from None
        raise
    for name in path.split("."):
        if not hasattr(found, name):
            raise LoadError(f"the entry point {target} is not in the package: {module_name} has no {path}")
        found = getattr(found, name)
    return found


def is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")
