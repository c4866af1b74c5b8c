"""Installing: a package is staged and read, a person consents, and then it becomes part of the store in one step.

Killed at any point, the store is as it was before or as it is after; what a killed command leaves on disk is swept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paddock.config.local import read_entries, record_installed, refuse_entry, set_system_value
from paddock.core.errors import Conflict, NeedsConsent, PluginError, Problem
from paddock.core.events_lifecycle import CapabilityDiff, PluginInstalled, PluginUpgraded
from paddock.core.semver import Version
from paddock.manifest.capability import Capability, parse, uncovered
from paddock.manifest.diff import Upgrade, upgrade_between
from paddock.manifest.model import Manifest
from paddock.manifest.native_writer import to_document, to_yaml
from paddock.manifest.read import read_package
from paddock.plugins.entries import Report
from paddock.plugins.local_copy import local_root
from paddock.plugins.package import packed_stream
from paddock.plugins.plugin_store import PluginStore, remove_tree
from paddock.plugins.registry import BUILT_IN_ALIASES, manifest_of, schema_value
from paddock.plugins.rows import (
    Grant,
    PluginRow,
    VersionRow,
    all_aliases,
    all_plugins,
    find_grant,
    find_plugin,
    find_version,
    insert_plugin,
    insert_version,
    move_default,
    save_grant,
)
from paddock.plugins.signature import (
    SignatureState,
    SignatureVerdict,
    Tier,
    effective_tier,
    read_signature,
    signature_state,
)
from paddock.plugins.sources import Source, SourceKind
from paddock.plugins.staging import Staged, stage
from paddock.plugins.trust import signature_to_value, trusted_by_id
from paddock.plugins.versions import drop_expired
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Prepared:
    """A package that is ready to be installed, and everything a person should know before saying yes."""

    staged: Staged
    manifest: Manifest
    warnings: tuple[Problem, ...]
    verdict: SignatureVerdict
    tier: Tier
    installed: VersionRow | None  # the version in use now, if any
    granted: tuple[Capability, ...]  # what was consented to before
    upgrade: Upgrade | None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # configuration that came with it

    @property
    def unchanged(self) -> bool:
        """Whether exactly this is what is installed already."""
        return (
            self.installed is not None
            and self.installed.digest == self.staged.tree.digest
            and self.installed.version == self.manifest.version
        )

    @property
    def to_acknowledge(self) -> list[Capability]:
        """Capabilities that nobody has said yes to yet."""
        return uncovered(self.granted, self.manifest.capabilities)


@contextmanager
def prepare(store: PluginStore, source: Source, progress: Report | None = None) -> Generator[Prepared, None, None]:
    """Fetch, check and read a package, without changing anything yet.

    Raises:
        Invalid: the package is unsafe or its manifest has mistakes; carries all of them.
        Conflict: its name or version clashes with what is installed.
        PluginError: its signature does not match its files.
    """
    with stage(source, store.staging, progress) as staged:
        reading = read_package(staged.root)
        yield _prepared(store, staged, reading.single(), reading.warnings, {})


@contextmanager
def prepare_manifest(
    store: PluginStore, manifest: Manifest, values: Mapping[str, Any], origin: Path
) -> Generator[Prepared, None, None]:
    """The same for a server that is known only from a configuration file: its package is its manifest."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="paddock-import-") as folder:
        (Path(folder) / "paddock.yaml").write_text(to_yaml(manifest), encoding="utf-8")
        with stage(Source(SourceKind.DIRECTORY, folder), store.staging) as staged:
            reading = read_package(staged.root)
            record = replace(staged.source, source=Source(SourceKind.CONFIGURATION, str(origin)))
            yield _prepared(store, replace(staged, source=record), reading.single(), reading.warnings, values)


