"""Memory, process and CPU limits of cages: cgroups, or the warden's fallback where there are none."""
