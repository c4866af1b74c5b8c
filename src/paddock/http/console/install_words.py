"""An installation in words for people: how far it is, what it asks, why it failed and what to do then. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from paddock.core.errors import Invalid, PaddockError
from paddock.host.installation import GaveUp, Installation, Stage
from paddock.http.console.plugin_words import trust_of
from paddock.manifest.asked import asked_of
from paddock.manifest.behaviour import Section
from paddock.manifest.capability import Capability, dangerous, describe
from paddock.plugins.consent import Screen
from paddock.plugins.names import show_bytes
from paddock.plugins.proposal import Change, Proposal
from paddock.plugins.signature import SignatureState

NOT_ALL: Final = "Tick each box below if you agree to it. Nothing was changed yet."
_FACTS: Final[Mapping[str, str]] = {
    "id": "Name",
    "author": "Author",
    "license": "License",
    "manifest": "Manifest",
    "source": "From",
    "signature": "Signature",
    "trust": "Trust",
}
_STEPS: Final[Mapping[str, str]] = {"": "Getting ready", "copying": "Copying files", "unpacking": "Unpacking files"}
_GAVE_UP: Final[Mapping[GaveUp, str]] = {
    GaveUp.CANCELLED: "You cancelled it. Nothing was changed.",
    GaveUp.EXPIRED: "Nobody decided in time, so it was cleared away. Nothing was changed.",
    GaveUp.CLOSING: "The host closed before anybody decided. Nothing was changed.",
}
# What errors say to do next is for the command line; on a page other things help.
_NEXT: Final[Mapping[str, str]] = {
    "plugin.changed_meanwhile": "Fetch it again to see what it would change now.",
    "plugin.downgrade": "Roll back to a version you already have, or fetch it again with “Allow an older version”.",
    "plugin.pinned": "Unpin it on its versions page first.",
    "plugin.other_name": "Install it as a plugin of its own instead.",
    "plugin.version_exists": "Its author has to give it a new version number.",
    "source.uploaded": "It was uploaded. Upload the new version, or name another source.",
    "source.configuration": "It was imported from another program’s settings. Import it again there.",
    "signature.mismatch": "Get the package again from its author. Don’t use this copy.",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of a consent screen."""

    text: str
    alarming: bool
    dangerous: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One heading of it with its sentences."""

    title: str
    lines: tuple[Line, ...]
    odd: bool  # whether all of it is there to warn


@dataclass(frozen=True, slots=True)
class Asked:
    """A capability that needs a yes of its own."""

    text: str
    means: str
    dangerous: bool


class Fact(NamedTuple):
    """One thing about a package."""

    label: str
    words: str
    alarming: bool


def parts_of(screen: Screen, capabilities: Collection[Capability] = ()) -> list[Part]:
    """The sections of a consent screen. Lines about dangerous ones among `capabilities` are marked as such."""
    feared = {str(one) for one in capabilities if dangerous(one)}
    return [_part(section, feared) for section in screen.sections]


def _part(section: Section, feared: Collection[str]) -> Part:
    lines = tuple(
        Line(line, line in section.alarming, line in section.alarming and _names_one(line, feared))
        for line in section.lines
    )
    return Part(section.title, lines, bool(lines) and lines[0].alarming and section.title.startswith("What is odd"))


def _names_one(line: str, feared: Collection[str]) -> bool:
    return line.removeprefix("+ ").partition(" — ")[0] in feared


def asked_by(capabilities: Collection[Capability]) -> list[Asked]:
    """Capabilities, each for a checkbox."""
    return [Asked(str(one), describe(one).removesuffix(" (dangerous)"), dangerous(one)) for one in capabilities]


def told_of(one: Installation) -> dict[str, Any]:
    """What its page shows."""
    values: dict[str, Any] = {
        "one": one,
        "stage": one.stage.value,
        "over": one.over,
        "follows": one.stage in (Stage.FETCHING, Stage.CHANGING),
        "step": _step(one),
        "problem": _problem(one.error) if one.error else None,
        "gave_up": _GAVE_UP[one.gave_up] if one.gave_up else "",
        "consent": _consent(one.proposal) if one.proposal else None,
    }
    return values


def _step(one: Installation) -> str:
    progress = one.progress
    if one.stage is Stage.CHANGING and not progress.step:
        return "Installing"
    words = _STEPS.get(progress.step, progress.step[:1].upper() + progress.step[1:])
    count = f": {progress.files:,} files" if progress.files else ""
    return words + count + (f", {show_bytes(progress.size)}" if progress.size else "")


def _problem(error: PaddockError) -> dict[str, Any]:
    return {
        "message": error.message,
        "hint": _NEXT.get(error.error_code, error.hint),
        "code": error.error_code,
        "problems": error.problems if isinstance(error, Invalid) else (),
    }


def _facts(proposal: Proposal, facts: Mapping[str, str]) -> list[Fact]:
    verdict = proposal.prepared.verdict
    signed = trust_of(f"{verdict.state.value}: {verdict.reason}")
    if verdict.state is not SignatureState.UNSIGNED:
        signed = f"{signed} {verdict.reason[:1].upper()}{verdict.reason[1:]}."
    claim = proposal.prepared.manifest.trust_claim
    claims_more = bool(claim) and claim != proposal.prepared.tier
    told = {**facts, "signature": signed} if facts else {}
    return [Fact(_FACTS[one], words, one == "trust" and claims_more) for one, words in told.items() if one in _FACTS]


def _consent(proposal: Proposal) -> dict[str, Any]:
    prepared, screen = proposal.prepared, proposal.screen
    facts = dict(screen.facts) if screen else {}
    return {
        "change": proposal.change.value,
        "upgrade": proposal.change is Change.UPGRADE,
        "name": prepared.manifest.name,
        "heading": screen.heading if screen else f"{prepared.manifest.display_name} {prepared.manifest.version}",
        "description": facts.get("description", ""),
        "facts": _facts(proposal, facts),
        "reason": prepared.verdict.reason,
        "parts": parts_of(screen, asked_of(prepared.manifest)) if screen else [],
        "warnings": proposal.warnings,
        "capabilities": asked_by(proposal.capabilities),
        "trust_lost": proposal.trust_lost,
    }