def _prepared(
    store: PluginStore, staged: Staged, manifest: Manifest, warnings: tuple[Problem, ...], values: Mapping[str, Any]
) -> Prepared:
    plugin, row, grant, keys = store.database.read(lambda tx: _known(tx, store, manifest))
    verdict = signature_state(staged.tree.digest, read_signature(staged.root), keys)
    if verdict.state is SignatureState.MODIFIED:
        raise PluginError(
            f"the signature of {manifest.name} does not match: {verdict.reason}",
            code="signature.mismatch",
            hint="get the package again from its author; an author signs it anew with 'paddock plugin sign'",
        )
    upgrade = None
    if plugin is not None and row is not None:
        root = local_root(store, row)
        upgrade = upgrade_between(
            manifest_of(row),
            manifest,
            lambda schema: schema_value(schema, root),
            lambda schema: schema_value(schema, staged.root),
        )
    return Prepared(
        staged,
        manifest,
        warnings,
        verdict,
        effective_tier(verdict.state, manifest.trust_claim),
        row,
        tuple(parse(text) for text in grant.capabilities) if grant else (),
        upgrade,
        values,
    )


def _known(
    tx: Transaction, store: PluginStore, manifest: Manifest
) -> tuple[PluginRow | None, VersionRow | None, Grant | None, Any]:
    refuse_name_clash(tx, manifest)
    plugin = find_plugin(tx, manifest.name)
    row = find_version(tx, plugin.name, plugin.current_version) if plugin else None
    return plugin, row, find_grant(tx, store.tenant, manifest.name), trusted_by_id(tx)


def refuse_name_clash(tx: Transaction, manifest: Manifest) -> None:
    """Two plugins must never be taken for each other.

    Raises:
        Conflict: the name is an alias of another, looks like another's, or another title has the same id.
    """
    name = manifest.name
    if name in all_aliases(tx):
        raise Conflict(
            f"{name!r} is an alias of {all_aliases(tx)[name]}",
            code="plugin.name_taken",
            hint=f"remove it first: paddock plugin alias {name} --remove",
        )
    if BUILT_IN_ALIASES.get(name) is not None and find_plugin(tx, BUILT_IN_ALIASES[name]):
        raise Conflict(
            f"{name!r} is another name of {BUILT_IN_ALIASES[name]}, which is installed",
            code="plugin.name_taken",
            hint="uninstall one of them",
        )
    for other in all_plugins(tx):
        if other.name == name:
            if other.title and manifest.title and other.title != manifest.title and manifest.dialect.value == "osqr":
                raise Conflict(
                    f"{manifest.title!r} has the same id as the installed {other.title!r}",
                    code="plugin.name_taken",
                    hint="ask its author for another name, or uninstall the other one first",
                )
        elif _skeleton(other.name) == _skeleton(name):
            raise Conflict(
                f"{name!r} could be taken for {other.name!r}, which is installed",
                code="plugin.name_confusable",
                hint="uninstall the other one first, or ask the author for another name",
            )


def _skeleton(name: str) -> str:
    return re.sub(r"[-_.]", "", name.lower())


def commit(
    store: PluginStore, prepared: Prepared, acknowledged: Iterable[Capability], *, allow_downgrade: bool = False
) -> VersionRow:
    """Make a prepared package part of the store. An upgrade stays as enabled as the plugin was; a new one is disabled.

    Raises:
        NeedsConsent: it asks for capabilities that are neither granted nor acknowledged.
        Conflict: the plugin is pinned, the version exists with other files, it would step back, or the store changed.
    """
    manifest = prepared.manifest
    missing = uncovered([*prepared.granted, *acknowledged], manifest.capabilities)
    if missing:
        raise NeedsConsent(
            f"{manifest.name} asks for {', '.join(map(str, missing))}",
            hint="say yes to each: " + " ".join(f"--grant '{capability}'" for capability in missing),
            details={"capabilities": [str(capability) for capability in missing]},
        )
    with store.changing():
        refuse(store, prepared, allow_downgrade=allow_downgrade)
        blob = store.blobs.put(packed_stream(prepared.staged.root, prepared.staged.tree))
        root = store.root_of(manifest.name, manifest.version)
        remove_tree(root)  # no row names it: if it is there, a killed command left it
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        prepared.staged.root.rename(root)
        store.remember_stats(manifest.name, manifest.version)
        row = _row(store, prepared, blob)
        store.database.write(lambda tx: _insert(tx, store, prepared, row))
        record_installed(store.local_file, manifest.name, manifest.version, values=prepared.values)
        drop_expired(store)
    return row


def refuse(store: PluginStore, prepared: Prepared, *, allow_downgrade: bool = False) -> None:
    """Raise what would keep `commit` from working, so that nobody is asked about something that cannot be.

    Raises:
        Conflict: the plugin is pinned, the version exists with other files, it would step back, or the store changed.
        OperatorError: local.toml cannot take its entry.
    """
    store.database.read(lambda tx: _refuse_stale(tx, prepared, allow_downgrade))
    refuse_entry(store.local_file, prepared.manifest.name, prepared.values)


