"""Resolves an install: fetches and checks a package and compares it with what is installed. Changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import Conflict, OperatorError, PluginError, Problem
from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.command import LOCK_FILES
from paddock.manifest.diff import UpgradeDiff, diff_manifests
from paddock.manifest.model import Dialect, Manifest
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.read import read_package
from paddock.manifest.registry_package import parse_python_requirement
from paddock.plugins.package.checks import check_imports, read_staged_manifest
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import StagedPackage, stage_package
from paddock.plugins.package.tree import PackageTree, TreeDiff, diff_trees
from paddock.plugins.store.lookup import BUILT_IN_ALIASES, load_schema, manifest_of
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import (
    Grant,
    VersionRow,
    all_aliases,
    all_plugins,
    find_grant,
    find_plugin,
    find_version,
    granted_capabilities,
    tree_of,
)
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.scan.collisions import PluginNames
from paddock.plugins.tool_pinning.scan.confusables import name_skeleton
from paddock.plugins.tool_pinning.scan.findings import ScanFinding
from paddock.plugins.tool_pinning.scan.scan import PluginScan, find_installed_names
from paddock.plugins.trust.signature import (
    SignatureState,
    SignatureVerdict,
    TrustedKey,
    TrustTier,
    effective_tier,
    read_signature,
    verify_signature,
)
from paddock.plugins.trust.signing_keys import KeyId
from paddock.plugins.trust.trusted_keys import SignerInfo, describe_signer, describe_trust_loss, trusted_keys_by_id
from paddock.store.database import Transaction

if TYPE_CHECKING:
    from paddock.manifest.server_file.server_file import ServerFile
    from paddock.plugins.environments.build import BuiltEnvironment
    from paddock.plugins.environments.lock import Lock
    from paddock.plugins.environments.metadata import IndexOptions
    from paddock.plugins.install.server_trial import ServerTrial


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedPackage:
    """A package that is ready to be installed, with everything a person should know before consenting."""

    staged: StagedPackage
    manifest: Manifest
    warnings: tuple[Problem, ...]
    signature: SignatureVerdict
    tier: TrustTier
    installed: VersionRow | None  # the installed version, if any
    granted: tuple[Capability, ...]  # already granted
    upgrade: UpgradeDiff | None
    file_changes: TreeDiff | None = None  # against the installed version
    installed_signer: SignerInfo | None = None  # of the installed version
    # configuration values that came with it
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any], repr=False)
    lock: Lock | None = None  # its dependencies
    installed_lock: Lock | None = None  # of the installed version
    scan_findings: tuple[ScanFinding, ...] = ()  # suspicious texts that the installed version did not have
    server_file: ServerFile | None = None  # the file that it was made of
    trial: ServerTrial | None = None  # what came of trying that
    built: BuiltEnvironment | None = None  # the environment of its trial, if that was built for it

    @property
    def unchanged(self) -> bool:
        """Whether exactly this package is installed already."""
        return (
            self.installed is not None
            and self.installed.digest == self.staged.tree.digest
            and self.installed.version == self.manifest.version
        )

    @property
    def trust_lost(self) -> str:
        """Describe the trust in the signer that an upgrade gives up; empty if it gives up none."""
        return describe_trust_loss(self.installed_signer, self.signature, self.tier)

    @property
    def newly_signed(self) -> bool:
        """Whether these files are installed and come with a new signature to keep. The digest does not cover it.

        An untrusted signature never replaces another: it would take over whose signature the next upgrade needs.
        """
        if (
            not self.unchanged
            or self.installed_signer is None
            or self.signature.key in (None, self.installed_signer.key)
        ):
            return False
        return self.installed_signer.key is None or self.signature.state is SignatureState.VERIFIED

    @property
    def requested_packages(self) -> list[str]:
        """The names of the packages that a server file needs itself, without their dependencies."""
        python = self.server_file.python if self.server_file else None
        texts = [*(python.requirements if python else ()), *self.staged.source.source.constraints]
        parsed = [parse_python_requirement(text) for text in texts]
        return [requirement.name for requirement in parsed if requirement is not None]

    @property
    def missing_consents(self) -> list[Capability]:
        """Requested capabilities and secrets without a consent so far."""
        return missing_capabilities(self.granted, requested_capabilities(self.manifest))


@contextmanager
def resolve_package(
    store: PluginStore,
    source: PackageSource,
    progress: ProgressCallback | None = None,
    choices: IndexOptions | None = None,
    values: Mapping[str, Any] | None = None,
    recorded_as: PackageSource | None = None,
) -> Generator[ResolvedPackage, None, None]:
    """Fetch, check and read a package, without changing anything yet.

    `choices` and the configuration `values` are for registry packages; `recorded_as` is for all others, see
    `stage_package`.

    Raises:
        Invalid: the package is unsafe or its manifest has mistakes; carries all of them.
        Conflict: its name or version clashes with what is installed.
        PluginError: its signature does not match its files.
        NotFound: its registry has no such package.
    """
    if source.kind.registry:
        # Imported lazily, here and below: most packages do not come from a registry.
        from paddock.plugins.environments.metadata import IndexOptions
        from paddock.plugins.install.index_package import open_index_package

        with (
            open_index_package(store, source, choices or IndexOptions(), progress) as package,
            stage_package(PackageSource(SourceKind.DIRECTORY, str(package.folder)), store.staging) as staged,
        ):
            result = read_package(staged.root)
            staged = replace(staged, source=replace(staged.source, source=source))
            warnings = (*result.warnings, *package.warnings)
            yield build_resolved(store, staged, result.single(), warnings, values or {}, package.lock)
        return
    with stage_package(source, store.staging, progress, recorded_as=recorded_as) as staged:
        result = read_staged_manifest(staged)
        manifest = result.single()
        check_imports(manifest, staged.root)
        lock, warnings = _lock_dependencies(store, staged, manifest, progress)
        yield build_resolved(store, staged, manifest, (*result.warnings, *warnings), {}, lock)


def _lock_dependencies(
    store: PluginStore, staged: StagedPackage, manifest: Manifest, progress: ProgressCallback | None
) -> tuple[Lock | None, tuple[Problem, ...]]:
    """Lock the dependencies that a plugin lists by name, if the operator allows environments."""
    if not any((staged.root / name).is_file() for name in ("requirements.txt", *LOCK_FILES)):
        return None, ()
    from paddock.plugins.environments.requirements import bundled_lock, read_requirements
    from paddock.plugins.environments.resolve import lock_requirements
    from paddock.plugins.store.node_files import open_package_client

    lock = bundled_lock(staged.root, manifest)
    requirements = read_requirements(staged.root, manifest)
    if lock is not None and not store.environments_allowed:
        raise OperatorError(
            f"{manifest.name} needs packages of its own, which this host does not allow",
            code="environment.not_allowed",
            hint="an operator of the host can allow it: plugins.environments = true in config.toml",
        )
    if requirements and not store.environments_allowed:
        hint = "an operator of the host can allow them: plugins.environments = true in config.toml"
        message = f"{len(requirements)} packages that it asks for will not be there"
        return None, (Problem("requirements.txt", message, hint, "environment_not_allowed"),)
    if requirements:
        with open_package_client(store, progress) as client:
            return lock_requirements(requirements, client), ()
    return lock, ()


@contextmanager
def resolve_manifest(
    store: PluginStore, manifest: Manifest, values: Mapping[str, Any], origin: Path
) -> Generator[ResolvedPackage, None, None]:
    """Resolve a server that is known only from a configuration file: its package is its manifest."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="paddock-import-") as folder:
        (Path(folder) / "paddock.yaml").write_text(to_yaml(manifest), encoding="utf-8")
        with stage_package(PackageSource(SourceKind.DIRECTORY, folder), store.staging) as staged:
            result = read_package(staged.root)
            record = replace(staged.source, source=PackageSource(SourceKind.CONFIGURATION, str(origin)))
            yield build_resolved(store, replace(staged, source=record), result.single(), result.warnings, values)


