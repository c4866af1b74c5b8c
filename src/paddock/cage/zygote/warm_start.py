"""Decides which plugins a zygote may run, and plans the zygote's own cage. Pure.

A plugin is started warm only where it cannot tell the difference: everything that Python reads before the script runs
must be what the zygote has read already, and every bind, but for the plugin's own files, must be one that the
zygote has. All others are started cold, in the same cage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from paddock.cage.spec import BindMount, CageSpec, ResourceLimits
from paddock.cage.zygote.namespaces import ZYGOTE_FILES

# Plugins with the same key can come from the same zygote.
ZygoteKey: TypeAlias = tuple[object, ...]

ZYGOTE_PROGRAM = f"{ZYGOTE_FILES}/main.py"
LINK_FD = 3  # the zygote's socket to the warden

# Mounted anew by every copy, over whatever was bound there.
_REMOUNTED = ("/tmp", "/dev", "/proc", ZYGOTE_FILES)  # noqa: S108 inside the cage
_MODULE_ENDINGS = ("", ".py", ".pyc", ".so")
_STARTUP_MODULES = ("sitecustomize", "usercustomize", "paddock_sdk")


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A plugin that may be started warm."""

    key: ZygoteKey
    root: str  # the plugin's own files, as the cage sees them
    zygote: CageSpec  # without the plugin trees: whether it can see them at all is the warden's decision


def plan_warm_start(spec: CageSpec, trees: str | None) -> WarmStart | None:
    """How a spec fits a warm start; None when it does not.

    Args:
        spec: The plugin's cage.
        trees: The directory that contains all installed plugins, with links resolved.
    """
    if spec.python is None or trees is None or spec.covers or spec.learning:
        return None
    own = [bind for bind in spec.binds if _is_below(bind.target, trees)]
    others = tuple(bind for bind in spec.binds if bind not in own)
    if len(own) != 1 or own[0].source != own[0].target or any(bind.writable for bind in spec.binds):
        return None
    if any(_is_below(bind.target, directory) for bind in others for directory in _REMOUNTED):
        return None
    environment = _startup_environment(spec)
    if environment is None or not all(entry[:1] == "/" and not _is_below(entry, trees) for entry in _python_path(spec)):
        # A path into the trees would have the zygote import a plugin's code, outside that plugin's confinement.
        return None
    zygote = replace(
        spec,
        cage_id="zygote",
        plugin="",
        command=(spec.python.interpreter, ZYGOTE_PROGRAM, str(LINK_FD)),
        directory="/",
        environment=environment,
        binds=others,
        executables=(),
        network=(),
        limits=ResourceLimits(),
        python=None,
        artifacts=False,
    )
    return WarmStart((zygote.command, others, spec.links, tuple(sorted(environment.items()))), own[0].target, zygote)


def add_plugin_trees(zygote: CageSpec, trees: str, *, visible: bool) -> CageSpec:
    """The zygote's cage with a mount point for plugins: their real directory, or empty where each comes as a mount."""
    if visible:
        return replace(zygote, binds=(*zygote.binds, BindMount(trees, trees)))
    return replace(zygote, covers=(trees,))


def shadows_library(names: Iterable[str]) -> bool:
    """Whether a file next to a script would be imported instead of a module that may be loaded already."""
    return any(
        stem in sys.stdlib_module_names or stem in _STARTUP_MODULES
        for stem, _, ending in (name.partition(".") for name in names)
        if f".{ending}".rstrip(".") in _MODULE_ENDINGS or ending.endswith(".so")
    )


def _startup_environment(spec: CageSpec) -> dict[str, str] | None:
    """The variables that an interpreter reads at start; None when there is one that we do not foresee."""
    variables = {
        name: value
        for name, value in spec.environment.items()
        if name in ("LANG", "LANGUAGE", "TZ") or name.startswith(("LC_", "PYTHON"))
    }
    return None if any(name.startswith("PYTHON") and name != "PYTHONPATH" for name in variables) else variables


def _python_path(spec: CageSpec) -> list[str]:
    path = spec.environment.get("PYTHONPATH")
    return path.split(os.pathsep) if path else []


def _is_below(path: str, directory: str) -> bool:
    return os.path.normpath(path).startswith(directory.rstrip("/") + "/")
