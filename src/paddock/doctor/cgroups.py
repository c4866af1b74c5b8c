"""What can limit a plugin's memory, processes and CPU here, resource by resource."""

from __future__ import annotations

from paddock.cage.limits.places import RESOURCES, CgroupView, crowded_group, mechanisms, places
from paddock.doctor.check import Check, Status

_WHY = "Without delegated cgroups a plugin's limits are kept by rlimits and by watching, which is slower to notice."
_WHY_CROWDED = (
    "The kernel lets a group hold processes or other groups, not both. Paddock moves itself out of the way, but not"
    " others; so limits are kept by rlimits and by watching, which is slower to notice."
)
_NO_QUOTA = " A share of the CPU (limits.cpu_weight) becomes niceness, and a CPU quota (limits.cpu_quota) is not kept."
_FIX = "systemd-run --user --scope -p Delegate=yes paddock serve"


def check_cgroups(view: CgroupView) -> Check:
    """Say which limits the kernel keeps for us, and which only we can keep ourselves."""
    held = places(view)
    found = ", ".join(f"{resource} by {how}" for resource, how in mechanisms(held).items())
    if all(resource in held for resource in RESOURCES):
        return Check("cgroups", Status.OK, found)
    quota = "" if "cpu" in held else _NO_QUOTA
    crowded = crowded_group(view)
    if crowded is not None:
        found = f"{found}; others share the group {crowded}"
        return Check("cgroups", Status.WARN, found, _WHY_CROWDED + quota, _FIX)
    return Check("cgroups", Status.WARN, found, _WHY + quota, _FIX)
