"""The consent screen: what a person is told before a plugin is installed or changed. Values only; the CLI and the
console each draw it in their own way."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.core.printable import printable
from paddock.manifest.behaviour import Section, consent_sections
from paddock.manifest.capability import describe
from paddock.manifest.diff import Upgrade
from paddock.plugins.definitions.flagging.hints import Hint, varied
from paddock.plugins.environments.lock import changes
from paddock.plugins.preparing import Prepared
from paddock.plugins.registry import manifest_of
from paddock.plugins.rows import VersionRow
from paddock.plugins.signature import SignatureState
from paddock.plugins.tree import Difference

_MOST_CHANGES = 40
_MOST_HINTS = 20


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
    packages = Section("What is installed for it", tuple(_package_lines(prepared)))
    sections = [*odd_words(prepared.hints), *consent_sections(manifest), *([packages] if packages.lines else [])]
    return Screen(heading, _facts(prepared), tuple(sections), f"Install {heading}?")


def grant_screen(row: VersionRow, tenant: str, hints: Sequence[Hint] = ()) -> Screen:
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
    sections = (*odd_words(hints), *consent_sections(manifest))
    return Screen(heading, known, sections, f"Enable {heading} for {tenant}?")


def odd_words(hints: Sequence[Hint]) -> list[Section]:
    """What is odd about its words, with the words; nothing where nothing is."""
    if not hints:
        return []
    lines = [str(hint) for hint in varied(hints, _MOST_HINTS, lambda hint: hint.flag)]
    lines += [f"and {len(hints) - _MOST_HINTS} more"] if len(hints) > _MOST_HINTS else []
    told = "Models act on what they read there. These are hints and no verdict: look at the words before you agree"
    return [Section("What is odd about its words", (*lines, told), tuple(lines))]


def upgrade_screen(prepared: Prepared, upgrade: Upgrade) -> Screen:
    """Only what is different from the version that was consented to."""
    name = prepared.manifest.display_name
    step = f"{upgrade.old_version} → {upgrade.new_version}"
    behind = tuple(_behind_lines(prepared))
    trust = Section("Who stands behind it", behind, behind)
    alarming = {f"new: {line}" for section in consent_sections(prepared.manifest) for line in section.alarming}
    files = Section("Files", tuple(_file_lines(prepared.files))) if prepared.files else None
    packages = Section("Packages it runs with", tuple(_package_changes(prepared)))
    sections = [trust, *odd_words(prepared.hints), *difference_sections(upgrade, alarming), packages, files]
    return Screen(
        f"{name} {step}",
        _facts(prepared),
        tuple(section for section in sections if section is not None and section.lines),
        f"Upgrade {name} {step}?",
    )


def rollback_screen(now: VersionRow, target: VersionRow, difference: Upgrade) -> Screen:
    """What is different in an earlier version."""
    question = f"Go back from {now.version} to {target.version}?"
    heading = f"{now.plugin} {now.version} → {target.version}"
    return Screen(heading, (), tuple(difference_sections(difference)), question)


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


def _package_lines(prepared: Prepared) -> Iterator[str]:
    lock = prepared.lock
    if lock is None:
        return
    if prepared.staged.source.source.kind.registry:
        asked = lock.packages[0]
        yield f"The package {asked.name}, exactly version {asked.version}, and {_counted(lock.dependencies)}"
    else:
        yield f"The {_counted(len(lock.packages), 'package')} that it asks for"
    yield "Its dependencies are pinned by hash: another file is refused, here and on every other machine"
    yield "None of their code ran to find this out, and none runs while they are installed"


def _package_changes(prepared: Prepared) -> Iterator[str]:
    if prepared.lock is None:
        return
    if prepared.lock_before is None:
        yield from _package_lines(prepared)
        return
    lines = [printable(line) for line in changes(prepared.lock_before, prepared.lock)]
    yield from lines[:_MOST_CHANGES]
    if len(lines) > _MOST_CHANGES:
        yield f"and {len(lines) - _MOST_CHANGES} more"
    if lines:
        yield "All of them are pinned by hash"


def _counted(count: int, what: str = "dependency") -> str:
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"1 {what}" if count == 1 else f"{count or 'no'} {plural}"


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
