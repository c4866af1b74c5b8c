"""Compares the definitions that a server lists with the pinned ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from paddock.plugins.tool_pinning.normalize import MAX_DEFINITIONS, RESOURCE, DefinitionStatus, NormalizedDefinition

MAX_AUTO_ACCEPTED_CHARS = 16_384  # size of a new resource that is accepted as listed


class PinnedDefinition(Struct, frozen=True):
    """The pinned state of one definition."""

    kind: str
    name: str
    standing: DefinitionStatus
    hash: str | None = None  # of the accepted definition; None if none was accepted yet
    shape: str | None = None
    waiting_hash: str | None = None  # of the quarantined definition that the server lists instead


class DefinitionDiff(Struct, frozen=True):
    """The result of comparing one definition."""

    standing: DefinitionStatus
    listed: NormalizedDefinition | None  # None if it is gone
    pinned: PinnedDefinition | None  # None if it is not pinned
    reason: str = ""
    repair: str = ""

    @property
    def kind(self) -> str:
        return (self.listed or self.pinned).kind  # pyright: ignore[reportOptionalMemberAccess] - one of them is there

    @property
    def name(self) -> str:
        return (self.listed or self.pinned).name  # pyright: ignore[reportOptionalMemberAccess]

    @property
    def is_change(self) -> bool:
        """Whether this differs from the recorded state."""
        if self.pinned is None or self.replaces_accepted:
            return True
        waiting_hash = self.listed.hash if self.listed and self.standing is not DefinitionStatus.ACCEPTED else None
        return (self.standing, waiting_hash) != (self.pinned.standing, self.pinned.waiting_hash)

    @property
    def replaces_accepted(self) -> bool:
        """Whether the accepted definition differs from the one accepted before."""
        accepted = self.standing is DefinitionStatus.ACCEPTED and self.listed is not None and self.pinned is not None
        return accepted and self.listed.hash != self.pinned.hash  # pyright: ignore[reportOptionalMemberAccess]


class ListingDiff(Struct, frozen=True):
    """How a listing differs from the pinned definitions. `first` says that the server was never listed, so it is
    trusted as it is."""

    first: bool
    unchanged: tuple[DefinitionDiff, ...]
    changed: tuple[DefinitionDiff, ...]
    new: tuple[DefinitionDiff, ...]
    gone: tuple[DefinitionDiff, ...]
    bad: tuple[DefinitionDiff, ...]

    def all_diffs(self) -> tuple[DefinitionDiff, ...]:
        return (*self.unchanged, *self.changed, *self.new, *self.gone, *self.bad)


def diff_listing(
    pinned: Iterable[PinnedDefinition], listed: Sequence[NormalizedDefinition], *, first: bool
) -> ListingDiff:
    """Compare a listing with the pinned definitions.

    The first listing of a plugin is trusted, even if empty: a person just chose to install it. Only definitions with
    hidden text are quarantined even then. Later, whatever changed or is new is quarantined; what returns as it was
    accepted is fine. Resources come and go as files do, and are read by people and programs that name them: a new one
    is quarantined only if it hides text or there are very many. A known one is quarantined like all else if its text
    changes.
    """
    pins_by_key = {(pin.kind, pin.name): pin for pin in pinned}
    listed_keys = {(definition.kind, definition.name) for definition in listed}
    gone = [pin for key, pin in pins_by_key.items() if key not in listed_keys]
    # How many new resources may be accepted as listed; those that are gone count too.
    auto_accept_left = MAX_DEFINITIONS - len(pins_by_key)
    unchanged: list[DefinitionDiff] = []
    changed: list[DefinitionDiff] = []
    new: list[DefinitionDiff] = []
    bad: list[DefinitionDiff] = []
    for definition in listed:
        pin = pins_by_key.get((definition.kind, definition.name))
        if definition.bad is not None:
            bad.append(
                DefinitionDiff(DefinitionStatus.BAD, definition, pin, definition.bad.reason, definition.bad.repair)
            )
        elif pin is not None and pin.hash is not None:
            if pin.hash == definition.hash:
                unchanged.append(DefinitionDiff(DefinitionStatus.ACCEPTED, definition, pin))
            elif definition.kind == RESOURCE and definition.shape is not None and pin.shape == definition.shape:
                changed.append(DefinitionDiff(DefinitionStatus.ACCEPTED, definition, pin))
            else:
                changed.append(
                    DefinitionDiff(
                        DefinitionStatus.QUARANTINED,
                        definition,
                        pin,
                        _join_reasons("it changed since it was accepted", definition),
                    )
                )
        elif definition.hidden:
            new.append(
                DefinitionDiff(
                    DefinitionStatus.QUARANTINED,
                    definition,
                    pin,
                    definition.hidden if first else _new_definition_reason(definition, gone),
                )
            )
        elif first:
            new.append(DefinitionDiff(DefinitionStatus.ACCEPTED, definition, pin))
        elif definition.kind == RESOURCE and auto_accept_left > 0 and len(definition.text) <= MAX_AUTO_ACCEPTED_CHARS:
            auto_accept_left -= 1
            new.append(DefinitionDiff(DefinitionStatus.ACCEPTED, definition, pin))
        else:
            new.append(
                DefinitionDiff(DefinitionStatus.QUARANTINED, definition, pin, _new_definition_reason(definition, gone))
            )
    return ListingDiff(
        first,
        tuple(unchanged),
        tuple(changed),
        tuple(new),
        tuple(DefinitionDiff(DefinitionStatus.GONE, None, pin, "the server lists it no more") for pin in gone),
        tuple(bad),
    )


def _new_definition_reason(definition: NormalizedDefinition, gone: Sequence[PinnedDefinition]) -> str:
    old_name = next(
        (pin.name for pin in gone if definition.shape and (pin.kind, pin.shape) == (definition.kind, definition.shape)),
        None,
    )
    if old_name is not None:
        return _join_reasons(
            f"it is new, and takes what {old_name} took, which is gone: a new name for it, or a stand-in", definition
        )
    return _join_reasons("it is new since the server was first met", definition)


def _join_reasons(reason: str, definition: NormalizedDefinition) -> str:
    return "; ".join(part for part in (reason, definition.hidden) if part)
