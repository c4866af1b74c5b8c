"""The groups that hold a cage's resources: where they stand, what is written into them, and what is cleared away."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.cage.cgroups.cgroup import WardenCgroups, shares_to_weight
from paddock.cage.cgroups.discovery import (
    CgroupLocation,
    CgroupView,
    describe_mechanisms,
    find_crowded_cgroup,
    find_locations,
    read_cgroup_view,
)
from paddock.cage.cgroups.fallback_limits import exceeds_memory, niceness_for
from paddock.cage.spec import MIB, ResourceLimits


def view(mounts: str, membership: str, controllers: set[str]) -> CgroupView:
    return CgroupView(mounts, membership, lambda _: controllers, lambda _: True)


UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"


def test_groups_stand_below_the_daemons_own_so_that_its_limits_bound_them_too() -> None:
    delegated = find_locations(view(UNIFIED, "0::/user.slice/me.scope", {"memory", "pids", "cpu"}))
    assert delegated["memory"] == CgroupLocation("cgroup v2", Path("/sys/fs/cgroup/user.slice/me.scope"))
    split = find_locations(view("cgroup /c/memory cgroup rw,memory 0 0", "4:memory:/service\n3:cpu,cpuacct:/", set()))
    assert split == {"memory": CgroupLocation("cgroup v1", Path("/c/memory/service"))}


def test_a_warden_that_replaces_another_finds_the_same_place_again() -> None:
    first = find_locations(view(UNIFIED, "0::/me.scope", {"memory"}))
    assert find_locations(view(UNIFIED, "0::/me.scope/paddock-host", {"memory"})) == first


def test_what_no_group_holds_is_said_to_be_held_by_something_else() -> None:
    assert describe_mechanisms({}) == {"memory": "rlimits and a watchdog", "pids": "rlimits", "cpu": "niceness"}


def test_the_limits_of_a_v2_group_are_written_where_the_kernel_reads_them(tmp_path: Path) -> None:
    base = v2_directory(tmp_path)
    groups = WardenCgroups({name: CgroupLocation("cgroup v2", base) for name in ("memory", "pids", "cpu")})
    groups.create(ResourceLimits(memory_bytes=64 * MIB, pids=10, cpu_weight=256, cpu_quota=0.5))
    (made,) = base.glob("paddock-[0-9]*")
    written = {file.name: file.read_text() for file in made.iterdir()}
    assert written == {
        "memory.max": str(64 * MIB), "memory.swap.max": "0", "memory.oom.group": "1",
        "pids.max": "11", "cpu.weight": "25", "cpu.max": "50000 100000",
    }  # fmt: skip


def test_the_daemon_makes_room_for_its_cages_by_moving_to_a_leaf(tmp_path: Path) -> None:
    base = v2_directory(tmp_path, enabled="", members="4711\n")
    groups = WardenCgroups({"memory": CgroupLocation("cgroup v2", base)}, own_pids=[4711])
    assert (base / "paddock-host" / "cgroup.procs").read_text() == "4711"
    assert (base / "cgroup.subtree_control").read_text() == "+memory"
    assert set(groups.locations) == {"memory"}


def test_nobody_elses_process_is_moved_and_a_group_that_is_shared_with_one_is_not_used(tmp_path: Path) -> None:
    base = v2_directory(tmp_path / "me.scope", enabled="", members="4711\n4712\n")
    (base / "cgroup.controllers").write_text("memory")
    seen = read_cgroup_view(lambda: [4711])
    ours = CgroupView(
        f"cgroup2 {tmp_path} cgroup2 rw 0 0", "0::/me.scope", seen.controllers, seen.writable, seen.has_other_processes
    )
    assert (find_locations(ours), find_crowded_cgroup(ours)) == ({}, base)
    assert WardenCgroups({"memory": CgroupLocation("cgroup v2", base)}, own_pids=[4711]).locations == {}
    assert not (base / "paddock-host").exists()
    (base / "cgroup.procs").write_text("4711\n")
    assert (set(find_locations(ours)), find_crowded_cgroup(ours)) == ({"memory"}, None)


def test_a_group_that_we_may_not_use_after_all_is_not_counted_on(tmp_path: Path) -> None:
    base = v2_directory(tmp_path, enabled="")
    (base / "paddock-host").write_text("in the way")
    assert WardenCgroups({"memory": CgroupLocation("cgroup v2", base)}).locations == {}


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (256, 25), (1024, 100), (262144, 10000)])
def test_shares_and_weights_are_in_proportion(shares: int, weight: int) -> None:
    assert shares_to_weight(shares) == weight


@pytest.mark.parametrize(("shares", "degree"), [(262144, 0), (1024, 0), (819, 1), (256, 6), (15, 19), (2, 19)])
def test_where_there_are_no_groups_a_share_becomes_the_niceness_that_weighs_the_same(shares: int, degree: int) -> None:
    assert niceness_for(shares) == degree


@pytest.mark.req("O-12", "CPU")
def test_the_kernel_really_holds_what_is_written() -> None:
    held = find_locations(read_cgroup_view(lambda: [os.getpid()]))
    if not held:
        pytest.skip("no group can be made here")
    groups = WardenCgroups(held)
    group = groups.create(ResourceLimits(memory_bytes=64 * MIB, pids=10, cpu_weight=256, cpu_quota=0.5))
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            group.add_process(process.pid)
            assert group.contains(process.pid)
            assert not group.contains(os.getpid())
            assert not group.was_oom_killed()
            assert not group.remove(), "somebody is still in it"
            group.kill()
            assert process.wait(30) == -9
        finally:
            process.kill()
    assert group.remove()


def test_memory_that_processes_share_is_counted_once() -> None:
    script = """
import os, time
eaten = bytearray(os.urandom(1 << 20) * 24)
for _ in range(3):
    if os.fork() == 0:
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert exceeds_memory(process.pid, 16 * MIB)
            assert not exceeds_memory(process.pid, 60 * MIB), "four times 24 MiB, and yet the same 24 MiB"
        finally:
            os.killpg(process.pid, 9)


def test_shared_memory_counts_in_full_however_little_of_it_is_seen_to_be_there() -> None:
    script = """
import mmap, os, time
area = mmap.mmap(-1, 48 << 20)
for place in range(0, 48 << 20, 4096): area[place] = 1
area.madvise(mmap.MADV_DONTNEED)
os.fork()
print("ready", flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.readline()
            assert exceeds_memory(process.pid, 48 * MIB), "no page of it is in a process"
            assert not exceeds_memory(process.pid, 90 * MIB), "two processes, and yet the same 48 MiB"
        finally:
            os.killpg(process.pid, 9)


def test_the_tables_of_a_large_empty_space_count_too() -> None:
    # A page of zeros in each two MiB costs a table of 4 KiB and no page of memory.
    script = """
import mmap, time
area = mmap.mmap(-1, 32 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
area.madvise(15)
sum(area[place] for place in range(0, 32 << 30, 2 << 20))
print("ready", flush=True)
time.sleep(600)
"""
    with subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert exceeds_memory(process.pid, 48 * MIB)
        finally:
            process.kill()


def v2_directory(base: Path, *, enabled: str = "cpu memory pids", members: str = "") -> Path:
    """A directory that looks like a group of the unified hierarchy."""
    base.mkdir(exist_ok=True)
    (base / "cgroup.subtree_control").write_text(enabled)
    (base / "cgroup.procs").write_text(members)
    (base / "cgroup.type").write_text("domain")
    return base
