"""Commits a resolved and consented package to the store in one step.

If the process is killed at any point, the store is as before or as after; files that a killed command leaves behind are
swept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from typing import Any

from paddock.config.local_file import check_entry_writable, read_entries, record_installed, set_system_value
from paddock.core.action import Action
from paddock.core.errors import Conflict, NeedsConsent
from paddock.core.events.plugin_management import CapabilityDiff, PluginInstalled, PluginUpgraded
from paddock.core.semver import Version
from paddock.manifest.native_writer import to_document
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.install.config_secrets import (
    changed_secret_fields,
    check_sealing_key,
    config_with_references,
    prepare_sealing,
)
from paddock.plugins.install.consent import (
    ConsentTerms,
    InstallConsent,
    StagedContents,
    check_consent,
    check_same_package,
    current_terms,
    read_contents,
)
from paddock.plugins.install.resolve import ResolvedPackage, check_name_available
from paddock.plugins.package.blob import open_packed_stream
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.rules import SIGNATURE_FILE
from paddock.plugins.store.node_files import build_missing_environment, ensure_local_files
from paddock.plugins.store.purge import check_no_pending_purge
from paddock.plugins.store.rows import (
    Grant,
    PluginRow,
    VersionRow,
    find_grant,
    find_plugin,
    find_version,
    insert_plugin,
    insert_version,
    save_grant,
    set_default_version,
    set_signature,
    update_provenance,
)
from paddock.plugins.store.store import PluginStore, remove_path
from paddock.plugins.store.versions import remove_expired_versions
from paddock.plugins.tool_pinning.scan.scan import flagged_event
from paddock.plugins.trust.trusted_keys import signature_to_value
from paddock.store.database import Transaction


def commit_install(
    store: PluginStore,
    package: ResolvedPackage,
    consent: InstallConsent,
    *,
    allow_downgrade: bool = False,
    progress: ProgressCallback | None = None,
) -> VersionRow:
    """Add a resolved package to the store. An upgrade keeps the plugin's enabled state; a new plugin is disabled.

    Raises:
        NeedsConsent: the consent does not cover the package, its signer or its capabilities as they are now.
        Conflict: the plugin is pinned, the version exists with other files, it is a downgrade, or the store
            changed.
        Busy: another plugin had that name and is not purged yet.
        PaddockError: its environment cannot be built; says why.
    """
    manifest = package.manifest
    _check_committable(store, package, consent, allow_downgrade)  # also before an environment is built in vain
    building = build_missing_environment(store, package.lock, progress, package.built)
    with building as environment, store.change_lock():
        contents = _check_committable(store, package, consent, allow_downgrade)
        seal = prepare_sealing(store, package)
        if environment is not None:
            store.environments.put(environment)
        else:
            _require_environment(store, package)
        blob = store.blobs.put(open_packed_stream(package.staged.root, package.staged.tree))
        root = store.version_root(manifest.name, manifest.version)
        remove_path(root)  # left by a killed command, or the same version with the same files
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        package.staged.root.rename(root)
        store.save_fingerprint(manifest.name, manifest.version)
        row = _build_version_row(store, package, blob)

        def unit(tx: Transaction) -> None:
            # Check again inside the transaction: another node may have come in between.
            _check_not_stale(tx, package, allow_downgrade)
            terms = current_terms(tx, store.tenant, package, contents)
            check_consent(terms, consent)
            _insert_rows(tx, store, package, row, terms)
            seal(tx)

        store.database.write(unit)
        record_installed(
            store.local_file, manifest.name, manifest.version, values=config_with_references(store, package)
        )
        remove_expired_versions(store)
    return row


def _check_committable(
    store: PluginStore, package: ResolvedPackage, consent: InstallConsent, allow_downgrade: bool
) -> StagedContents:
    """Check the package and the consent against the staged files and the store as they are now; returns the files."""
    check_installable(store, package, allow_downgrade=allow_downgrade)
    contents = read_contents(package.staged.root)
    check_consent(_current_terms(store, package, contents), consent)
    return contents


def _current_terms(store: PluginStore, package: ResolvedPackage, contents: StagedContents) -> ConsentTerms:
    return store.database.read(lambda tx: current_terms(tx, store.tenant, package, contents))


def _require_environment(store: PluginStore, package: ResolvedPackage) -> None:
    """Check that the environment which existed at the start was not removed meanwhile."""
    if package.lock is not None and store.environments.find_by_lock(package.lock) is None:
        raise Conflict(
            f"the environment of {package.manifest.name} was removed meanwhile",
            code="plugin.changed_meanwhile",
            hint="review it again as it is now",
        )


def check_installable(store: PluginStore, package: ResolvedPackage, *, allow_downgrade: bool = False) -> None:
    """Raise what would make `commit_install` fail, so that no person is asked to consent to something impossible.

    Raises:
        Conflict: the plugin is pinned, the version exists with other files, it is a downgrade, or the store
            changed.
        OperatorError: local.toml cannot take its entry, or its secrets cannot be sealed.
        HostError: its secrets were sealed before, and the key that opens them is missing.
        Busy: another plugin had that name and is not purged yet.
    """
    check_no_pending_purge(store, package.manifest.name)
    store.database.read(lambda tx: _check_not_stale(tx, package, allow_downgrade))
    check_entry_writable(store.local_file, package.manifest.name, package.values)
    check_sealing_key(store, package)


def changed_values(store: PluginStore, package: ResolvedPackage) -> list[str]:
    """Return the fields whose value in the package's configuration differs from the one on this machine."""
    entry = read_entries(store.local_file).get(package.manifest.name)
    current_values = entry.raw_values if entry else dict[str, Any]()
    changed_secrets = set(changed_secret_fields(store, package))
    return [
        key
        for key, value in config_with_references(store, package).items()
        if key in changed_secrets or current_values.get(key) != value
    ]


