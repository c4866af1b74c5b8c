"""The consent screen: what a person is told before a plugin is installed or changed. Values only; the CLI and the
console each draw it in their own way."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.core.printable import printable
from paddock.manifest.capability import describe_capability
from paddock.manifest.consent_text import ConsentSection, consent_sections
from paddock.manifest.diff import UpgradeDiff
from paddock.plugins.environments.lock import describe_lock_changes
from paddock.plugins.install.resolve import ResolvedPackage
from paddock.plugins.package.tree import TreeDiff
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import VersionRow
from paddock.plugins.tool_pinning.scan.findings import ScanFinding, sample_by_flag
from paddock.plugins.trust.signature import SignatureState

_MAX_CHANGES_SHOWN = 40
_MAX_FINDINGS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ConsentScreen:
    """A consent screen: who it is, what it will do, and the question."""

    heading: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[ConsentSection, ...]
    question: str

    def to_value(self) -> dict[str, Any]:
        return {
            "heading": self.heading,
            "facts": dict(self.facts),
            "sections": [
                {"title": one.title, "lines": list(one.lines), "alarming": list(one.alarming)} for one in self.sections
            ],
            "question": self.question,
        }


def install_screen(prepared: ResolvedPackage) -> ConsentScreen:
    """Everything about a plugin that is new here."""
    manifest = prepared.manifest
    heading = f"{manifest.display_name} {manifest.version}"
    packages = ConsentSection("What is installed for it", tuple(_package_lines(prepared)))
    sections = [
        *suspicious_text_sections(prepared.scan_findings),
        *consent_sections(manifest),
        *([packages] if packages.lines else []),
    ]
    return ConsentScreen(heading, _facts(prepared), tuple(sections), f"Install {heading}?")


def grant_screen(row: VersionRow, tenant: str, hints: Sequence[ScanFinding] = ()) -> ConsentScreen:
    """Everything about an installed plugin that is new to a tenant."""
    manifest = manifest_of(row)
    heading = f"{manifest.display_name} {manifest.version}"
    facts = (
        ("id", manifest.name),
        ("description", manifest.description),
        ("author", manifest.author),
        ("source", row.source.describe()),
        ("tenant", tenant),
    )
    known = tuple((label, value) for label, value in facts if value)
    sections = (*suspicious_text_sections(hints), *consent_sections(manifest))
    return ConsentScreen(heading, known, sections, f"Enable {heading} for {tenant}?")


def suspicious_text_sections(hints: Sequence[ScanFinding]) -> list[ConsentSection]:
    """What is odd about its words, with the words; nothing where nothing is."""
    if not hints:
        return []
    lines = [str(hint) for hint in sample_by_flag(hints, _MAX_FINDINGS_SHOWN, lambda hint: hint.flag)]
    lines += [f"and {len(hints) - _MAX_FINDINGS_SHOWN} more"] if len(hints) > _MAX_FINDINGS_SHOWN else []
    told = "Models act on what they read there. These are hints and no verdict: look at the words before you agree"
    return [ConsentSection("What is odd about its words", (*lines, told), tuple(lines))]


def upgrade_screen(prepared: ResolvedPackage, upgrade: UpgradeDiff) -> ConsentScreen:
    """Only what is different from the version that was consented to."""
    name = prepared.manifest.display_name
    step = f"{upgrade.old_version} → {upgrade.new_version}"
    behind = tuple(_signer_lines(prepared))
    trust = ConsentSection("Who stands behind it", behind, behind)
    alarming = {f"new: {line}" for section in consent_sections(prepared.manifest) for line in section.alarming}
    files = ConsentSection("Files", tuple(_file_lines(prepared.file_changes))) if prepared.file_changes else None
    packages = ConsentSection("Packages it runs with", tuple(_package_changes(prepared)))
    sections = [
        trust,
        *suspicious_text_sections(prepared.scan_findings),
        *difference_sections(upgrade, alarming),
        packages,
        files,
    ]
    return ConsentScreen(
        f"{name} {step}",
        _facts(prepared),
        tuple(section for section in sections if section is not None and section.lines),
        f"Upgrade {name} {step}?",
    )


def rollback_screen(now: VersionRow, target: VersionRow, difference: UpgradeDiff) -> ConsentScreen:
    """What is different in an earlier version."""
    question = f"Go back from {now.version} to {target.version}?"
    heading = f"{now.plugin} {now.version} → {target.version}"
    return ConsentScreen(heading, (), tuple(difference_sections(difference)), question)


def difference_sections(upgrade: UpgradeDiff, alarming: Container[str] = ()) -> list[ConsentSection]:
    """The difference between two versions as sections; lines among `alarming` are marked as such."""
    added = tuple(f"+ {one} — {describe_capability(one)} (NEW)" for one in upgrade.added)
    removed = tuple(f"- {one} — {describe_capability(one)} (REMOVED)" for one in upgrade.removed)
    breaking = tuple(f"{one.path}: {one.message}" for one in upgrade.compatibility)
    sections = [
        ConsentSection("Capability changes", (*added, *removed) or ("none",), added),
        ConsentSection("Other changes", upgrade.changes, tuple(line for line in upgrade.changes if line in alarming)),
        ConsentSection("Breaks what its version number promises", breaking, breaking),
    ]
    return [section for section in sections if section.lines]


def _signer_lines(prepared: ResolvedPackage) -> Iterator[str]:
    if prepared.trust_lost:
        yield prepared.trust_lost
    if prepared.installed is None:
        return
    before = prepared.installed.source.source
    now = prepared.staged.source.source
    if before.location != now.location:
        yield f"came from {before.describe()}, and now from {now.describe()}"
    author = str(prepared.installed.document.get("author", ""))
    if author != prepared.manifest.author:
        yield f"was written by {author or 'nobody named'}, and now by {prepared.manifest.author or 'nobody named'}"


def _package_lines(prepared: ResolvedPackage) -> Iterator[str]:
    lock = prepared.lock
    if lock is None:
        return
    if prepared.staged.source.source.kind.registry:
        asked = lock.packages[0]
        yield f"The package {asked.name}, exactly version {asked.version}, and {_count_text(lock.dependencies)}"
    else:
        yield f"The {_count_text(len(lock.packages), 'package')} that it asks for"
    yield "Its dependencies are pinned by hash: another file is refused, here and on every other machine"
    yield "None of their code ran to find this out, and none runs while they are installed"


def _package_changes(prepared: ResolvedPackage) -> Iterator[str]:
    if prepared.lock is None:
        return
    if prepared.installed_lock is None:
        yield from _package_lines(prepared)
        return
    lines = [printable(line) for line in describe_lock_changes(prepared.installed_lock, prepared.lock)]
    yield from lines[:_MAX_CHANGES_SHOWN]
    if len(lines) > _MAX_CHANGES_SHOWN:
        yield f"and {len(lines) - _MAX_CHANGES_SHOWN} more"
    if lines:
        yield "All of them are pinned by hash"


def _count_text(count: int, what: str = "dependency") -> str:
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"1 {what}" if count == 1 else f"{count or 'no'} {plural}"


def _file_lines(files: TreeDiff) -> Iterator[str]:
    for word, paths in (("changed", files.changed), ("added", files.added), ("removed", files.missing)):
        if paths:
            named = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
            yield f"{len(paths)} {word}: {named}"


def _facts(prepared: ResolvedPackage) -> tuple[tuple[str, str], ...]:
    manifest = prepared.manifest
    claim = manifest.trust_claim
    trust = prepared.tier + (f" (it claims to be {claim})" if claim and claim != prepared.tier else "")
    state = prepared.signature.state
    signed = f"{state.value} — {prepared.signature.reason}" if state is not SignatureState.UNSIGNED else "unsigned"
    facts = [
        ("id", manifest.name),
        ("description", manifest.description),
        ("author", manifest.author),
        ("license", manifest.license),
        ("manifest", f"{manifest.dialect.value}, API version {manifest.api}"),
        ("source", prepared.staged.source.describe()),
        ("signature", signed),
        ("trust", trust),
    ]
    return tuple((label, value) for label, value in facts if value)
