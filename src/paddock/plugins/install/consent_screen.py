"""The consent screen: what a person is shown before a plugin is installed or changed. Values only; the CLI and the
console each render it in their own way."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Annotated, TypedDict

from msgspec import Struct

from paddock.core.printable import printable
from paddock.manifest.capability import describe_capability
from paddock.manifest.consent_text import ConsentSection, consent_sections
from paddock.manifest.diff import UpgradeDiff
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.registry_package import canonical_python_name
from paddock.manifest.rules.dangers import Danger, DangerJson, find_dangers
from paddock.plugins.environments.lock import describe_lock_changes
from paddock.plugins.install.resolve import ResolvedPackage
from paddock.plugins.install.upgrade_difference import ToolChange
from paddock.plugins.package.tree import TreeDiff
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import VersionRow
from paddock.plugins.tool_pinning.scan.findings import ScanFinding, sample_by_flag
from paddock.plugins.trust.signature import SignatureState

SUSPICIOUS_TEXT_TITLE = "Suspicious wording"
_MAX_CHANGES_SHOWN = 40
_MAX_FINDINGS_SHOWN = 20


class ScreenSectionJson(TypedDict):
    """One heading of a consent screen, and the sentences below it."""

    title: str
    lines: list[str]
    alarming: Annotated[list[str], "The lines to highlight as risky."]


class ConsentScreenJson(TypedDict):
    """What a person has to be shown before they consent."""

    heading: str
    dangers: Annotated[list[DangerJson], "The dangerous permissions, which are asked for one by one. Show them first."]
    facts: dict[str, str]
    sections: list[ScreenSectionJson]
    question: str


class ConsentScreen(Struct, frozen=True):
    """A consent screen: facts about the plugin, what it will do, and the question; `dangers` are shown first."""

    heading: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[ConsentSection, ...]
    question: str
    dangers: tuple[Danger, ...] = ()

    def to_value(self) -> ConsentScreenJson:
        return {
            "heading": self.heading,
            "dangers": [danger.to_value() for danger in self.dangers],
            "facts": dict(self.facts),
            "sections": [
                {"title": one.title, "lines": list(one.lines), "alarming": list(one.alarming)} for one in self.sections
            ],
            "question": self.question,
        }


def install_screen(package: ResolvedPackage, dangers: tuple[Danger, ...]) -> ConsentScreen:
    """Build the screen for a plugin that is new on this host: everything about it."""
    manifest = package.manifest
    heading = f"{manifest.display_name} {manifest.version}"
    packages = ConsentSection("What is installed for it", tuple(_package_lines(package)))
    sections = [
        *suspicious_text_sections(package.scan_findings),
        *consent_sections(manifest),
        *(package.trial.sections() if package.trial else []),
        *([packages] if packages.lines else []),
    ]
    return ConsentScreen(heading, _facts(package), tuple(sections), f"Install {heading}?", dangers)


def grant_screen(row: VersionRow, tenant: str, findings: Sequence[ScanFinding] = (), *, trusted: bool) -> ConsentScreen:
    """Build the screen for an installed plugin that is new to a tenant: everything about it.

    Args:
        row: The version.
        tenant: The tenant.
        findings: Suspicious texts.
        trusted: Whether a key that is trusted here signed it.
    """
    manifest = manifest_of(row)
    heading = f"{manifest.display_name} {manifest.version}"
    facts = (
        ("id", manifest.name),
        ("description", manifest.description),
        ("author", manifest.author),
        ("source", row.source.describe()),
        ("tenant", tenant),
    )
    shown_facts = tuple((label, value) for label, value in facts if value)
    sections = (*suspicious_text_sections(findings), *consent_sections(manifest))
    dangers = find_dangers(manifest, requested_capabilities(manifest), trusted=trusted)
    return ConsentScreen(heading, shown_facts, sections, f"Enable {heading} for {tenant}?", dangers)


def suspicious_text_sections(findings: Sequence[ScanFinding]) -> list[ConsentSection]:
    """Return the section with suspicious texts of the plugin, quoted; empty if there are none."""
    if not findings:
        return []
    lines = [str(finding) for finding in sample_by_flag(findings, _MAX_FINDINGS_SHOWN, lambda finding: finding.flag)]
    lines += [f"and {len(findings) - _MAX_FINDINGS_SHOWN} more"] if len(findings) > _MAX_FINDINGS_SHOWN else []
    explanation = "Models act on these texts. A finding is a hint, not a verdict: read the text before you agree"
    return [ConsentSection(SUSPICIOUS_TEXT_TITLE, (*lines, explanation), tuple(lines))]


def upgrade_screen(
    package: ResolvedPackage, upgrade: UpgradeDiff, dangers: tuple[Danger, ...], tools: Sequence[ToolChange]
) -> ConsentScreen:
    """Build the screen for an upgrade: only what differs from the version that was consented to."""
    name = package.manifest.display_name
    version_change = f"{upgrade.old_version} → {upgrade.new_version}"
    signer_lines = tuple(_signer_lines(package))
    trust = ConsentSection("Source and signature", signer_lines, signer_lines)
    alarming = {f"new: {line}" for section in consent_sections(package.manifest) for line in section.alarming}
    files = ConsentSection("Files", tuple(_file_lines(package.file_changes))) if package.file_changes else None
    packages = ConsentSection("Packages it runs with", tuple(_package_changes(package)))
    sections = [
        trust,
        *suspicious_text_sections(package.scan_findings),
        *difference_sections(upgrade, alarming),
        ConsentSection("Tools", tuple(_tool_lines(tools))),
        *(package.trial.sections() if package.trial else []),
        packages,
        files,
    ]
    return ConsentScreen(
        f"{name} {version_change}",
        _facts(package),
        tuple(section for section in sections if section is not None and section.lines),
        f"Upgrade {name} {version_change}?",
        dangers,
    )


def rollback_screen(current: VersionRow, target: VersionRow, difference: UpgradeDiff) -> ConsentScreen:
    """Build the screen for a rollback: what differs in the earlier version."""
    question = f"Go back from {current.version} to {target.version}?"
    heading = f"{current.plugin} {current.version} → {target.version}"
    return ConsentScreen(heading, (), tuple(difference_sections(difference)), question)


def difference_sections(upgrade: UpgradeDiff, alarming: Container[str] = ()) -> list[ConsentSection]:
    """Return the difference between two versions as sections; lines in `alarming` are marked as such."""
    added = tuple(f"+ {one} — {describe_capability(one)} (NEW)" for one in upgrade.added)
    removed = tuple(f"- {one} — {describe_capability(one)} (REMOVED)" for one in upgrade.removed)
    breaking = tuple(f"{one.path}: {one.message}" for one in upgrade.compatibility)
    sections = [
        ConsentSection("Capability changes", (*added, *removed) or ("none",), added),
        ConsentSection("Other changes", upgrade.changes, tuple(line for line in upgrade.changes if line in alarming)),
        ConsentSection("Incompatible changes", breaking, breaking),
    ]
    return [section for section in sections if section.lines]


def _signer_lines(package: ResolvedPackage) -> Iterator[str]:
    if package.trust_lost:
        yield package.trust_lost
    if package.installed is None:
        return
    old_source = package.installed.source.source
    new_source = package.staged.source.source
    if old_source.location != new_source.location:
        yield f"came from {old_source.describe()}, and now from {new_source.describe()}"
    author = str(package.installed.document.get("author", ""))
    if author != package.manifest.author:
        yield f"was written by {author or 'nobody named'}, and now by {package.manifest.author or 'nobody named'}"


def _package_lines(package: ResolvedPackage) -> Iterator[str]:
    lock = package.lock
    if lock is None:
        return
    if package.staged.source.source.kind.registry:
        requested = lock.packages[0]
        yield f"The package {requested.name}, exactly version {requested.version}, and {_count_text(lock.dependencies)}"
    elif package.server_file is not None:
        wanted = {canonical_python_name(name) for name in package.requested_packages}
        direct = [one for one in lock.packages if canonical_python_name(one.name) in wanted]
        names = printable(", ".join(f"{one.name} {one.version}" for one in direct), 300)
        yield f"{names}, and {_count_text(len(lock.packages) - len(direct))}"
    else:
        yield f"The {_count_text(len(lock.packages), 'package')} that it asks for"
    yield "Its dependencies are pinned by hash: another file is refused, here and on every other machine"
    if package.server_file is None:
        yield "None of their code ran to find this out, and none runs while they are installed"
    else:
        yield "Their code ran in the cage of the trial only, and none runs while they are installed"


def _package_changes(package: ResolvedPackage) -> Iterator[str]:
    if package.lock is None:
        return
    if package.installed_lock is None:
        yield from _package_lines(package)
        return
    lines = [printable(line) for line in describe_lock_changes(package.installed_lock, package.lock)]
    yield from lines[:_MAX_CHANGES_SHOWN]
    if len(lines) > _MAX_CHANGES_SHOWN:
        yield f"and {len(lines) - _MAX_CHANGES_SHOWN} more"
    if lines:
        yield "All of them are pinned by hash"


def _count_text(count: int, noun: str = "dependency") -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"1 {noun}" if count == 1 else f"{count or 'no'} {plural}"


def _tool_lines(tools: Sequence[ToolChange]) -> Iterator[str]:
    for one in tools[:_MAX_CHANGES_SHOWN]:
        yield f"{one.change}: {one.name}" + (f" ({', '.join(one.parts)})" if one.parts else "")
    if len(tools) > _MAX_CHANGES_SHOWN:
        yield f"and {len(tools) - _MAX_CHANGES_SHOWN} more"


def _file_lines(files: TreeDiff) -> Iterator[str]:
    for word, paths in (("changed", files.changed), ("added", files.added), ("removed", files.missing)):
        if paths:
            names = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
            yield f"{len(paths)} {word}: {names}"


def _facts(package: ResolvedPackage) -> tuple[tuple[str, str], ...]:
    manifest = package.manifest
    claim = manifest.trust_claim
    trust = package.tier + (f" (it claims to be {claim})" if claim and claim != package.tier else "")
    state = package.signature.state
    signed = f"{state.value} — {package.signature.reason}" if state is not SignatureState.UNSIGNED else "unsigned"
    facts = [
        ("id", manifest.name),
        ("description", manifest.description),
        ("author", manifest.author),
        ("license", manifest.license),
        ("manifest", f"{manifest.dialect.value}, API version {manifest.api}"),
        ("source", package.staged.source.describe()),
        ("signature", signed),
        ("trust", trust),
    ]
    return tuple((label, value) for label, value in facts if value)
