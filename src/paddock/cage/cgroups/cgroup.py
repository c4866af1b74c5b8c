"""The groups of the kernel (cgroups) that hold what one cage may use: memory, processes, CPU.

Each resource is held by the best mechanism that we may use: cgroup v2 where it is delegated to us, else v1. What no
group holds is left to the limits that the cage's first process sets on itself, to the watchdog, and to niceness.

A group's name says which warden made it, so that the next one can clear away what a killed one left.
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

# The first process of a cage is bubblewrap's, not the plugin's.
_INIT_PROCESSES = 1
_CPU_PERIOD_US = 100_000
_CGROUP_NAME = re.compile(r"paddock-(\d+)-(\d+)-(\d+)-\d+")


class WardenCgroups:
    """Makes and clears away the groups of one warden.

    Args:
        places: Where each resource can be held; `places.places`.
        ours: The processes that may be moved to make room: the daemon and its warden, and nobody's shell.
    """

    def __init__(self, places: dict[str, CgroupLocation], ours: Collection[int] = ()) -> None:
        self._places = {resource: place for resource, place in places.items() if _usable(place, resource, ours)}
        self._made = 0
        self._undeleted: list[Cgroup] = []
        # A pid means something only within its pid namespace, and only until it is used again.
        self._namespace = Path("/proc/self/ns/pid").stat().st_ino
        self._prefix = f"paddock-{self._namespace}-{os.getpid()}-{start_ticks(os.getpid())}"

    @property
    def locations(self) -> dict[str, CgroupLocation]:
        """Where each resource really is held, after trying."""
        return dict(self._places)

    def create(self, limits: ResourceLimits) -> Cgroup:
        """A group with these limits and nobody in it.

        Raises:
            OSError: the kernel refused; nothing is left of it.
        """
        group = self.create_unlimited()
        try:
            group.limit(limits)
        except BaseException:
            group.remove()
            raise
        return group

    def create_unlimited(self) -> Cgroup:
        """A group that limits nothing yet.

        Raises:
            OSError: the kernel refused; nothing is left of it.
        """
        self._undeleted[:] = [group for group in self._undeleted if not group.remove()]
        self._made += 1
        group = Cgroup(f"{self._prefix}-{self._made}", self._places, self._undeleted)
        try:
            group.create()
        except BaseException:
            group.remove()
            raise
        return group

    def remove_stale(self) -> None:
        """End what wardens that no longer live left behind, and take their groups away."""
        for directory in {place.directory for place in self._places.values()}:
            for left in list(directory.glob("paddock-*")):
                name = _CGROUP_NAME.fullmatch(left.name)
                if name is None or int(name[1]) != self._namespace or start_ticks(int(name[2])) == int(name[3]):
                    continue
                _kill_members(left)
                _remove(left)


class Cgroup:
    """One cage's group, in as many hierarchies as it takes."""

    def __init__(self, name: str, places: dict[str, CgroupLocation], left: list[Cgroup]) -> None:
        self._places = places
        self._undeleted = left
        self._directories = list(dict.fromkeys(place.directory / name for place in places.values()))
        self._name = name

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel ends what uses too much memory; else somebody has to watch."""
        return "memory" in self._places

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel refuses a process too many; else each process has to count."""
        return "pids" in self._places

    @property
    def limits_cpu(self) -> bool:
        """Whether the kernel shares the CPU by weight; else each process has to step back."""
        return "cpu" in self._places

    def contains(self, pid: int) -> bool:
        """Whether a process is in it already."""
        return all(str(pid) in (directory / "cgroup.procs").read_text().split() for directory in self._directories)

    def create(self) -> None:
        """Make the directories."""
        for directory in self._directories:
            directory.mkdir()

    def limit(self, limits: ResourceLimits) -> None:
        """Write the limits. They hold for whoever is in it already, too."""
        for resource, place in self._places.items():
            for file, value in _limit_files(resource, place.mechanism, limits):
                path = place.directory / self._name / file
                # Optional ones: a kernel may be built without swap accounting, which then limits nothing more.
                with contextlib.suppress(OSError) if file in _OPTIONAL else contextlib.nullcontext():
                    path.write_text(value)

    def add_process(self, pid: int) -> None:
        """Put a process in; what it starts from now on is in too."""
        for directory in self._directories:
            (directory / "cgroup.procs").write_text(str(pid))

    def kill(self) -> None:
        """End everybody in it."""
        for directory in self._directories[:1]:
            _kill_members(directory)

    def was_oom_killed(self) -> bool:
        """Whether the kernel had to end a process of it for lack of memory."""
        place = self._places.get("memory")
        if place is None:
            return False
        file = "memory.events" if place.mechanism == V2 else "memory.oom_control"
        try:
            text = (place.directory / self._name / file).read_text()
        except OSError:
            return False
        return any(line.split()[1] != "0" for line in text.splitlines() if line.startswith("oom_kill "))

    def discard(self) -> None:
        """Take it away, now or when the next one is made: the kernel may need a moment to see that it is empty."""
        if not self.remove():
            self._undeleted.append(self)

    def remove(self) -> bool:
        """Take it away; False when somebody is still in it."""
        removed = [_remove(directory, 0.0) for directory in self._directories]
        return all(removed)


_OPTIONAL = {"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group"}


def _limit_files(resource: str, mechanism: str, limits: ResourceLimits) -> Iterator[tuple[str, str]]:
    """The files of a group and what they say, in the order in which they must be written."""
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
    """CPU shares (2 to 262144, 1024 is usual) as a v2 weight (1 to 10000, 100 is usual), in the same proportion."""
    return min(10_000, max(1, round(shares * 100 / 1024)))


def _usable(place: CgroupLocation, resource: str, ours: Collection[int]) -> bool:
    """Whether a group made here would really have this controller."""
    if place.mechanism != V2:
        return True
    enabled = place.directory / "cgroup.subtree_control"
    try:
        if resource in enabled.read_text().split():
            return True
        if (place.directory / "cgroup.type").exists():
            # Every group but the root may hold processes or hand out controllers, not both: ours move to a leaf.
            members = {int(pid) for pid in (place.directory / "cgroup.procs").read_text().split()}
            if not members <= set(ours):
                return False
            leaf = place.directory / HOST_LEAF
            leaf.mkdir(exist_ok=True)
            for pid in members:
                (leaf / "cgroup.procs").write_text(str(pid))
        enabled.write_text(f"+{resource}")
    except OSError:
        # Somebody else's processes are in it, or it is not ours after all.
        return False
    return True


def _kill_members(directory: Path) -> None:
    with contextlib.suppress(OSError):
        (directory / "cgroup.kill").write_text("1")
        return
    # A group of v1 has no switch: round after round until nobody is left who could start another.
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


def _remove(directory: Path, patience: float = 1.0) -> bool:
    deadline = time.monotonic() + patience
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
