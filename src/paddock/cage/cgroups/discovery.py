"""Finds which cgroup hierarchy can limit each resource here, and in which directory. Pure over a `CgroupView`.

Cgroups are created below the daemon's own one: what an operator allows Paddock also bounds its plugins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

RESOURCES = ("memory", "pids", "cpu")
V1, V2 = "cgroup v1", "cgroup v2"
HOST_LEAF = "paddock-host"  # a leaf for the daemon and its warden, so that their own cgroup can hold cages
# What limits a resource where no cgroup can: rlimits of the process, and the warden's watchdog.
FALLBACK_MECHANISMS = {"memory": "rlimits and a watchdog", "pids": "rlimits", "cpu": "niceness"}


@dataclass(frozen=True, slots=True)
class CgroupView:
    """The kernel's cgroup files; tests pass those of other machines."""

    mounts: str
    membership: str
    controllers: Callable[[Path], set[str]]
    writable: Callable[[Path], bool]
    # Whether a cgroup that would have to be emptied before it can hold cages has processes other than ours.
    has_other_processes: Callable[[Path], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class CgroupLocation:
    """A directory in which groups for one resource can be made."""

    mechanism: str
    directory: Path


def read_cgroup_view(own_pids: Callable[[], Collection[int]]) -> CgroupView:
    """Read the view of this host.

    Args:
        own_pids: The processes that may be moved; any other process in our cgroup is not ours.
    """

    def crowded(directory: Path) -> bool:
        # The root of the hierarchy may hold processes and delegate controllers; every other cgroup only one of them.
        if not (directory / "cgroup.type").exists() or _read_text(f"{directory}/cgroup.subtree_control").strip():
            return False
        return not {int(pid) for pid in _read_text(f"{directory}/cgroup.procs").split()} <= set(own_pids())

    def controllers(directory: Path) -> set[str]:
        return set((directory / "cgroup.controllers").read_text().split())

    return CgroupView(
        mounts=_read_text("/proc/self/mounts"),
        membership=_read_text("/proc/self/cgroup"),
        controllers=controllers,
        writable=lambda directory: os.access(directory, os.W_OK | os.X_OK),
        has_other_processes=crowded,
    )


def _read_text(path: str) -> str:
    """Read a kernel file; empty where the kernel was built without cgroups."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def find_locations(view: CgroupView) -> dict[str, CgroupLocation]:
    """Where each resource can be limited; absent when no cgroup can."""
    own = _parse_membership(view.membership)
    locations: dict[str, CgroupLocation] = {}
    for fs_type, mount, options in _parse_mounts(view.mounts):
        if fs_type == "cgroup2":
            directory = _unified_directory(mount, own)
            try:
                available = view.controllers(directory)
            except OSError:
                continue
            if view.writable(directory) and not view.has_other_processes(directory):
                locations |= {
                    resource: CgroupLocation(V2, directory) for resource in RESOURCES if resource in available
                }
        else:
            for resource in RESOURCES:
                directory = mount / own.get(resource, "/").lstrip("/")
                if resource in options and resource not in locations and view.writable(directory):
                    locations[resource] = CgroupLocation(V1, directory)
    return locations


def find_crowded_cgroup(view: CgroupView) -> Path | None:
    """The cgroup that could hold cages if it had only our processes; None when that is not the obstacle."""
    own = _parse_membership(view.membership)
    unified = [_unified_directory(mount, own) for kind, mount, _ in _parse_mounts(view.mounts) if kind == "cgroup2"]
    return next((group for group in unified if view.writable(group) and view.has_other_processes(group)), None)


def describe_mechanisms(locations: dict[str, CgroupLocation]) -> dict[str, str]:
    """What limits each resource, for people."""
    return {name: locations[name].mechanism if name in locations else FALLBACK_MECHANISMS[name] for name in RESOURCES}


def _unified_directory(mount: Path, own: dict[str, str]) -> Path:
    """Our cgroup in the unified hierarchy. A warden that replaces another finds itself in the leaf already."""
    return mount / own.get("", "/").removesuffix(f"/{HOST_LEAF}").lstrip("/")


def _parse_membership(text: str) -> dict[str, str]:
    """The path of our own cgroup for each controller; the unified hierarchy has the empty name."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    return own


def _parse_mounts(mounts: str) -> list[tuple[str, Path, set[str]]]:
    """Type, path and options of each mount; v2 after v1, so that v2 is preferred."""
    entries: list[tuple[str, Path, set[str]]] = []
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] in ("cgroup", "cgroup2"):
            entries.append((fields[2], Path(fields[1].replace("\\040", " ")), set(fields[3].split(","))))
    return sorted(entries, key=lambda mount: mount[0])
