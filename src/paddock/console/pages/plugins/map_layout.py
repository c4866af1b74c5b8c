"""The map of a host: who calls which plugins, and what those reach, as a picture and as rows of a table. Pure.

Callers stand at the left, plugins in the middle, and what they reach at the right. Where there are many, plugins with
the same reach are drawn as one, and so are the hosts, files, programs and secrets of one kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from paddock.core.printable import count_text
from paddock.ledger.read.callers import CallerCount
from paddock.manifest.capability import Capability, Execute, FileAccess, HostService, StorageAccess
from paddock.manifest.network import NetworkAccess
from paddock.manifest.secret_use import SecretUse
from paddock.plugins.manage.reach import PluginReach

MAX_PLUGINS_DRAWN: Final = 24
MAX_CALLERS_DRAWN: Final = 12
_MAX_TARGETS_DRAWN: Final = 8  # of one kind
_MAX_LABEL_CHARS: Final = 30
_ROW_UNITS: Final = 30
_TOP_UNITS: Final = 40
_BOX_UNITS: Final = 230
_COLUMNS: Final = (0, 365, 730)
WIDTH_UNITS: Final = _COLUMNS[2] + _BOX_UNITS

KINDS: Final[tuple[tuple[str, type], ...]] = (
    ("Network", NetworkAccess),
    ("Files", FileAccess),
    ("Programs", Execute),
    ("Secrets", SecretUse),
    ("Host services", HostService),
    ("Own tables", StorageAccess),
)
"""What a plugin can reach; the first kinds leave its cage."""
_COUNTED: Final = {"Network": "host", "Files": "path", "Programs": "program", "Secrets": "secret"}


class MapTarget(Struct, frozen=True):
    """Something that a plugin reaches, with the reason if that is dangerous."""

    kind: str
    text: str
    danger: str = ""


class MapRow(Struct, frozen=True):
    """One plugin: its callers with their numbers of calls, and what it reaches by kind."""

    plugin: str
    callers: tuple[tuple[str, int], ...]
    targets: tuple[MapTarget, ...]

    @property
    def dangerous(self) -> bool:
        return any(target.danger for target in self.targets)

    @property
    def calls(self) -> int:
        return sum(calls for _, calls in self.callers)

    def of_kind(self, kind: str) -> list[MapTarget]:
        """Return what it reaches of one kind."""
        return [target for target in self.targets if target.kind == kind]


class MapBox(Struct, frozen=True):
    """A box of the picture."""

    label: str
    title: str
    x: int
    y: int
    dangerous: bool = False
    plugin: str = ""  # whose page it leads to; empty for a group, and for what is no plugin

    @property
    def middle(self) -> int:
        return self.y + (_ROW_UNITS - 6) // 2


class MapLine(Struct, frozen=True):
    """A line from one box to another."""

    path: str
    dangerous: bool = False


class MapNode(Struct, frozen=True):
    """A plugin's box, or that of several, with its lines to both sides."""

    box: MapBox
    lines: tuple[MapLine, ...]


class MapPicture(Struct, frozen=True):
    """The picture."""

    callers: tuple[MapBox, ...]
    plugins: tuple[MapNode, ...]
    targets: tuple[MapBox, ...]
    height: int
    width: int = WIDTH_UNITS
    box_width: int = _BOX_UNITS
    box_height: int = _ROW_UNITS - 6
    columns: tuple[int, ...] = _COLUMNS


def map_rows(reach: Iterable[PluginReach], calls: Iterable[CallerCount], names: Mapping[str, str]) -> list[MapRow]:
    """Return a row for each plugin, the dangerous ones first, then those with the most calls.

    Args:
        reach: The enabled plugins and what they were granted.
        calls: Who called them.
        names: What the principals are called.
    """
    callers: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for one in calls:
        callers[one.plugin].append((names.get(one.principal, one.principal), one.calls))
    rows = [MapRow(one.plugin, tuple(callers[one.plugin]), _targets(one)) for one in reach]
    return sorted(rows, key=lambda row: (not row.dangerous, -row.calls, row.plugin))


def _targets(reach: PluginReach) -> tuple[MapTarget, ...]:
    return tuple(
        MapTarget(kind, _target_text(capability), reach.dangers.get(str(capability), ""))
        for kind, type_ in KINDS
        for capability in reach.granted
        if isinstance(capability, type_)
    )


def _target_text(capability: Capability) -> str:
    match capability:
        case NetworkAccess(host="*"):
            return "any host"
        case StorageAccess(mode=mode):
            return "read and write" if mode == "write" else "read"
        case FileAccess(mode=mode):
            return f"{str(capability).partition(':fs:')[2]} ({mode})"
        case SecretUse(name=name):
            return name
        case _:
            return str(capability).partition(":")[2]


