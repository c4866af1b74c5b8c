"""What a server lists now, compared with what people accepted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paddock.plugins.tool_pinning.normalize import MAX_DEFINITIONS, RESOURCE, DefinitionStatus, NormalizedDefinition

MAX_AUTO_ACCEPTED_CHARS = 16_384  # characters of a resource that is taken as listed


@dataclass(frozen=True, slots=True)
class PinnedDefinition:
    """What is on record of one definition."""

    kind: str
    name: str
    standing: DefinitionStatus
    hash: str | None = None  # of what was accepted; None: nothing was yet
    shape: str | None = None
    waiting_hash: str | None = None  # of what the server listed instead


@dataclass(frozen=True, slots=True)
class DefinitionDiff:
    """One definition after the comparison."""

    standing: DefinitionStatus
    listed: NormalizedDefinition | None  # None: it is gone
    pinned: PinnedDefinition | None  # None: nothing is on record
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
        """Whether this is not what was known before."""
        if self.pinned is None or self.replaces_accepted:
            return True
        waits = self.listed.hash if self.listed and self.standing is not DefinitionStatus.ACCEPTED else None
        return (self.standing, waits) != (self.pinned.standing, self.pinned.waiting_hash)

    @property
    def replaces_accepted(self) -> bool:
        """Whether what is accepted is not what was accepted before."""
        accepted = self.standing is DefinitionStatus.ACCEPTED and self.listed is not None and self.pinned is not None
        return accepted and self.listed.hash != self.pinned.hash  # pyright: ignore[reportOptionalMemberAccess]


@dataclass(frozen=True, slots=True)
class ListingDiff:
    """How a listing differs from what was accepted. `first`: the server was never met, so it is trusted as it is."""

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
    """Hold a listing against what is on record.

    The first listing of a plugin is trusted, be it empty: somebody just chose to install it. Only what hides text waits
    for a person even then. Later whatever changed or is new waits; what comes back as it was accepted is fine.
    Resources come and go as files do, and are read by people and programs that name them: a new one waits only where
    it hides text or there were very many. One that is known waits as all else when its words change.
    """
    on_record = {(pin.kind, pin.name): pin for pin in pinned}
    here = {(one.kind, one.name) for one in listed}
    gone = [pin for key, pin in on_record.items() if key not in here]
    room = MAX_DEFINITIONS - len(
        on_record
    )  # for resources that nobody is asked about: those that are gone are kept too
    unchanged: list[DefinitionDiff] = []
    changed: list[DefinitionDiff] = []
    new: list[DefinitionDiff] = []
    bad: list[DefinitionDiff] = []
    for one in listed:
        pin = on_record.get((one.kind, one.name))
        if one.bad is not None:
            bad.append(DefinitionDiff(DefinitionStatus.BAD, one, pin, one.bad.reason, one.bad.repair))
        elif pin is not None and pin.hash is not None:
            if pin.hash == one.hash:
                unchanged.append(DefinitionDiff(DefinitionStatus.ACCEPTED, one, pin))
            elif one.kind == RESOURCE and one.shape is not None and pin.shape == one.shape:
                changed.append(DefinitionDiff(DefinitionStatus.ACCEPTED, one, pin))
            else:
                changed.append(
                    DefinitionDiff(
                        DefinitionStatus.QUARANTINED, one, pin, _join_reasons("it changed since it was accepted", one)
                    )
                )
        elif one.hidden:
            new.append(
                DefinitionDiff(
                    DefinitionStatus.QUARANTINED, one, pin, one.hidden if first else _new_definition_reason(one, gone)
                )
            )
        elif first:
            new.append(DefinitionDiff(DefinitionStatus.ACCEPTED, one, pin))
        elif one.kind == RESOURCE and room > 0 and len(one.text) <= MAX_AUTO_ACCEPTED_CHARS:
            room -= 1
            new.append(DefinitionDiff(DefinitionStatus.ACCEPTED, one, pin))
        else:
            new.append(DefinitionDiff(DefinitionStatus.QUARANTINED, one, pin, _new_definition_reason(one, gone)))
    return ListingDiff(
        first,
        tuple(unchanged),
        tuple(changed),
        tuple(new),
        tuple(DefinitionDiff(DefinitionStatus.GONE, None, pin, "the server lists it no more") for pin in gone),
        tuple(bad),
    )


def _new_definition_reason(one: NormalizedDefinition, gone: Sequence[PinnedDefinition]) -> str:
    before = next((pin.name for pin in gone if one.shape and (pin.kind, pin.shape) == (one.kind, one.shape)), None)
    if before is not None:
        return _join_reasons(
            f"it is new, and takes what {before} took, which is gone: a new name for it, or a stand-in", one
        )
    return _join_reasons("it is new since the server was first met", one)


def _join_reasons(reason: str, one: NormalizedDefinition) -> str:
    return "; ".join(part for part in (reason, one.hidden) if part)
