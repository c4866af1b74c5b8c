"""What a server lists now, compared with what people accepted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paddock.plugins.definitions.examining import MOST, RESOURCE, Examined
from paddock.plugins.definitions.standing import Standing

LARGEST_UNASKED = 16_384  # characters of a resource that is taken as listed


@dataclass(frozen=True, slots=True)
class Pinned:
    """What is on record of one definition."""

    kind: str
    name: str
    standing: Standing
    hash: str | None = None  # of what was accepted; None: nothing was yet
    shape: str | None = None
    waiting_hash: str | None = None  # of what the server listed instead


@dataclass(frozen=True, slots=True)
class Finding:
    """One definition after the comparison."""

    standing: Standing
    listed: Examined | None  # None: it is gone
    pinned: Pinned | None  # None: nothing is on record
    reason: str = ""
    repair: str = ""

    @property
    def kind(self) -> str:
        return (self.listed or self.pinned).kind  # pyright: ignore[reportOptionalMemberAccess] - one of them is there

    @property
    def name(self) -> str:
        return (self.listed or self.pinned).name  # pyright: ignore[reportOptionalMemberAccess]

    @property
    def news(self) -> bool:
        """Whether this is not what was known before."""
        if self.pinned is None or self.taken_anew:
            return True
        waits = self.listed.hash if self.listed and self.standing is not Standing.ACCEPTED else None
        return (self.standing, waits) != (self.pinned.standing, self.pinned.waiting_hash)

    @property
    def taken_anew(self) -> bool:
        """Whether what is accepted is not what was accepted before."""
        accepted = self.standing is Standing.ACCEPTED and self.listed is not None and self.pinned is not None
        return accepted and self.listed.hash != self.pinned.hash  # pyright: ignore[reportOptionalMemberAccess]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a listing differs from what was accepted. `first`: the server was never met, so it is trusted as it is."""

    first: bool
    unchanged: tuple[Finding, ...]
    changed: tuple[Finding, ...]
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    bad: tuple[Finding, ...]

    def all(self) -> tuple[Finding, ...]:
        return (*self.unchanged, *self.changed, *self.new, *self.gone, *self.bad)


def compare(pinned: Iterable[Pinned], listed: Sequence[Examined], *, first: bool) -> Comparison:
    """Hold a listing against what is on record.

    The first listing of a plugin is trusted, be it empty: somebody just chose to install it. Only what hides text waits
    for a person even then. Later whatever changed or is new waits; what comes back as it was accepted is fine.
    Resources come and go as files do, and are read by people and programs that name them: a new one waits only where
    it hides text or there were very many. One that is known waits as all else when its words change.
    """
    on_record = {(pin.kind, pin.name): pin for pin in pinned}
    here = {(one.kind, one.name) for one in listed}
    gone = [pin for key, pin in on_record.items() if key not in here]
    room = MOST - len(on_record)  # for resources that nobody is asked about: those that are gone are kept too
    unchanged: list[Finding] = []
    changed: list[Finding] = []
    new: list[Finding] = []
    bad: list[Finding] = []
    for one in listed:
        pin = on_record.get((one.kind, one.name))
        if one.bad is not None:
            bad.append(Finding(Standing.BAD, one, pin, one.bad.reason, one.bad.repair))
        elif pin is not None and pin.hash is not None:
            if pin.hash == one.hash:
                unchanged.append(Finding(Standing.ACCEPTED, one, pin))
            elif one.kind == RESOURCE and one.shape is not None and pin.shape == one.shape:
                changed.append(Finding(Standing.ACCEPTED, one, pin))
            else:
                changed.append(Finding(Standing.QUARANTINED, one, pin, _why("it changed since it was accepted", one)))
        elif one.hidden:
            new.append(Finding(Standing.QUARANTINED, one, pin, one.hidden if first else _why_new(one, gone)))
        elif first:
            new.append(Finding(Standing.ACCEPTED, one, pin))
        elif one.kind == RESOURCE and room > 0 and len(one.text) <= LARGEST_UNASKED:
            room -= 1
            new.append(Finding(Standing.ACCEPTED, one, pin))
        else:
            new.append(Finding(Standing.QUARANTINED, one, pin, _why_new(one, gone)))
    return Comparison(
        first,
        tuple(unchanged),
        tuple(changed),
        tuple(new),
        tuple(Finding(Standing.GONE, None, pin, "the server lists it no more") for pin in gone),
        tuple(bad),
    )


def _why_new(one: Examined, gone: Sequence[Pinned]) -> str:
    before = next((pin.name for pin in gone if one.shape and (pin.kind, pin.shape) == (one.kind, one.shape)), None)
    if before is not None:
        return _why(f"it is new, and takes what {before} took, which is gone: a new name for it, or a stand-in", one)
    return _why("it is new since the server was first met", one)


def _why(reason: str, one: Examined) -> str:
    return "; ".join(part for part in (reason, one.hidden) if part)
