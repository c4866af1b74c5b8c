"""Lists what a program offers, by loading it without serving."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType

from paddock_sdk.call import JsonObject
from paddock_sdk.stdio import Plugin


class NotAPlugin(Exception):
    """The program cannot be loaded, or contains no plugin."""


def load_plugin(program: str) -> Plugin:
    """Return the only Plugin of a program. Its `run` returns at once, so that the program may call it anywhere.

    Raises:
        NotAPlugin: there is none, or more than one.
    """
    if not os.path.isfile(program):  # noqa: PTH113 pathlib is slow to import, and this package is not
        raise NotAPlugin("there is no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))  # noqa: PTH100, PTH120
    original_run, Plugin.run = Plugin.run, _do_nothing
    try:
        names = vars(_load_module(program))
    except Exception as error:
        raise NotAPlugin(f"it cannot be loaded ({type(error).__name__}: {error})") from error
    finally:
        Plugin.run = original_run
        sys.path.pop(0)
    plugins = {id(value): value for value in names.values() if isinstance(value, Plugin)}
    if len(plugins) != 1:
        raise NotAPlugin(f"it holds {len(plugins)} plugins; one Plugin(...) is expected at its top")
    return next(iter(plugins.values()))


def describe_program(program: str) -> JsonObject:
    """Return the tools and methods of a program in the manifest's format.

    Raises:
        NotAPlugin: there is no plugin, or a handler's type has no JSON Schema.
    """
    try:
        return load_plugin(program).manifest_callables()
    except TypeError as error:
        raise NotAPlugin(str(error)) from error


def _load_module(program: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("paddock_plugin", program)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python program")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # needed to resolve the type hints of its classes
    spec.loader.exec_module(module)
    return module


def _do_nothing(self: Plugin) -> None:
    """Replacement for `Plugin.run`."""
