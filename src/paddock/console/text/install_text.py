"""Installations in words: progress, consent screen, failures and what to do next. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from paddock.console.text.plugin_text import trust_text
from paddock.core.errors import Invalid, PaddockError
from paddock.core.printable import count_text
from paddock.host.plugins.install_job import InstallJob, InstallStage, InstallStopReason
from paddock.manifest.capability import Capability, describe_capability, is_dangerous
from paddock.manifest.consent_text import ConsentSection
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.rules.author_lint import without_author_lint
from paddock.manifest.rules.dangers import Danger
from paddock.plugins.install.consent_screen import SUSPICIOUS_TEXT_TITLE, ConsentScreen
from paddock.plugins.install.plan import InstallPlan, PlanAction
from paddock.plugins.package.rules import format_bytes
from paddock.plugins.trust.signature import SignatureState, TrustTier

CONSENT_INCOMPLETE: Final = "Tick each box if you agree to it. Nothing was changed yet."
_SUBMIT_LABELS: Final[Mapping[PlanAction, str]] = {
    PlanAction.INSTALL: "Install",
    PlanAction.UPGRADE: "Upgrade",
    PlanAction.SIGNATURE: "Keep the signature",
}
_DETAILED_SECTIONS: Final = ("Tools", "Files")  # of an upgrade: the page lists each with its difference
_FACT_LABELS: Final[Mapping[str, str]] = {
    "id": "Name",
    "author": "Author",
    "license": "License",
    "manifest": "Manifest",
    "source": "From",
    "signature": "Signature",
    "trust": "Publisher",
}
_FOLDED_FACTS: Final = ("license", "manifest")
_PUBLISHER_TEXTS: Final[Mapping[TrustTier, str]] = {
    "personal": "Unverified: anyone can have made it.",
    "community": "Signed by someone you have not verified.",
    "verified": "Verified: someone whose key you trust.",
}
_STEP_TEXTS: Final[Mapping[str, str]] = {
    "": "Getting ready",
    "copying": "Copying files",
    "unpacking": "Unpacking files",
}
_CANCEL_TEXTS: Final[Mapping[InstallStopReason, str]] = {
    InstallStopReason.CANCELLED: "You cancelled it. Nothing was changed.",
    InstallStopReason.EXPIRED: "No decision was made in time. Nothing was changed.",
    InstallStopReason.CLOSING: "The host stopped before a decision was made. Nothing was changed.",
}
# Hints of errors are for the command line; pages need others.
_NEXT_STEPS: Final[Mapping[str, str]] = {
    "plugin.changed_meanwhile": "Fetch it again to see what it would change now.",
    "plugin.package_changed": "Fetch it again to see what it is now.",
    "plugin.signature_changed": "Fetch it again to see its source and signature now.",
    "plugin.trust_changed": "Fetch it again to see its source and signature now.",
    "trust_lost": "Fetch it again to see its source and signature now.",
    "plugin.downgrade": "Roll back to a version you already have, or fetch it again with “Allow an older version”.",
    "plugin.pinned": "Unpin it on its versions page first.",
    "plugin.other_name": "Install it as a plugin of its own instead.",
    "plugin.version_exists": "Its author has to give it a new version number.",
    "source.uploaded": "It was uploaded. Upload the new version, or name another source.",
    "source.configuration": "It was imported from another program’s settings. Import it again there.",
    "signature.mismatch": "Get the package again from its author. Don’t use this copy.",
}


class ConsentLineView(Struct, frozen=True):
    """One sentence of a consent screen."""

    text: str
    alarming: bool
    dangerous: bool


class ConsentSectionView(Struct, frozen=True):
    """A heading of a consent screen with its sentences."""

    title: str
    lines: tuple[ConsentLineView, ...]
    odd: bool  # whether the whole section is a warning


class CapabilityConsent(Struct, frozen=True):
    """A capability that needs explicit consent."""

    text: str
    means: str
    dangerous: bool


class PackageFact(NamedTuple):
    """One fact about a package."""

    label: str
    words: str
    alarming: bool
    folded: bool  # whether it is a detail that decides nothing


def consent_sections(
    screen: ConsentScreen, capabilities: Collection[Capability] = (), ticked: Collection[Capability] = ()
) -> list[ConsentSectionView]:
    """Return the sections of a consent screen. Lines about dangerous `capabilities` are marked.

    A capability that has a box of its own, at a danger of the screen or for one of `ticked`, is not listed again.
    """
    dangers = {str(danger.capability) for danger in screen.dangers}
    dangerous = {str(capability) for capability in capabilities if is_dangerous(capability)}
    boxes = dangers | {str(capability) for capability in ticked}
    views = [_consent_section(section, dangerous, dangers, boxes) for section in screen.sections]
    return [view for view in views if view.lines]


def _consent_section(
    section: ConsentSection, dangerous: Collection[str], dangers: Collection[str], boxes: Collection[str]
) -> ConsentSectionView:
    lines = [_consent_line(section, line, dangerous) for line in section.lines if _capability_in(line) not in boxes]
    above = sum(_capability_in(line) in dangers for line in section.lines)
    if above:
        text = f"the {count_text(above, 'permission')} above" if above > 1 else "the permission above"
        lines.insert(0, ConsentLineView(text, alarming=True, dangerous=True))
    return ConsentSectionView(
        section.title, tuple(lines), bool(lines) and lines[0].alarming and section.title == SUSPICIOUS_TEXT_TITLE
    )


def _consent_line(section: ConsentSection, line: str, dangerous: Collection[str]) -> ConsentLineView:
    if _capability_in(line) not in dangerous:
        return ConsentLineView(line, line in section.alarming, dangerous=False)
    return ConsentLineView(line.removesuffix(" (dangerous)"), alarming=True, dangerous=True)


def _capability_in(line: str) -> str:
    """Return the capability that a line is about, if it is about one."""
    return line.removeprefix("+ ").partition(" — ")[0]


def capability_consents(capabilities: Collection[Capability]) -> list[CapabilityConsent]:
    """Return a checkbox for each capability."""
    return [
        CapabilityConsent(
            str(capability), describe_capability(capability).removesuffix(" (dangerous)"), is_dangerous(capability)
        )
        for capability in capabilities
    ]


def install_values(job: InstallJob) -> dict[str, Any]:
    """Return the template values of an install job."""
    values: dict[str, Any] = {
        "one": job,
        "stage": job.stage.value,
        "over": job.finished,
        "follows": job.stage in (InstallStage.FETCHING, InstallStage.CHANGING),
        "step": _step_text(job),
        "problem": _problem_values(job.error) if job.error else None,
        "gave_up": _CANCEL_TEXTS[job.stop_reason] if job.stop_reason else "",
        "consent": _consent_values(job.proposal) if job.proposal else None,
    }
    return values


def _step_text(job: InstallJob) -> str:
    progress = job.progress
    if job.stage is InstallStage.CHANGING and not progress.step:
        return "Installing"
    step = _STEP_TEXTS.get(progress.step, progress.step[:1].upper() + progress.step[1:])
    count = f": {progress.files:,} files" if progress.files else ""
    return step + count + (f", {format_bytes(progress.size)}" if progress.size else "")


def _problem_values(error: PaddockError) -> dict[str, Any]:
    return {
        "message": error.message,
        "hint": _NEXT_STEPS.get(error.error_code, error.hint),
        "action": error.action.to_json() if error.action and error.error_code not in _NEXT_STEPS else None,
        "code": error.error_code,
        "problems": error.problems if isinstance(error, Invalid) else (),
    }


def _submit_label(action: PlanAction, dangers: Collection[Danger]) -> str:
    label = _SUBMIT_LABELS.get(action, "Go on")
    if not dangers:
        return label
    return f"{label} with {count_text(len(dangers), 'dangerous permission')}"


def _package_facts(proposal: InstallPlan, facts: Mapping[str, str]) -> list[PackageFact]:
    verdict = proposal.package.signature
    signature_text = trust_text(f"{verdict.state.value}: {verdict.reason}")
    if verdict.state is not SignatureState.UNSIGNED:
        signature_text = f"{signature_text} {verdict.reason[:1].upper()}{verdict.reason[1:]}."
    claim = proposal.package.manifest.trust_claim
    claims_more = bool(claim) and claim != proposal.package.tier
    publisher = _PUBLISHER_TEXTS[proposal.package.tier] + (f" It claims to be {claim}." if claims_more else "")
    all_facts = {**facts, "signature": signature_text, "trust": publisher} if facts else {}
    return [
        PackageFact(_FACT_LABELS[key], text, key == "trust" and claims_more, key in _FOLDED_FACTS)
        for key, text in all_facts.items()
        if key in _FACT_LABELS
    ]


def _consent_values(proposal: InstallPlan) -> dict[str, Any]:
    package, screen = proposal.package, proposal.screen
    facts = dict(screen.facts) if screen else {}
    upgrade = proposal.action is PlanAction.UPGRADE
    dangers = proposal.terms.dangers
    dangerous = {danger.capability for danger in dangers}
    # A dangerous one is agreed to by the tick at its danger, and all others of an install by its button.
    ticked = [one for one in proposal.separate_capabilities if one not in dangerous]
    return {
        "change": proposal.action.value,
        "upgrade": upgrade,
        "name": package.manifest.name,
        "heading": screen.heading if screen else f"{package.manifest.display_name} {package.manifest.version}",
        "description": facts.get("description", ""),
        "facts": _package_facts(proposal, facts),
        "reason": package.signature.reason,
        "parts": [
            part
            for part in (consent_sections(screen, requested_capabilities(package.manifest), ticked) if screen else ())
            if not (upgrade and part.title in _DETAILED_SECTIONS)
        ],
        "warnings": without_author_lint(proposal.warnings),
        "terms": proposal.terms,
        "dangers": [danger.to_value() for danger in dangers],
        "submit": _submit_label(proposal.action, dangers),
        "difference": proposal.difference,
        "granted_as_whole": [str(one) for one in proposal.terms.capabilities if one not in ticked] if screen else [],
        "capabilities": capability_consents(ticked),
        "trust_lost": proposal.terms.trust_lost if upgrade else "",
    }
