"""What can limit a plugin's memory, processes and CPU here, resource by resource."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paddock.doctor.check import Check, Status

RESOURCES = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class CgroupView:
    """What the kernel shows us; tests hand in what other machines show."""

    mounts: str
    membership: str
    controllers: Callable[[Path], set[str]]
    writable: Callable[[Path], bool]


def kernel_view() -> CgroupView:
    """The view of this machine."""

    def controllers(directory: Path) -> set[str]:
        return set((directory / "cgroup.controllers").read_text().split())

    return CgroupView(
        mounts=Path("/proc/self/mounts").read_text(),
        membership=Path("/proc/self/cgroup").read_text(),
        controllers=controllers,
        writable=lambda directory: os.access(directory, os.W_OK | os.X_OK),
    )


def limiting(view: CgroupView) -> dict[str, str]:
    """Which mechanism holds each resource: `cgroup v2`, `cgroup v1`, or absent when neither can."""
    own = {name: path for line in view.membership.splitlines() for _, name, path in [line.split(":", 2)]}
    held: dict[str, str] = {}
    for kind, mount, options in _cgroup_mounts(view.mounts):
        if kind == "cgroup2":
            directory = mount / own.get("", "/").lstrip("/")
            try:
                available = view.controllers(directory)
            except OSError:
                continue
            if view.writable(directory):
                held |= {resource: "cgroup v2" for resource in RESOURCES if resource in available}
        elif view.writable(mount):
            for resource in RESOURCES:
                if resource in options:
                    held.setdefault(resource, "cgroup v1")
    return held


def check_cgroups(view: CgroupView) -> Check:
    """Say which limits the kernel keeps for us, and which only we can keep ourselves."""
    held = limiting(view)
    missing = [resource for resource in RESOURCES if resource not in held]
    found = ", ".join(f"{resource} by {held.get(resource, 'rlimits and a watchdog')}" for resource in RESOURCES)
    if not missing:
        return Check("cgroups", Status.OK, found)
    return Check(
        "cgroups",
        Status.WARN,
        found,
        "Without delegated cgroups a plugin's limits are kept by rlimits and by watching, which is slower to notice.",
        "systemd-run --user --scope -p Delegate=yes $SHELL   # and start Paddock in that shell",
    )


def _cgroup_mounts(mounts: str) -> list[tuple[str, Path, set[str]]]:
    """Kind, place and options; v2 after v1, so that what it can hold is taken by it."""
    found: list[tuple[str, Path, set[str]]] = []
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] in ("cgroup", "cgroup2"):
            found.append((fields[2], Path(fields[1].replace("\\040", " ")), set(fields[3].split(","))))
    return sorted(found, key=lambda mount: mount[0])
