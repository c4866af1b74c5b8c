"""What can limit a plugin's memory, processes and CPU here, resource by resource."""

from __future__ import annotations

from paddock.cage.cgroup_places import RESOURCES, CgroupView, mechanisms, places
from paddock.doctor.check import Check, Status


def check_cgroups(view: CgroupView) -> Check:
    """Say which limits the kernel keeps for us, and which only we can keep ourselves."""
    held = places(view)
    found = ", ".join(f"{resource} by {how}" for resource, how in mechanisms(held).items())
    if all(resource in held for resource in RESOURCES):
        return Check("cgroups", Status.OK, found)
    return Check(
        "cgroups",
        Status.WARN,
        found,
        "Without delegated cgroups a plugin's limits are kept by rlimits and by watching, which is slower to notice.",
        "systemd-run --user --scope -p Delegate=yes $SHELL   # and start Paddock in that shell",
    )
