"""The consent screen: what a person is told before a plugin is installed or changed. Values only; the CLI and the
console each draw it in their own way."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

from paddock.manifest.behaviour import Section, consent_sections
from paddock.manifest.capability import describe
from paddock.manifest.diff import Upgrade
from paddock.plugins.preparing import Prepared
from paddock.plugins.signature import SignatureState
from paddock.plugins.tree import Difference


@dataclass(frozen=True, slots=True)
class Screen:
    """A consent screen: who it is, what it will do, and the question."""

    heading: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
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


def install_screen(prepared: Prepared) -> Screen:
    """Everything about a plugin that is new here."""
    manifest = prepared.manifest
    heading = f"{manifest.display_name} {manifest.version}"
    return Screen(heading, _facts(prepared), tuple(consent_sections(manifest)), f"Install {heading}?")


def upgrade_screen(prepared: Prepared, upgrade: Upgrade) -> Screen:
    """Only what is different from the version that was consented to."""
    name = prepared.manifest.display_name
    step = f"{upgrade.old_version} → {upgrade.new_version}"
    behind = tuple(_behind_lines(prepared))
    trust = Section("Who stands behind it", behind, behind)
    alarming = {f"new: {line}" for section in consent_sections(prepared.manifest) for line in section.alarming}
    files = Section("Files", tuple(_file_lines(prepared.files))) if prepared.files else None
    sections = [trust, *difference_sections(upgrade, alarming), files]
    return Screen(
        f"{name} {step}",
        _facts(prepared),
        tuple(section for section in sections if section is not None and section.lines),
        f"Upgrade {name} {step}?",
    )


def difference_sections(upgrade: Upgrade, alarming: Container[str] = ()) -> list[Section]:
    """The difference between two versions as sections; lines among `alarming` are marked as such."""
    added = tuple(f"+ {one} — {describe(one)} (NEW)" for one in upgrade.added)
    removed = tuple(f"- {one} — {describe(one)} (REMOVED)" for one in upgrade.removed)
    breaking = tuple(f"{one.path}: {one.message}" for one in upgrade.compatibility)
    sections = [
        Section("Capability changes", (*added, *removed) or ("none",), added),
        Section("Other changes", upgrade.changes, tuple(line for line in upgrade.changes if line in alarming)),
        Section("Breaks what its version number promises", breaking, breaking),
    ]
    return [section for section in sections if section.lines]


def _behind_lines(prepared: Prepared) -> Iterator[str]:
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


def _file_lines(files: Difference) -> Iterator[str]:
    for word, paths in (("changed", files.changed), ("added", files.added), ("removed", files.missing)):
        if paths:
            named = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
            yield f"{len(paths)} {word}: {named}"


def _facts(prepared: Prepared) -> tuple[tuple[str, str], ...]:
    manifest = prepared.manifest
    claim = manifest.trust_claim
    trust = prepared.tier + (f" (it claims to be {claim})" if claim and claim != prepared.tier else "")
    state = prepared.verdict.state
    signed = f"{state.value} — {prepared.verdict.reason}" if state is not SignatureState.UNSIGNED else "unsigned"
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
