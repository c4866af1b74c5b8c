"""Which kernel mechanism can hold each resource of a cage here, and where its group would stand. Pure over a view.

A group is put below the group that the daemon itself is in: what an operator allows Paddock bounds its plugins too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

RESOURCES = ("memory", "pids", "cpu")
V1, V2 = "cgroup v1", "cgroup v2"
HOST_LEAF = "paddock-host"  # where a daemon and its warden move, so that their own group can hold cages
# What holds a resource where no group can: what the process carries itself, and the warden looking at it.
FALLBACK_MECHANISMS = {"memory": "rlimits and a watchdog", "pids": "rlimits", "cpu": "niceness"}


@dataclass(frozen=True, slots=True)
class CgroupView:
    """What the kernel shows us; tests hand in what other machines show."""

    mounts: str
    membership: str
    controllers: Callable[[Path], set[str]]
    writable: Callable[[Path], bool]
    # Whether others than ourselves are in a group that would have to be emptied before it can hold cages.
    has_other_processes: Callable[[Path], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class CgroupLocation:
    """A directory in which groups for one resource can be made."""

    mechanism: str
    directory: Path


def read_cgroup_view(ours: Callable[[], Collection[int]]) -> CgroupView:
    """The view of this machine.

    Args:
        ours: The processes that may be moved; whatever else is in our group belongs to somebody else.
    """

    def crowded(directory: Path) -> bool:
        # The root of the hierarchy may hold processes and hand out controllers; every other group one or the other.
        if not (directory / "cgroup.type").exists() or _read_text(f"{directory}/cgroup.subtree_control").strip():
            return False
        return not {int(pid) for pid in _read_text(f"{directory}/cgroup.procs").split()} <= set(ours())

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
    """What the kernel says; nothing where it was built without groups."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def find_locations(view: CgroupView) -> dict[str, CgroupLocation]:
    """Where each resource can be held; absent when no group can hold it."""
    own = _parse_membership(view.membership)
    held: dict[str, CgroupLocation] = {}
    for kind, mount, options in _parse_mounts(view.mounts):
        if kind == "cgroup2":
            directory = _unified_directory(mount, own)
            try:
                available = view.controllers(directory)
            except OSError:
                continue
            if view.writable(directory) and not view.has_other_processes(directory):
                held |= {resource: CgroupLocation(V2, directory) for resource in RESOURCES if resource in available}
        else:
            for resource in RESOURCES:
                directory = mount / own.get(resource, "/").lstrip("/")
                if resource in options and resource not in held and view.writable(directory):
                    held[resource] = CgroupLocation(V1, directory)
    return held


def find_crowded_cgroup(view: CgroupView) -> Path | None:
    """The group that could hold cages if nobody but us were in it; None when that is not what is in the way."""
    own = _parse_membership(view.membership)
    unified = [_unified_directory(mount, own) for kind, mount, _ in _parse_mounts(view.mounts) if kind == "cgroup2"]
    return next((group for group in unified if view.writable(group) and view.has_other_processes(group)), None)


def describe_mechanisms(held: dict[str, CgroupLocation]) -> dict[str, str]:
    """What holds each resource, in words."""
    return {name: held[name].mechanism if name in held else FALLBACK_MECHANISMS[name] for name in RESOURCES}


def _unified_directory(mount: Path, own: dict[str, str]) -> Path:
    """Our group of the unified hierarchy. A warden that replaces another finds itself in the leaf already."""
    return mount / own.get("", "/").removesuffix(f"/{HOST_LEAF}").lstrip("/")


def _parse_membership(text: str) -> dict[str, str]:
    """The path of our own group for each controller; the unified hierarchy has the empty name."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    return own


def _parse_mounts(mounts: str) -> list[tuple[str, Path, set[str]]]:
    """Kind, place and options; v2 after v1, so that what it can hold is taken by it."""
    found: list[tuple[str, Path, set[str]]] = []
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] in ("cgroup", "cgroup2"):
            found.append((fields[2], Path(fields[1].replace("\\040", " ")), set(fields[3].split(","))))
    return sorted(found, key=lambda mount: mount[0])
