"""The warden's zygotes: one for each kind of Python plugin, started when it is first wanted, stopped when it is not.

A first launch does not wait for a zygote, which takes longer to start than the launch itself does; it goes the plain
way, and the zygote is there for the next. A launch that finds its zygote alive but without a spare copy waits a
moment for one. Zygotes that fail twice in a row are left alone for a while.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from paddock.cage.cold.way import ColdWay
from paddock.cage.limits.groups import Group, Groups
from paddock.cage.spec import WORKER, CageSpec
from paddock.cage.warm.body import Recipe, WarmBody
from paddock.cage.warm.fit import Fit, Kind, fit, shadows_library, with_trees
from paddock.cage.warm.zygote import Copy, Zygote, start_zygote
from paddock.cage.ways import Body, Order

MOST_ZYGOTES = 4
FAILURES_IN_A_ROW = 2
REST_SECONDS = 60.0
IDLE_SECONDS = 300.0
PATIENCE_SECONDS = 1.0  # from the order until every wall stands; on an idle machine it takes milliseconds


@dataclass(slots=True)
class _Nest:
    """One zygote and everything that has to do with it."""

    zygote: Zygote
    used_at: float
    spare: Copy | None = None
    spare_group: Group | None = None  # it is in its group before it is wanted: moving a process takes the kernel long
    was_warm: bool = False
    waiting: deque[WarmBody] = field(default_factory=deque[WarmBody])
    unready: dict[WarmBody, float] = field(default_factory=dict[WarmBody, float])  # by when each must be
    living: set[WarmBody] = field(default_factory=set[WarmBody])


class Nursery:
    """Starts plugins warm where that is the same as cold, and cold otherwise; a `ways.Way` that has to be looked at.

    Args:
        cold: The plain way.
        groups: Makes the groups that hold the cages' resources.
        seccomp: The filter that every cage has.
        trees: The directory around the files of all installed plugins; without it everything is started cold.
        as_mount: Whether a plugin's files are given to a copy as a mount, which takes root; else the zygote sees them.
    """

    def __init__(self, cold: ColdWay, groups: Groups, seccomp: bytes, *, trees: str | None, as_mount: bool) -> None:
        self._cold = cold
        self._groups = groups
        self._seccomp = seccomp
        self._trees = trees
        self._as_mount = as_mount
        self._nests: dict[Kind, _Nest] = {}
        self._leaving: list[Zygote] = []
        self._emptying: list[Group] = []
        self._failures: dict[Kind, int] = {}
        self._rests_until: dict[Kind, float] = {}
        self._started = 0

    def group(self, spec: CageSpec) -> Group:
        """The group for the cage that is started next.

        Raises:
            OSError: the kernel refused.
        """
        fitting = self._fit(spec)
        nest = None if fitting is None else self._nests.get(fitting.kind)
        if nest is None or nest.spare_group is None:
            return self._groups.make(spec.limits)
        nest.spare_group.limit(spec.limits)
        return nest.spare_group

    def start(self, order: Order) -> Body:
        """See `ways.Way`."""
        fitting = self._fit(order.spec)
        nest = None if fitting is None else self._nest(fitting)
        if fitting is None or nest is None or not nest.was_warm or self._trees is None:
            return self._cold.start(order)
        recipe = Recipe(fitting.root, self._trees, self._seccomp, self._as_mount)

        def over(body: WarmBody, well: bool | None) -> None:
            self._over(fitting.kind, nest, body, well=well)

        body = WarmBody(order, recipe, self._cold, over)
        nest.living.add(body)
        nest.unready[body] = time.monotonic() + PATIENCE_SECONDS
        nest.waiting.append(body)
        _match(nest)
        return body

    def watched(self) -> list[int]:
        """Descriptors that become readable when there is something to look at."""
        zygotes = [*(nest.zygote for nest in self._nests.values()), *self._leaving]
        return [descriptor for zygote in zygotes for descriptor in zygote.watched()]

    @property
    def deadline(self) -> float | None:
        """When to look even if nothing happened."""
        times = [until for nest in self._nests.values() for until in nest.unready.values()]
        times += [nest.used_at + IDLE_SECONDS for nest in self._nests.values() if not nest.living]
        return min(times, default=None)

    def look(self) -> None:
        """Take in what happened to the zygotes, and what should have happened by now."""
        now = time.monotonic()
        for zygote in list(self._leaving):
            for copy in zygote.look():
                copy.close()
            if zygote.gone:
                self._leaving.remove(zygote)
        for kind, nest in list(self._nests.items()):
            for copy in nest.zygote.look():
                self._welcome(nest, copy)
            _match(nest)
            for body, until in list(nest.unready.items()):
                if body.first is not None:
                    del nest.unready[body]
                elif until <= now:
                    if body.waits:
                        self._count(kind, well=False)
                    del nest.unready[body]
                    body.give_up()
            if nest.zygote.failed:
                self._count(kind, well=False)
                self._stop(kind)
            elif not nest.living and nest.used_at + IDLE_SECONDS <= now:
                self._stop(kind)
        self._emptying = [group for group in self._emptying if not group.remove()]

    def close(self) -> None:
        """End every zygote; look until `watched` is empty to see them gone."""
        for kind in list(self._nests):
            self._stop(kind)

    def _fit(self, spec: CageSpec) -> Fit | None:
        """How a spec fits a zygote that may be asked now."""
        fitting = fit(spec, self._trees)
        if fitting is None or self._rests_until.get(fitting.kind, 0.0) > time.monotonic() or _shadowed(spec):
            return None
        return fitting

    def _nest(self, fitting: Fit) -> _Nest | None:
        now = time.monotonic()
        if fitting.kind in self._nests:
            self._nests[fitting.kind].used_at = now
            return self._nests[fitting.kind]
        if not self._room():
            return None
        self._started += 1
        assert self._trees is not None
        spec = with_trees(fitting.zygote, self._trees, seen=not self._as_mount)
        try:
            zygote = start_zygote(self._cold, f"zygote-{self._started}", spec)
        except OSError:
            self._count(fitting.kind, well=False)
            return None
        self._nests[fitting.kind] = _Nest(zygote, now)
        return self._nests[fitting.kind]

    def _room(self) -> bool:
        """Whether another zygote may be started; one that nobody uses makes room."""
        if len(self._nests) < MOST_ZYGOTES:
            return True
        unused = [kind for kind, nest in self._nests.items() if not nest.living]
        if unused:
            self._stop(min(unused, key=lambda kind: self._nests[kind].used_at))
        return bool(unused)

    def _welcome(self, nest: _Nest, copy: Copy) -> None:
        nest.was_warm = True
        if nest.spare is not None:
            # It was ended while it waited.
            nest.spare.close()
            self._drop_group(nest)
        nest.spare = copy
        if nest.waiting:
            return
        try:
            nest.spare_group = self._groups.make_unlimited()
            nest.spare_group.add(copy.first)
            nest.spare_group.add(copy.plugin)
        except OSError:
            # Its cage's own group will take it, or refuse it for a reason that somebody is told.
            self._drop_group(nest)

    def _drop_group(self, nest: _Nest) -> None:
        """End a spare copy's group; it can be taken away once nobody is in it any more."""
        group, nest.spare_group = nest.spare_group, None
        if group is not None:
            group.kill()
            self._emptying.append(group)

    def _over(self, kind: Kind, nest: _Nest, body: WarmBody, *, well: bool | None) -> None:
        """A body no longer is a matter of its zygote."""
        nest.living.discard(body)
        nest.unready.pop(body, None)
        with contextlib.suppress(ValueError):
            nest.waiting.remove(body)
        nest.used_at = time.monotonic()
        if well is not None:
            self._count(kind, well=well)

    def _count(self, kind: Kind, *, well: bool) -> None:
        self._failures[kind] = 0 if well else self._failures.get(kind, 0) + 1
        if self._failures[kind] >= FAILURES_IN_A_ROW:
            self._rests_until[kind] = time.monotonic() + REST_SECONDS
            self._failures[kind] = 0

    def _stop(self, kind: Kind) -> None:
        nest = self._nests.pop(kind)
        nest.zygote.stop()
        self._leaving.append(nest.zygote)
        for body in list(nest.waiting):
            body.give_up()
        if nest.spare is not None:
            nest.spare.close()
        self._drop_group(nest)


def _match(nest: _Nest) -> None:
    """Give the spare copy to whoever waits longest."""
    while nest.spare is not None and nest.waiting:
        body = nest.waiting.popleft()
        if body.waits:
            # Its group is the body's by now: `group` was asked for it.
            copy, nest.spare, nest.spare_group = nest.spare, None, None
            body.use(copy)


def _shadowed(spec: CageSpec) -> bool:
    """Whether a file of the plugin would be imported in place of one that the zygote has loaded."""
    assert spec.python is not None
    script = spec.python.script
    # The worker is our own file, and looks for modules in the plugin's folders first.
    folder = Path(spec.directory if script == WORKER else Path(script).parent)
    vendored = folder / "vendor"
    try:
        names = os.listdir(folder)  # noqa: PTH208
        if script == WORKER and vendored.is_dir():
            names += os.listdir(vendored)  # noqa: PTH208
        return shadows_library(names)
    except OSError:
        return True