def save_values(store: PluginStore, package: ResolvedPackage, shown_fields: Collection[str]) -> None:
    """Save the configuration values that came with a package whose files are installed already.

    Raises:
        NeedsConsent: it would replace other fields than the person was shown.
    """
    with store.change_lock():
        values = config_with_references(store, package)
        changed = changed_values(store, package)
        if others := sorted(set(changed) - set(shown_fields)):
            raise NeedsConsent(
                f"this would now also replace {', '.join(others)}, which changed after you were asked",
                code="plugin.config_changed",
                hint="review what it replaces now",
            )
        store.database.write(prepare_sealing(store, package))
        for key in changed:
            set_system_value(store.local_file, package.manifest.name, key, values[key])


def save_signature(store: PluginStore, package: ResolvedPackage, consent: InstallConsent) -> None:
    """Save the signature that came with files which are installed already.

    Raises:
        NeedsConsent: the package or its signature is not the one that the person was shown.
        Conflict: another command changed the plugin meanwhile.
    """
    signature = json.dumps(signature_to_value(package.signature))
    row = package.installed
    if row is None:
        return
    root = ensure_local_files(store, row)
    with store.change_lock():
        store.database.read(lambda tx: _check_unchanged(tx, package))
        check_same_package(_current_terms(store, package, read_contents(package.staged.root)), consent)
        blob = store.blobs.put(open_packed_stream(package.staged.root, package.staged.tree))
        store.database.write(lambda tx: set_signature(tx, row.plugin, row.version, signature, blob))
        shutil.copyfile(package.staged.root / SIGNATURE_FILE, root / SIGNATURE_FILE)
        store.save_fingerprint(row.plugin, row.version)


