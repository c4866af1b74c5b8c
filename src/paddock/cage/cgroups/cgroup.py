"""Creates, limits, kills and removes the cgroups of cages: memory, processes, CPU.

Each resource is limited by the best mechanism available: cgroup v2 where it is delegated to us, else v1. Resources
without a cgroup are left to the rlimits that the cage's init sets on itself, to the memory watchdog, and to niceness.

A cgroup's name says which warden made it, so that the next one can remove what a killed warden left.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from paddock.cage.cgroups.discovery import HOST_LEAF, V2, CgroupLocation
from paddock.cage.linux import start_ticks
from paddock.cage.spec import ResourceLimits

# The init process of a cage is bubblewrap's, not the plugin's.
_INIT_PROCESSES = 1
_CPU_PERIOD_US = 100_000
_CGROUP_NAME = re.compile(r"paddock-(\d+)-(\d+)-(\d+)-\d+")


class WardenCgroups:
    """Creates and removes the cgroups of one warden.

    Args:
        locations: Where each resource can be limited; from `discovery.find_locations`.
        own_pids: The processes that may be moved to make room: the daemon and its warden, and no other process.
    """

    def __init__(self, locations: dict[str, CgroupLocation], own_pids: Collection[int] = ()) -> None:
        self._locations = {
            resource: location for resource, location in locations.items() if _usable(location, resource, own_pids)
        }
        self._created = 0
        self._undeleted: list[Cgroup] = []
        # A pid is only meaningful within its pid namespace, and only until it is reused.
        self._namespace = Path("/proc/self/ns/pid").stat().st_ino
        self._prefix = f"paddock-{self._namespace}-{os.getpid()}-{start_ticks(os.getpid())}"

    @property
    def locations(self) -> dict[str, CgroupLocation]:
        """Where each resource really is limited, after trying."""
        return dict(self._locations)

    def create(self, limits: ResourceLimits) -> Cgroup:
        """Create an empty cgroup with these limits.

        Raises:
            OSError: The kernel refused; nothing is left of it.
        """
        group = self.create_unlimited()
        try:
            group.limit(limits)
        except BaseException:
            group.remove()
            raise
        return group

    def create_unlimited(self) -> Cgroup:
        """Create a cgroup without limits yet.

        Raises:
            OSError: The kernel refused; nothing is left of it.
        """
        self._created += 1
        group = Cgroup(f"{self._prefix}-{self._created}", self._locations, self._undeleted)
        try:
            group.create()
        except BaseException:
            group.remove()
            raise
        return group

    def remove_discarded(self) -> bool:
        """Remove the discarded cgroups that the kernel did not take for empty at once; False if some are still left."""
        self._undeleted[:] = [group for group in self._undeleted if not group.remove()]
        return not self._undeleted

    def remove_stale(self) -> None:
        """Kill what wardens that no longer live left behind, and remove their cgroups."""
        for directory in {location.directory for location in self._locations.values()}:
            for stale in list(directory.glob("paddock-*")):
                match = _CGROUP_NAME.fullmatch(stale.name)
                if match is None or int(match[1]) != self._namespace or start_ticks(int(match[2])) == int(match[3]):
                    continue
                _kill_members(stale)
                _remove(stale)


class Cgroup:
    """The cgroup of one cage, in one or more hierarchies."""

    def __init__(self, name: str, locations: dict[str, CgroupLocation], undeleted: list[Cgroup]) -> None:
        self._locations = locations
        self._undeleted = undeleted
        self._directories = list(dict.fromkeys(location.directory / name for location in locations.values()))
        self._name = name

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel kills a process that exceeds the memory limit; else the warden must watch."""
        return "memory" in self._locations

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel limits the number of processes; else RLIMIT_NPROC must."""
        return "pids" in self._locations

    @property
    def limits_cpu(self) -> bool:
        """Whether the kernel shares the CPU by weight; else niceness must."""
        return "cpu" in self._locations

    def contains(self, pid: int) -> bool:
        """Whether a process is a member already."""
        return all(str(pid) in (directory / "cgroup.procs").read_text().split() for directory in self._directories)

    def create(self) -> None:
        """Create the directories."""
        for directory in self._directories:
            directory.mkdir()

    def limit(self, limits: ResourceLimits) -> None:
        """Write the limits. They also apply to processes already in the cgroup."""
        for resource, location in self._locations.items():
            for file, value in _limit_files(resource, location.mechanism, limits):
                path = location.directory / self._name / file
                # Optional files: a kernel may be built without swap accounting, which then limits nothing more.
                with contextlib.suppress(OSError) if file in _OPTIONAL else contextlib.nullcontext():
                    path.write_text(value)

    def add_process(self, pid: int) -> None:
        """Move a process into the cgroup; its later children are members too."""
        for directory in self._directories:
            (directory / "cgroup.procs").write_text(str(pid))

    def kill(self) -> None:
        """Kill every process in it."""
        for directory in self._directories[:1]:
            _kill_members(directory)

    def was_oom_killed(self) -> bool:
        """Whether the kernel killed one of its processes for lack of memory."""
        location = self._locations.get("memory")
        if location is None:
            return False
        file = "memory.events" if location.mechanism == V2 else "memory.oom_control"
        try:
            text = (location.directory / self._name / file).read_text()
        except OSError:
            return False
        return any(line.split()[1] != "0" for line in text.splitlines() if line.startswith("oom_kill "))

    def discard(self) -> None:
        """Remove it now, or with `remove_discarded`: the kernel may need a moment to see that it is empty."""
        if not self.remove():
            self._undeleted.append(self)

    def remove(self) -> bool:
        """Remove it; False when it still has a process."""
        removed = [_remove(directory, 0.0) for directory in self._directories]
        return all(removed)


_OPTIONAL = {"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group"}


def _limit_files(resource: str, mechanism: str, limits: ResourceLimits) -> Iterator[tuple[str, str]]:
    """The files of a cgroup and their values, in the order in which they must be written."""
    v2 = mechanism == V2
    if resource == "memory":
        memory = str(limits.memory_bytes)
        if v2:
            yield from [("memory.max", memory), ("memory.swap.max", "0"), ("memory.oom.group", "1")]
        else:
            yield from [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
    elif resource == "pids":
        yield "pids.max", str(limits.pids + _INIT_PROCESSES)
    elif resource == "cpu":
        if v2:
            yield "cpu.weight", str(shares_to_weight(limits.cpu_weight))
        else:
            yield "cpu.shares", str(limits.cpu_weight)
        if limits.cpu_quota is not None:
            quota = max(1000, int(limits.cpu_quota * _CPU_PERIOD_US))
            if v2:
                yield "cpu.max", f"{quota} {_CPU_PERIOD_US}"
            else:
                yield from [("cpu.cfs_period_us", str(_CPU_PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]


def shares_to_weight(shares: int) -> int:
    """Convert v1 CPU shares (2 to 262144, 1024 is usual) to a v2 weight (1 to 10000, 100 is usual)."""
    return min(10_000, max(1, round(shares * 100 / 1024)))


def _usable(location: CgroupLocation, resource: str, own_pids: Collection[int]) -> bool:
    """Whether a cgroup created here would really have this controller."""
    if location.mechanism != V2:
        return True
    enabled = location.directory / "cgroup.subtree_control"
    try:
        if resource in enabled.read_text().split():
            return True
        if (location.directory / "cgroup.type").exists():
            # Every cgroup but the root may hold processes or delegate controllers, not both: ours move to a leaf.
            members = {int(pid) for pid in (location.directory / "cgroup.procs").read_text().split()}
            if not members <= set(own_pids):
                return False
            leaf = location.directory / HOST_LEAF
            leaf.mkdir(exist_ok=True)
            for pid in members:
                (leaf / "cgroup.procs").write_text(str(pid))
        enabled.write_text(f"+{resource}")
    except OSError:
        # Other processes are in it, or we may not write there after all.
        return False
    return True


def _kill_members(directory: Path) -> None:
    with contextlib.suppress(OSError):
        (directory / "cgroup.kill").write_text("1")
        return
    # cgroup v1 has no `cgroup.kill`: repeat until no process is left that could fork another.
    for _ in range(20):
        try:
            members = [int(pid) for pid in (directory / "cgroup.procs").read_text().split()]
        except OSError:
            return
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _remove(directory: Path, timeout_s: float = 1.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        else:
            return True