def changed_values(store: PluginStore, prepared: Prepared) -> list[str]:
    """The fields for which a configuration file now has another value than this machine."""
    entry = read_entries(store.local_file).get(prepared.manifest.name)
    kept = entry.written if entry else dict[str, Any]()
    return [key for key, value in prepared.values.items() if kept.get(key) != value]


def take_values(store: PluginStore, prepared: Prepared) -> None:
    """Keep the values that came with a plugin whose package is installed already."""
    with store.changing():
        for key in changed_values(store, prepared):
            set_system_value(store.local_file, prepared.manifest.name, key, prepared.values[key])


def _refuse_stale(tx: Transaction, prepared: Prepared, allow_downgrade: bool) -> None:
    manifest = prepared.manifest
    refuse_name_clash(tx, manifest)
    plugin = find_plugin(tx, manifest.name)
    current = find_version(tx, plugin.name, plugin.current_version) if plugin else None
    compared = prepared.installed
    if (current.digest if current else None) != (compared.digest if compared else None):
        raise Conflict(
            f"{manifest.name} changed while you were deciding",
            code="plugin.changed_meanwhile",
            hint="run the command again",
        )
    existing = find_version(tx, manifest.name, manifest.version)
    if existing is not None:
        same = existing.digest == prepared.staged.tree.digest
        raise Conflict(
            f"{manifest.name} {manifest.version} is installed already" + ("" if same else ", with other files"),
            code="plugin.version_exists",
            hint=f"use it again: paddock plugin rollback {manifest.name} --to {manifest.version}"
            if same
            else "give the new package its own version, or uninstall the old one first",
        )
    if plugin is None:
        return
    if plugin.pinned_version is not None:
        raise Conflict(
            f"{plugin.name} is pinned to {plugin.pinned_version}",
            code="plugin.pinned",
            hint=f"let it move: paddock plugin pin {plugin.name} --off",
        )
    if Version.parse(manifest.version) < Version.parse(plugin.default_version) and not allow_downgrade:
        raise Conflict(
            f"{manifest.version} is older than the installed {plugin.default_version}",
            code="plugin.downgrade",
            hint=f"go back to an earlier version: paddock plugin rollback {plugin.name}   or insist: --downgrade",
        )


def _row(store: PluginStore, prepared: Prepared, blob: str) -> VersionRow:
    manifest = prepared.manifest
    signature = signature_to_value(prepared.verdict)
    return VersionRow(
        plugin=manifest.name,
        version=manifest.version,
        digest=prepared.staged.tree.digest,
        blob=blob,
        dialect=manifest.dialect.value,
        manifest_text=json.dumps(to_document(manifest)),
        source_text=json.dumps(prepared.staged.source.to_value()),
        signature_text=json.dumps(signature) if signature else None,
        installed_at=store.now(),
        superseded_at=None,
    )


def _insert(tx: Transaction, store: PluginStore, prepared: Prepared, row: VersionRow) -> None:
    before = find_plugin(tx, row.plugin)
    grant = find_grant(tx, store.tenant, row.plugin)
    if before is None:
        insert_plugin(tx, PluginRow(row.plugin, prepared.manifest.title, row.version, None, True, row.installed_at))
    insert_version(tx, row, prepared.staged.tree)
    move_default(tx, row.plugin, row.version, row.installed_at)
    capabilities = tuple(str(capability) for capability in prepared.manifest.capabilities)
    save_grant(
        tx, Grant(store.tenant, row.plugin, bool(grant and grant.enabled), capabilities, row.digest), row.installed_at
    )
    if before is None:
        source = prepared.staged.source.describe()
        store.publish(tx, PluginInstalled(name=row.plugin, version=row.version, source=source, local=True))
    else:
        added, removed = (prepared.upgrade.added, prepared.upgrade.removed) if prepared.upgrade else ((), ())
        diff = CapabilityDiff(tuple(map(str, added)), tuple(map(str, removed)))
        old = before.default_version
        store.publish(
            tx, PluginUpgraded(name=row.plugin, old_version=old, new_version=row.version, capability_diff=diff)
        )