def draw(rows: Sequence[MapRow], *, every_plugin: bool) -> MapPicture:
    """Draw the rows; with `every_plugin` each plugin has a box of its own."""
    groups = _plugin_groups(rows, len(rows) if every_plugin else MAX_PLUGINS_DRAWN)
    caller_labels = _caller_labels(rows)
    target_labels = _target_labels(rows)
    callers = sorted(set(caller_labels.values()), key=lambda label: (label.startswith("and "), label))
    targets = {label: kind for (kind, _), label in target_labels.items()}
    dangerous = {target_labels[one.kind, one.text] for row in rows for one in row.targets if one.danger}
    order = [kind for kind, _ in KINDS]
    target_order = sorted(targets, key=lambda label: (order.index(targets[label]), label not in dangerous, label))
    tallest = max(len(callers), len(groups), len(target_order), 1)
    caller_boxes = {label: _box(label, 0, place, len(callers), tallest) for place, label in enumerate(callers)}
    target_boxes = {
        label: _box(label, 2, place, len(target_order), tallest, dangerous=label in dangerous)
        for place, label in enumerate(target_order)
    }
    nodes: list[MapNode] = []
    for place, group in enumerate(groups):
        single = group[0].plugin if len(group) == 1 else ""
        label = single or f"{len(group)} plugins"
        title = ", ".join(row.plugin for row in group[:20]) + ("…" if len(group) > 20 else "")
        risky = any(row.dangerous for row in group)
        box = _box(label, 1, place, len(groups), tallest, dangerous=risky, plugin=single, title=title)
        called_by = {caller_labels[name] for row in group for name, _ in row.callers}
        reached: dict[str, bool] = {}
        for target in (target for row in group for target in row.targets):
            to = target_labels[target.kind, target.text]
            reached[to] = reached.get(to, False) or bool(target.danger)
        lines = [_line(caller_boxes[name], box) for name in sorted(called_by)]
        lines += [_line(box, target_boxes[to], dangerous=danger) for to, danger in reached.items()]
        nodes.append(MapNode(box, tuple(lines)))
    height = _TOP_UNITS + tallest * _ROW_UNITS
    return MapPicture(tuple(caller_boxes.values()), tuple(nodes), tuple(target_boxes.values()), height)


def _plugin_groups(rows: Sequence[MapRow], most: int) -> list[list[MapRow]]:
    """Return the plugins of each box: one each, and the last ones by what kinds of things they reach."""
    if len(rows) <= most:
        return [[row] for row in rows]
    kept = most * 2 // 3
    rest: defaultdict[tuple[tuple[str, ...], bool], list[MapRow]] = defaultdict(list)
    for row in rows[kept:]:
        rest[tuple(sorted({target.kind for target in row.targets})), row.dangerous].append(row)
    return [
        *([row] for row in rows[:kept]),
        *sorted(rest.values(), key=lambda group: (not group[0].dangerous, -len(group))),
    ]


def _caller_labels(rows: Sequence[MapRow]) -> dict[str, str]:
    """Return the label of each caller; those with few calls share one."""
    totals: defaultdict[str, int] = defaultdict(int)
    for name, calls in (caller for row in rows for caller in row.callers):
        totals[name] += calls
    ordered = sorted(totals, key=lambda name: (-totals[name], name))
    if len(ordered) <= MAX_CALLERS_DRAWN:
        return {name: name for name in ordered}
    drawn, rest = ordered[: MAX_CALLERS_DRAWN - 1], ordered[MAX_CALLERS_DRAWN - 1 :]
    return {name: name for name in drawn} | dict.fromkeys(rest, f"and {len(rest)} more")


def _target_labels(rows: Sequence[MapRow]) -> dict[tuple[str, str], str]:
    """Return the label of each target; the harmless ones of a kind share one where there are many."""
    dangerous = {(one.kind, one.text) for row in rows for one in row.targets if one.danger}
    labels: dict[tuple[str, str], str] = {}
    for kind, _ in KINDS:
        texts = sorted({one.text for row in rows for one in row.targets if one.kind == kind})
        if kind == "Own tables":
            labels |= {(kind, text): "Own tables" for text in texts}
            continue
        for risky in (True, False):
            found = [text for text in texts if ((kind, text) in dangerous) is risky]
            noun = count_text(len(found), f"{'dangerous ' if risky else ''}{_COUNTED.get(kind, 'service')}")
            many = len(found) > _MAX_TARGETS_DRAWN
            labels |= {(kind, text): f"{kind}: {noun if many else text}" for text in found}
    return labels


def _box(
    label: str,
    column: int,
    place: int,
    of: int,
    tallest: int,
    *,
    dangerous: bool = False,
    plugin: str = "",
    title: str = "",
) -> MapBox:
    short = label if len(label) <= _MAX_LABEL_CHARS else label[: _MAX_LABEL_CHARS - 1] + "…"
    y = _TOP_UNITS + (tallest - of) * _ROW_UNITS // 2 + place * _ROW_UNITS
    return MapBox(short, title or label, _COLUMNS[column], y, dangerous, plugin)


def _line(begin: MapBox, end: MapBox, *, dangerous: bool = False) -> MapLine:
    left, right = begin.x + _BOX_UNITS, end.x
    bend = (left + right) // 2
    return MapLine(f"M{left} {begin.middle}C{bend} {begin.middle} {bend} {end.middle} {right} {end.middle}", dangerous)