def _check_not_stale(tx: Transaction, package: ResolvedPackage, allow_downgrade: bool) -> None:
    manifest = package.manifest
    check_name_available(tx, manifest)
    plugin = _check_unchanged(tx, package)
    existing = find_version(tx, manifest.name, manifest.version)
    if existing is not None and existing.digest != package.staged.tree.digest:
        raise Conflict(
            f"{manifest.name} {manifest.version} is installed already, with other files",
            code="plugin.version_exists",
            hint="give the new package its own version, or remove the old one first",
            action=Action.of("plugin.remove", plugin=manifest.name),
        )
    if plugin is None:
        return
    if plugin.pinned_version is not None:
        raise Conflict(
            f"{plugin.name} is pinned to {plugin.pinned_version}",
            code="plugin.pinned",
            action=Action.of("plugin.unpin", plugin=plugin.name),
        )
    if Version.parse(manifest.version) < Version.parse(plugin.default_version) and not allow_downgrade:
        raise Conflict(
            f"{manifest.version} is older than the installed {plugin.default_version}",
            code="plugin.downgrade",
            hint="roll back to an earlier installed version, or allow a downgrade",
            action=Action.of("plugin.rollback", plugin=plugin.name),
        )


def _check_unchanged(tx: Transaction, package: ResolvedPackage) -> PluginRow | None:
    """Return the plugin's row if the installed version is still the one that the person was shown."""
    plugin = find_plugin(tx, package.manifest.name)
    current = find_version(tx, plugin.name, plugin.current_version) if plugin else None
    if (current.digest if current else None) != (package.installed.digest if package.installed else None):
        raise Conflict(
            f"{package.manifest.name} changed while you were deciding",
            code="plugin.changed_meanwhile",
            hint="review it again as it is now",
        )
    return plugin


def _build_version_row(store: PluginStore, package: ResolvedPackage, blob: str) -> VersionRow:
    manifest = package.manifest
    signature = signature_to_value(package.signature)
    return VersionRow(
        plugin=manifest.name,
        version=manifest.version,
        digest=package.staged.tree.digest,
        blob=blob,
        dialect=manifest.dialect.value,
        manifest_text=json.dumps(to_document(manifest)),
        source_text=json.dumps(package.staged.source.to_value()),
        signature_text=json.dumps(signature) if signature else None,
        installed_at=store.now(),
        superseded_at=None,
    )


def _insert_rows(
    tx: Transaction, store: PluginStore, package: ResolvedPackage, row: VersionRow, terms: ConsentTerms
) -> None:
    existing = find_plugin(tx, row.plugin)
    grant = find_grant(tx, store.tenant, row.plugin)
    if existing is None:
        insert_plugin(tx, PluginRow(row.plugin, package.manifest.title, row.version, None, True, row.installed_at))
    if find_version(tx, row.plugin, row.version) is None:
        insert_version(tx, row, package.staged.tree)
    else:
        update_provenance(tx, row)
    if package.lock is not None:
        from paddock.plugins.environments.store import save_lock

        save_lock(tx, row.plugin, row.version, package.lock)
    set_default_version(tx, row.plugin, row.version, row.installed_at)
    capabilities = tuple(str(capability) for capability in requested_capabilities(package.manifest))
    save_grant(
        tx, Grant(store.tenant, row.plugin, bool(grant and grant.enabled), capabilities, row.digest), row.installed_at
    )
    if package.scan_findings:
        store.publish(
            tx, flagged_event(row.plugin, "installed" if existing is None else "upgraded", package.scan_findings)
        )
    accepted_dangers = tuple(str(danger.capability) for danger in terms.dangers)
    if existing is None:
        source = package.staged.source.describe()
        store.publish(
            tx,
            PluginInstalled(
                name=row.plugin,
                version=row.version,
                source=source,
                local=True,
                digest=row.digest,
                capabilities=capabilities,
                accepted_dangers=accepted_dangers,
            ),
        )
    else:
        added, removed = (package.upgrade.added, package.upgrade.removed) if package.upgrade else ((), ())
        diff = CapabilityDiff(tuple(map(str, added)), tuple(map(str, removed)))
        old = existing.default_version
        store.publish(
            tx,
            PluginUpgraded(
                name=row.plugin,
                old_version=old,
                new_version=row.version,
                capability_diff=diff,
                digest=row.digest,
                capabilities=capabilities,
                accepted_dangers=accepted_dangers,
            ),
        )
