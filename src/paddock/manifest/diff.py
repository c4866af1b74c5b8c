"""What changes for a person when one version of a plugin replaces another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paddock.core.semver import Version
from paddock.manifest.behaviour import consent_sections
from paddock.manifest.capability import Capability, NoNetwork, uncovered
from paddock.manifest.compatibility import Change, Difference, compare_input, compare_output, step_between
from paddock.manifest.model import CallableSpec, Manifest, Schema

# Gives the schema itself, also where a manifest only names a file of its package.
SchemaOf = Callable[[Schema | None], object]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The difference between an installed version and the one that would replace it."""

    old_version: str
    new_version: str
    added: tuple[Capability, ...]  # asked for now and not included before: needs its own yes
    removed: tuple[Capability, ...]
    changes: tuple[str, ...]  # in plain words, everything else a person agreed to that is different now
    compatibility: tuple[Difference, ...]  # schema differences larger than the version step allows

    @property
    def widens(self) -> bool:
        return bool(self.added)


def upgrade_between(old: Manifest, new: Manifest, schema_of_old: SchemaOf, schema_of_new: SchemaOf) -> Upgrade:
    """Compare two versions of one plugin."""
    gone = [one for one in old.capabilities if one not in new.capabilities and not isinstance(one, NoNetwork)]
    return Upgrade(
        old.version,
        new.version,
        tuple(uncovered(old.capabilities, new.capabilities)),
        tuple(gone),
        tuple(_changes(old, new)),
        tuple(compatibility_report(old, new, schema_of_old, schema_of_new)),
    )


def compatibility_report(
    old: Manifest, new: Manifest, schema_of_old: SchemaOf, schema_of_new: SchemaOf
) -> list[Difference]:
    """Schema differences that the step between the two version numbers does not allow."""
    found: list[Difference] = []
    after = {spec.name: spec for spec in new.callables}
    for spec in old.callables:
        replacement = after.get(spec.name)
        if replacement is None:
            found.append(Difference(spec.name, Change.BREAKING, "is gone"))
            continue
        found.extend(_schema_differences(spec, replacement, schema_of_old, schema_of_new))
    before = {spec.name for spec in old.callables}
    found.extend(Difference(spec.name, Change.ADDITIVE, "is new") for spec in new.callables if spec.name not in before)
    order = list(Change)
    allowed = order.index(step_between(Version.parse(old.version), Version.parse(new.version)))
    return [difference for difference in found if order.index(difference.change) > allowed]


def _schema_differences(
    old: CallableSpec, new: CallableSpec, schema_of_old: SchemaOf, schema_of_new: SchemaOf
) -> list[Difference]:
    return [
        *compare_input(schema_of_old(old.input_schema), schema_of_new(new.input_schema), (old.name, "input")),
        *compare_output(schema_of_old(old.output_schema), schema_of_new(new.output_schema), (old.name, "output")),
    ]


def _changes(old: Manifest, new: Manifest) -> list[str]:
    """Each consent line that appears or disappears; capabilities have their own list."""
    reach = "What it may reach"
    before = {
        (section.title, line) for section in consent_sections(old) for line in section.lines if section.title != reach
    }
    after = {
        (section.title, line) for section in consent_sections(new) for line in section.lines if section.title != reach
    }
    lines = [f"no longer: {line}" for _, line in sorted(before - after)] + [
        f"new: {line}" for _, line in sorted(after - before)
    ]
    if old.caged != new.caged:
        lines.insert(0, "now runs elsewhere and is NOT caged" if old.caged else "now runs here, in a cage")
    return lines
