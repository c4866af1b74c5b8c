"""The warden's pool of zygotes: one for each kind of Python plugin, started with its second launch, stopped when idle.

A zygote takes longer to start than a launch does, so no launch waits for it, and a kind that is launched once has none:
the second launch uses bubblewrap too, and the zygote is there for the third. A launch that finds its zygote alive but
without a spare copy waits a moment for one. Zygotes that fail twice in a row are not used for a while.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from paddock.cage.bwrap.launcher import BwrapLauncher
from paddock.cage.cgroups.cgroup import Cgroup, WardenCgroups
from paddock.cage.launch_request import CageHandle, LaunchRequest
from paddock.cage.spec import WORKER_SCRIPT, CageSpec
from paddock.cage.zygote.cage import ForkRecipe, ZygoteCage
from paddock.cage.zygote.warm_start import WarmStart, ZygoteKey, add_plugin_trees, plan_warm_start, shadows_library
from paddock.cage.zygote.zygote import Zygote, ZygoteCopy, start_zygote

MAX_ZYGOTES = 4
MAX_CONSECUTIVE_FAILURES = 2
COOLDOWN_S = 60.0
IDLE_TIMEOUT_S = 300.0
COPY_TIMEOUT_S = 1.0  # from the request until the copy is confined; on an idle host it takes milliseconds


@dataclass(slots=True)
class _PoolEntry:
    """One zygote with its spare copy and its cages."""

    zygote: Zygote
    used_at: float
    spare: ZygoteCopy | None = None
    # the spare joins its cgroup before it is needed: moving a process takes the kernel long
    spare_cgroup: Cgroup | None = None
    was_warm: bool = False
    waiting: deque[ZygoteCage] = field(default_factory=deque[ZygoteCage])
    unready: dict[ZygoteCage, float] = field(default_factory=dict[ZygoteCage, float])  # deadline of each
    cages: set[ZygoteCage] = field(default_factory=set[ZygoteCage])


class ZygotePool:
    """Starts plugins from zygotes where that is equivalent, and with bubblewrap otherwise. It only makes progress
    when polled.

    Args:
        bwrap: Starts cages with bubblewrap.
        cgroups: Creates the cages' cgroups.
        seccomp: The filter of every cage.
        trees: The directory that contains all installed plugins; without it every start is cold.
        as_mount: Whether a plugin's files are passed to a copy as a mount, which takes root; else the zygote sees them.
    """

    def __init__(
        self, bwrap: BwrapLauncher, cgroups: WardenCgroups, seccomp: bytes, *, trees: str | None, as_mount: bool
    ) -> None:
        self._bwrap = bwrap
        self._cgroups = cgroups
        self._seccomp = seccomp
        self._trees = trees
        self._as_mount = as_mount
        self._launched_before: set[ZygoteKey] = set()
        self._entries: dict[ZygoteKey, _PoolEntry] = {}
        self._stopping: list[Zygote] = []
        self._failures: dict[ZygoteKey, int] = {}
        self._cooldown_until: dict[ZygoteKey, float] = {}
        self._started = 0

    def cgroup_for(self, spec: CageSpec) -> Cgroup:
        """The cgroup for the cage that is started next.

        Raises:
            OSError: The kernel refused.
        """
        warm_start = self._warm_start(spec)
        entry = None if warm_start is None else self._entries.get(warm_start.key)
        if entry is None or entry.spare_cgroup is None:
            return self._cgroups.create(spec.limits)
        entry.spare_cgroup.limit(spec.limits)
        return entry.spare_cgroup

    def start(self, request: LaunchRequest) -> CageHandle:
        """Begin to build a cage.

        Raises:
            OSError: Something the spec names does not exist, or the host is out of a resource. Nothing is left behind.
        """
        warm_start = self._warm_start(request.spec)
        entry = None if warm_start is None else self._entry_for(warm_start)
        if warm_start is None or entry is None or not entry.was_warm or self._trees is None:
            return self._bwrap.start(request)
        recipe = ForkRecipe(warm_start.root, self._trees, self._seccomp, self._as_mount)

        def over(cage: ZygoteCage, succeeded: bool | None) -> None:
            self._on_cage_settled(warm_start.key, entry, cage, succeeded=succeeded)

        cage = ZygoteCage(request, recipe, self._bwrap, over)
        entry.cages.add(cage)
        entry.unready[cage] = time.monotonic() + COPY_TIMEOUT_S
        entry.waiting.append(cage)
        _assign_spare(entry)
        return cage

    def watched_fds(self) -> list[int]:
        """Descriptors that become readable when `poll` has something to do."""
        zygotes = [*(entry.zygote for entry in self._entries.values()), *self._stopping]
        return [descriptor for zygote in zygotes for descriptor in zygote.watched_fds()]

    @property
    def deadline(self) -> float | None:
        """When to poll even if nothing happened."""
        times = [deadline for entry in self._entries.values() for deadline in entry.unready.values()]
        times += [entry.used_at + IDLE_TIMEOUT_S for entry in self._entries.values() if not entry.cages]
        return min(times, default=None)

    def poll(self) -> None:
        """Process what happened to the zygotes, and what should have happened by now."""
        now = time.monotonic()
        for zygote in list(self._stopping):
            for copy in zygote.poll():
                copy.close()
            if zygote.gone:
                self._stopping.remove(zygote)
        for key, entry in list(self._entries.items()):
            for copy in entry.zygote.poll():
                self._add_copy(entry, copy)
            _assign_spare(entry)
            for cage, deadline in list(entry.unready.items()):
                if cage.init_pid is not None:
                    del entry.unready[cage]
                elif deadline <= now:
                    if cage.needs_copy:
                        self._count_result(key, succeeded=False)
                    del entry.unready[cage]
                    cage.fall_back_to_bwrap()
            if entry.zygote.failed:
                self._count_result(key, succeeded=False)
                self._stop_zygote(key)
            elif not entry.cages and entry.used_at + IDLE_TIMEOUT_S <= now:
                self._stop_zygote(key)

    def close(self) -> None:
        """Stop every zygote; poll until `watched_fds` is empty to see them gone."""
        for key in list(self._entries):
            self._stop_zygote(key)

    def _warm_start(self, spec: CageSpec) -> WarmStart | None:
        """How a spec fits a zygote that may be used now."""
        warm_start = plan_warm_start(spec, self._trees)
        if (
            warm_start is None
            or self._cooldown_until.get(warm_start.key, 0.0) > time.monotonic()
            or _shadows_loaded_module(spec)
        ):
            return None
        return warm_start

    def _entry_for(self, warm_start: WarmStart) -> _PoolEntry | None:
        now = time.monotonic()
        if warm_start.key in self._entries:
            self._entries[warm_start.key].used_at = now
            return self._entries[warm_start.key]
        if warm_start.key not in self._launched_before:
            self._launched_before.add(warm_start.key)  # most daemons with one plugin never start another
            return None
        if not self._make_room():
            return None
        self._started += 1
        assert self._trees is not None
        spec = add_plugin_trees(warm_start.zygote, self._trees, visible=not self._as_mount)
        try:
            zygote = start_zygote(self._bwrap, f"zygote-{self._started}", spec)
        except OSError:
            self._count_result(warm_start.key, succeeded=False)
            return None
        self._entries[warm_start.key] = _PoolEntry(zygote, now)
        return self._entries[warm_start.key]

    def _make_room(self) -> bool:
        """Whether another zygote may be started; an unused one makes room."""
        if len(self._entries) < MAX_ZYGOTES:
            return True
        unused = [key for key, entry in self._entries.items() if not entry.cages]
        if unused:
            self._stop_zygote(min(unused, key=lambda key: self._entries[key].used_at))
        return bool(unused)

    def _add_copy(self, entry: _PoolEntry, copy: ZygoteCopy) -> None:
        entry.was_warm = True
        if entry.spare is not None:
            # It was killed while it waited.
            entry.spare.close()
            self._drop_spare_cgroup(entry)
        entry.spare = copy
        if entry.waiting:
            return
        try:
            entry.spare_cgroup = self._cgroups.create_unlimited()
            entry.spare_cgroup.add_process(copy.init_pid)
            entry.spare_cgroup.add_process(copy.plugin_pid)
        except OSError:
            # Its cage's own cgroup will take it, or refuse it with an error that is reported.
            self._drop_spare_cgroup(entry)

    def _drop_spare_cgroup(self, entry: _PoolEntry) -> None:
        """Kill a spare copy's cgroup; it can be removed once it is empty."""
        group, entry.spare_cgroup = entry.spare_cgroup, None
        if group is not None:
            group.kill()
            group.discard()

    def _on_cage_settled(self, key: ZygoteKey, entry: _PoolEntry, cage: ZygoteCage, *, succeeded: bool | None) -> None:
        """A cage no longer depends on its zygote."""
        entry.cages.discard(cage)
        entry.unready.pop(cage, None)
        with contextlib.suppress(ValueError):
            entry.waiting.remove(cage)
        entry.used_at = time.monotonic()
        if succeeded is not None:
            self._count_result(key, succeeded=succeeded)

    def _count_result(self, key: ZygoteKey, *, succeeded: bool) -> None:
        self._failures[key] = 0 if succeeded else self._failures.get(key, 0) + 1
        if self._failures[key] >= MAX_CONSECUTIVE_FAILURES:
            self._cooldown_until[key] = time.monotonic() + COOLDOWN_S
            self._failures[key] = 0

    def _stop_zygote(self, key: ZygoteKey) -> None:
        entry = self._entries.pop(key)
        entry.zygote.stop()
        self._stopping.append(entry.zygote)
        for cage in list(entry.waiting):
            cage.fall_back_to_bwrap()
        if entry.spare is not None:
            entry.spare.close()
        self._drop_spare_cgroup(entry)


def _assign_spare(entry: _PoolEntry) -> None:
    """Give the spare copy to the cage that waits longest."""
    while entry.spare is not None and entry.waiting:
        cage = entry.waiting.popleft()
        if cage.needs_copy:
            # Its cgroup belongs to the cage by now: `cgroup_for` gave it out.
            copy, entry.spare, entry.spare_cgroup = entry.spare, None, None
            cage.assign_copy(copy)


def _shadows_loaded_module(spec: CageSpec) -> bool:
    """Whether a file of the plugin would be imported instead of a module that the zygote has loaded."""
    assert spec.python is not None
    script = spec.python.script
    # The worker is our own file, and searches the plugin's directories first.
    folder = Path(spec.directory if script == WORKER_SCRIPT else Path(script).parent)
    vendored = folder / "vendor"
    try:
        names = os.listdir(folder)  # noqa: PTH208
        if script == WORKER_SCRIPT and vendored.is_dir():
            names += os.listdir(vendored)  # noqa: PTH208
        return shadows_library(names)
    except OSError:
        return True