def build_resolved(
    store: PluginStore,
    staged: StagedPackage,
    manifest: Manifest,
    warnings: tuple[Problem, ...],
    values: Mapping[str, Any],
    lock: Lock | None = None,
    listed: tuple[tuple[str, str, str], ...] = (),
) -> ResolvedPackage:
    """Compare a staged package with what is installed; `listed` are its definitions, if it ran: see `PluginScan`."""
    facts = store.database.read(lambda tx: _read_installed_facts(tx, store, manifest, locked=lock is not None))
    row, keys = facts.row, facts.keys
    verdict = verify_signature(staged.tree.digest, read_signature(staged.root), keys)
    if verdict.state is SignatureState.MODIFIED:
        raise PluginError(
            f"the signature of {manifest.name} does not match: {verdict.reason}",
            code="signature.mismatch",
            hint="get the package again from its author, who has to sign it again",
            action=Action.of("plugin.sign"),
        )
    upgrade, installed_signer = None, None
    if row is not None:
        installed_signer = describe_signer(row, {key: trusted.name for key, trusted in keys.items()}, intact=True)
        root = ensure_local_files(store, row)
        upgrade = diff_manifests(
            manifest_of(row),
            manifest,
            lambda schema: load_schema(schema, root),
            lambda schema: load_schema(schema, staged.root),
        )
    return ResolvedPackage(
        staged,
        manifest,
        warnings,
        verdict,
        effective_tier(verdict.state, manifest.trust_claim),
        row,
        tuple(granted_capabilities(facts.grant)),
        upgrade,
        diff_trees(facts.tree, staged.tree) if facts.tree else None,
        installed_signer,
        values,
        lock,
        facts.lock,
        _new_findings(store, facts, PluginScan(manifest, staged.root, facts.names, listed)),
    )


