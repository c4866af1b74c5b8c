"""What a plugin may reach, as rows of a table and as the shapes of a small picture. Pure.

The picture shows who calls the plugin at its left and what it reaches at its right; the table says the same in words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from paddock.manifest.capability import (
    Capability,
    Execute,
    FileAccess,
    HostService,
    NetworkAccess,
    NoNetwork,
    StorageAccess,
    describe_capability,
)
from paddock.manifest.rules.dangers import DangerJson
from paddock.manifest.secret_use import SecretUse

_ROW_UNITS: Final = 30
_TOP_UNITS: Final = 12
PICTURE_WIDTH_UNITS: Final = 720
_MAX_CALLERS: Final = 4
_MAX_LABEL_CHARS: Final = 24  # of a caller, in the width of its box
_KINDS: Final[tuple[tuple[str, tuple[type, ...]], ...]] = (
    ("Own tables", (StorageAccess,)),
    ("Network", (NetworkAccess,)),
    ("Files", (FileAccess,)),
    ("Programs", (Execute,)),
    ("Secrets", (SecretUse,)),
    ("Host services", (HostService,)),
)


class ReachedThing(Struct, frozen=True):
    """One capability.

    Attributes:
        text: The capability.
        means: What it lets the plugin do.
        granted: Whether this tenant granted it.
        danger: Why it is dangerous; empty if it is not.
    """

    text: str
    means: str
    granted: bool
    danger: str


class ReachKind(Struct, frozen=True):
    """One kind of thing that a plugin can reach; `things` is empty if it requests none. `y` is its place."""

    label: str
    things: tuple[ReachedThing, ...]
    y: int

    @property
    def granted(self) -> bool:
        """Whether anything of this kind is granted."""
        return any(thing.granted for thing in self.things)

    @property
    def dangerous(self) -> bool:
        """Whether anything of this kind is dangerous."""
        return any(thing.danger for thing in self.things)

    @property
    def summary(self) -> str:
        """What is reached, short enough for the picture."""
        if not self.things:
            return "none"
        first = self.things[0].text.partition(":")[2] or self.things[0].text
        short = first if len(first) <= _MAX_LABEL_CHARS else first[: _MAX_LABEL_CHARS - 1] + "…"
        return short if len(self.things) == 1 else f"{len(self.things)}: {short}, …"


class ReachCaller(Struct, frozen=True):
    """A principal that called the plugin, with its place in the picture."""

    name: str
    y: int


class Reach(Struct, frozen=True):
    """The callers of a plugin and what it reaches."""

    callers: tuple[ReachCaller, ...]
    kinds: tuple[ReachKind, ...]
    words: str  # text alternative of the picture
    height: int
    width: int = PICTURE_WIDTH_UNITS

    @property
    def middle(self) -> float:
        """Half of the height, where the plugin stands."""
        return self.height / 2


def build_reach(
    plugin: str,
    requested: Sequence[Capability],
    missing: Collection[str],
    dangers: Sequence[DangerJson],
    callers: Sequence[str],
) -> Reach:
    """Build what a plugin may reach.

    Args:
        plugin: Its name.
        requested: The capabilities that it requests.
        missing: Those that this tenant has not granted.
        dangers: The dangerous ones of them.
        callers: The names of those that called it in the last day, most calls first.
    """
    reasons: Mapping[str, str] = {danger["capability"]: danger["reason"] for danger in dangers}
    kinds: list[ReachKind] = []
    for label, types in _KINDS:
        things = tuple(
            ReachedThing(
                str(one),
                describe_capability(one).removesuffix(" (dangerous)"),
                str(one) not in missing,
                reasons.get(str(one), ""),
            )
            for one in requested
            if isinstance(one, types) and not isinstance(one, NoNetwork)
        )
        if things or label in ("Own tables", "Network", "Files", "Programs"):
            kinds.append(ReachKind(label, things, _TOP_UNITS + len(kinds) * _ROW_UNITS + _ROW_UNITS // 2))
    height = 2 * _TOP_UNITS + len(kinds) * _ROW_UNITS
    return Reach(_place_callers(callers, height), tuple(kinds), _words(plugin, kinds, callers), height)


def _place_callers(callers: Sequence[str], height: int) -> tuple[ReachCaller, ...]:
    names = [*callers[:_MAX_CALLERS]] or ["no calls in 24 hours"]
    if len(callers) > _MAX_CALLERS:
        names.append(f"and {len(callers) - _MAX_CALLERS} more")
    top = (height - len(names) * _ROW_UNITS) // 2 + _ROW_UNITS // 2
    short = [name if len(name) <= _MAX_LABEL_CHARS else name[: _MAX_LABEL_CHARS - 1] + "…" for name in names]
    return tuple(ReachCaller(name, top + index * _ROW_UNITS) for index, name in enumerate(short))


def _words(plugin: str, kinds: Sequence[ReachKind], callers: Sequence[str]) -> str:
    reached = ", ".join(kind.label.lower() for kind in kinds if kind.granted) or "nothing"
    called = f"{len(callers)} {'caller' if len(callers) == 1 else 'callers'} in the last day"
    return f"{called} → {plugin} → {reached}."
