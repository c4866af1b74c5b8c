"""Compares two versions of a plugin: what changes for a person who upgrades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from msgspec import Struct

from paddock.core.printable import printable
from paddock.core.semver import Version
from paddock.manifest.capability import Capability, NoNetwork, covers, describe_capability, missing_capabilities
from paddock.manifest.compatibility import (
    CompatibilityLevel,
    SchemaDifference,
    compare_input,
    compare_output,
    version_step,
)
from paddock.manifest.consent_text import consent_sections
from paddock.manifest.model import CallableSpec, Manifest, Schema
from paddock.manifest.native_writer import to_document
from paddock.manifest.permissions import requested_capabilities

# Returns the schema itself, also where a manifest only names a file of its package.
ResolveSchema = Callable[[Schema | None], object]

_MAX_PATHS = 20  # more are counted
_MAX_PATH_DEPTH = 3
_MAX_CHANGE_CHARS = 2000  # longer than any capability


class UpgradeDiff(Struct, frozen=True):
    """The difference between an installed version and the one that would replace it."""

    old_version: str
    new_version: str
    added: tuple[Capability, ...]  # newly requested and not covered before: needs consent
    removed: tuple[Capability, ...]
    changes: tuple[str, ...]  # other changes to what a person consented to, in plain words
    compatibility: tuple[SchemaDifference, ...]  # schema differences larger than the version step allows


def diff_manifests(
    old: Manifest, new: Manifest, schema_of_old: ResolveSchema, schema_of_new: ResolveSchema
) -> UpgradeDiff:
    """Compare two versions of one plugin."""
    before, after = requested_capabilities(old), requested_capabilities(new)
    removed = [one for one in before if one not in after and not isinstance(one, NoNetwork)]
    return UpgradeDiff(
        old.version,
        new.version,
        tuple(missing_capabilities(before, after)),
        tuple(removed),
        tuple(_changed_lines(old, new)),
        tuple(compatibility_report(old, new, schema_of_old, schema_of_new)),
    )


def compatibility_report(
    old: Manifest, new: Manifest, schema_of_old: ResolveSchema, schema_of_new: ResolveSchema
) -> list[SchemaDifference]:
    """Return the schema differences that the step between the two version numbers does not allow."""
    differences: list[SchemaDifference] = []
    after = {spec.name: spec for spec in new.callables}
    for spec in old.callables:
        replacement = after.get(spec.name)
        if replacement is None:
            differences.append(SchemaDifference(spec.name, CompatibilityLevel.BREAKING, "is gone"))
            continue
        differences.extend(_schema_differences(spec, replacement, schema_of_old, schema_of_new))
    before = {spec.name for spec in old.callables}
    differences.extend(
        SchemaDifference(spec.name, CompatibilityLevel.ADDITIVE, "is new")
        for spec in new.callables
        if spec.name not in before
    )
    order = list(CompatibilityLevel)
    allowed = order.index(version_step(Version.parse(old.version), Version.parse(new.version)))
    return [difference for difference in differences if order.index(difference.change) > allowed]


def _schema_differences(
    old: CallableSpec, new: CallableSpec, schema_of_old: ResolveSchema, schema_of_new: ResolveSchema
) -> list[SchemaDifference]:
    return [
        *compare_input(schema_of_old(old.input_schema), schema_of_new(new.input_schema), (old.name, "input")),
        *compare_output(schema_of_old(old.output_schema), schema_of_new(new.output_schema), (old.name, "output")),
    ]


def _changed_lines(old: Manifest, new: Manifest) -> list[str]:
    """List the consent lines that appear or disappear, then other changes.

    Added and removed capabilities have their own lists.
    """
    capability_title = "What it may reach"
    before = {
        (section.title, line)
        for section in consent_sections(old)
        for line in section.lines
        if section.title != capability_title
    }
    after = {
        (section.title, line)
        for section in consent_sections(new)
        for line in section.lines
        if section.title != capability_title
    }
    lines = [f"no longer: {line}" for _, line in sorted(before - after)] + [
        f"new: {line}" for _, line in sorted(after - before)
    ]
    if old.caged != new.caged:
        lines.insert(0, "now runs elsewhere and is NOT caged" if old.caged else "now runs here, in a cage")
    lines.extend(_covered_additions(old, new))
    paths = list(_differing_paths(_compared_values(old), _compared_values(new), ()))
    if paths:
        more = f" and {len(paths) - _MAX_PATHS} more paths" if len(paths) > _MAX_PATHS else ""
        lines.append(f"also changed: {', '.join(printable(path) for path in paths[:_MAX_PATHS])}{more}")
    return lines


def _covered_additions(old: Manifest, new: Manifest) -> Iterator[str]:
    """Describe new capabilities that need no consent, because one granted before includes them."""
    before, after = requested_capabilities(old), requested_capabilities(new)
    for capability in after:
        if capability in before or isinstance(capability, NoNetwork):
            continue
        wider = next((held for held in before if covers(held, capability)), None)
        if wider is not None:
            still_requested = wider in after
            line = (
                f"also lists {capability}, which {wider} includes"
                if still_requested
                else f"narrowed to {capability} — {describe_capability(capability)}"
            )
            yield printable(line, _MAX_CHANGE_CHARS)


def _compared_values(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as a document, without the parts that are reported separately."""
    values = to_document(manifest) | {"api": manifest.api}
    return {key: value for key, value in values.items() if key not in ("version", "capabilities")}


def _differing_paths(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths at which two documents differ, down to a depth that a person can look up."""
    if old == new:
        return
    before, after = _by_name(old), _by_name(new)
    if before is None or after is None or len(path) == _MAX_PATH_DEPTH:
        yield ".".join(path)
        return
    for key in dict.fromkeys([*before, *after]):
        if key not in before or key not in after:
            yield ".".join((*path, key))
        else:
            yield from _differing_paths(before[key], after[key], (*path, key))
    if list(before) != list(after) and before == after and isinstance(new, list):
        yield ".".join(path)  # only the order differs


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return a mapping as it is, and a list of uniquely named objects as a mapping by name."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if not isinstance(value, list):
        return None
    items = [cast("dict[str, Any]", item) for item in cast("list[Any]", value) if isinstance(item, dict)]
    named = {item["name"]: item for item in items if isinstance(item.get("name"), str)}
    return named if named and len(named) == len(cast("list[Any]", value)) else None