def _new_findings(store: PluginStore, facts: _InstalledFacts, scan: PluginScan) -> tuple[ScanFinding, ...]:
    findings = scan.find_all()
    if not findings or facts.row is None:
        return findings
    old_findings = PluginScan(manifest_of(facts.row), ensure_local_files(store, facts.row), facts.names).find_all()
    return tuple(finding for finding in findings if finding not in old_findings)


class _InstalledFacts(Struct, frozen=True):
    """The stored rows about the plugin that a package would become."""

    row: VersionRow | None
    tree: PackageTree | None
    grant: Grant | None
    keys: Mapping[KeyId, TrustedKey]
    lock: Lock | None
    names: tuple[PluginNames, ...]  # of all installed plugins


def _read_installed_facts(tx: Transaction, store: PluginStore, manifest: Manifest, *, locked: bool) -> _InstalledFacts:
    check_name_available(tx, manifest)
    plugin = find_plugin(tx, manifest.name)
    row = find_version(tx, plugin.name, plugin.current_version) if plugin else None
    tree = tree_of(tx, row.plugin, row.version) if row else None
    return _InstalledFacts(
        row,
        tree,
        find_grant(tx, store.tenant, manifest.name),
        trusted_keys_by_id(tx),
        _find_installed_lock(tx, row) if row and locked else None,
        find_installed_names(tx, store.tenant),
    )


def _find_installed_lock(tx: Transaction, row: VersionRow) -> Lock | None:
    from paddock.plugins.environments.store import find_lock

    return find_lock(tx, row.plugin, row.version)


def check_name_available(tx: Transaction, manifest: Manifest) -> None:
    """Check that the plugin's name cannot be confused with another's.

    Raises:
        Conflict: the name is an alias of another plugin, looks like another's, or another title has the same id.
    """
    name = manifest.name
    if name in all_aliases(tx):
        raise Conflict(
            f"{name!r} is an alias of {all_aliases(tx)[name]}",
            code="plugin.name_taken",
            action=Action.of("plugin.alias.remove", alias=name),
        )
    if BUILT_IN_ALIASES.get(name) is not None and find_plugin(tx, BUILT_IN_ALIASES[name]):
        raise Conflict(
            f"{name!r} is another name of {BUILT_IN_ALIASES[name]}, which is installed",
            code="plugin.name_taken",
            hint="remove one of them",
            action=Action.of("plugin.remove", plugin=BUILT_IN_ALIASES[name]),
        )
    for existing in all_plugins(tx):
        if existing.name == name:
            if (
                existing.title
                and manifest.title
                and existing.title != manifest.title
                and manifest.dialect is Dialect.OSQR
            ):
                raise Conflict(
                    f"{manifest.title!r} has the same id as the installed {existing.title!r}",
                    code="plugin.name_taken",
                    hint="ask its author for another name, or remove the other one first",
                    action=Action.of("plugin.remove", plugin=existing.name),
                )
        elif name_skeleton(existing.name) == name_skeleton(name):
            raise Conflict(
                f"{name!r} could be taken for {existing.name!r}, which is installed",
                code="plugin.name_confusable",
                hint="ask its author for another name, or remove the other one first",
                action=Action.of("plugin.remove", plugin=existing.name),
            )
