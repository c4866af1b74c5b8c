"""Preparing an install: a package is fetched, checked and compared with what is installed. Nothing changes yet."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.core.errors import OperatorError, PluginError, Problem
from paddock.manifest.asked import asked_of
from paddock.manifest.capability import Capability, parse, uncovered
from paddock.manifest.diff import Upgrade, upgrade_between
from paddock.manifest.environment_command import LOCK_FILES
from paddock.manifest.model import Manifest
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.read import read_package
from paddock.plugins.definitions.flagging.hints import Hint
from paddock.plugins.definitions.flagging.neighbours import Names
from paddock.plugins.definitions.flagging.surveying import Survey, names_of_all
from paddock.plugins.entries import Report
from paddock.plugins.import_scan import require_allowed_imports
from paddock.plugins.keys import KeyId
from paddock.plugins.local_copy import local_root
from paddock.plugins.name_clash import refuse_name_clash
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of, schema_value
from paddock.plugins.rows import Grant, VersionRow, find_grant, find_plugin, find_version, tree_of
from paddock.plugins.signature import (
    TIERS,
    SignatureState,
    SignatureVerdict,
    Tier,
    TrustedKey,
    effective_tier,
    read_signature,
    signature_state,
)
from paddock.plugins.sources import Source, SourceKind
from paddock.plugins.staged_manifest import read_staged
from paddock.plugins.staging import Staged, stage
from paddock.plugins.tree import Difference, Tree, compare
from paddock.plugins.trust import Standing, standing_of, trusted_by_id
from paddock.store.database import Transaction

if TYPE_CHECKING:
    from paddock.plugins.environments.describing import Choices
    from paddock.plugins.environments.lock import Lock


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
    files: Difference | None = None  # what becomes of the files of the version in use
    standing: Standing | None = None  # who stands behind the version in use
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # configuration that came with it
    lock: Lock | None = None  # the packages that it runs with
    lock_before: Lock | None = None  # those of the version in use
    hints: tuple[Hint, ...] = ()  # what is odd about its words, and was not so in the version in use

    @property
    def unchanged(self) -> bool:
        """Whether exactly this is what is installed already."""
        return (
            self.installed is not None
            and self.installed.digest == self.staged.tree.digest
            and self.installed.version == self.manifest.version
        )

    @property
    def trust_lost(self) -> str:
        """In words, what an upgrade gives up of who stands behind the plugin; empty when it gives up nothing."""
        before = self.standing
        if before is None or before.state not in (SignatureState.VERIFIED, SignatureState.COMMUNITY_SIGNED):
            return ""
        same_signer = before.key == self.verdict.key
        if same_signer and TIERS.index(self.tier) >= TIERS.index(before.tier):
            return ""
        return f"the installed version is {before.state.value} ({before.words}); this one is {self.verdict.state.value}"

    @property
    def newly_signed(self) -> bool:
        """Whether these files are installed, and come with a signature worth keeping. The digest does not cover it.

        A stranger's signature never takes the place of another: it would take over whose word the next upgrade needs.
        """
        if not self.unchanged or self.standing is None or self.verdict.key in (None, self.standing.key):
            return False
        return self.standing.key is None or self.verdict.state is SignatureState.VERIFIED

    @property
    def to_acknowledge(self) -> list[Capability]:
        """Capabilities and secrets that nobody has said yes to yet."""
        return uncovered(self.granted, asked_of(self.manifest))


@contextmanager
def prepare(
    store: PluginStore,
    source: Source,
    progress: Report | None = None,
    choices: Choices | None = None,
    values: Mapping[str, Any] | None = None,
    recorded_as: Source | None = None,
) -> Generator[Prepared, None, None]:
    """Fetch, check and read a package, without changing anything yet. `choices` are for packages of a registry, and so
    are `values`, which its configuration is to have. `recorded_as` is for those that are not; see `stage`.

    Raises:
        Invalid: the package is unsafe or its manifest has mistakes; carries all of them.
        Conflict: its name or version clashes with what is installed.
        PluginError: its signature does not match its files.
        NotFound: its registry has no such package.
    """
    if source.kind.registry:
        # Imported here, and the same below: most packages need nothing of a registry.
        from paddock.plugins.environments.describing import Choices
        from paddock.plugins.registry_package import registry_package

        with (
            registry_package(store, source, choices or Choices(), progress) as package,
            stage(Source(SourceKind.DIRECTORY, str(package.folder)), store.staging) as staged,
        ):
            reading = read_package(staged.root)
            staged = replace(staged, source=replace(staged.source, source=source))
            notes = (*reading.warnings, *package.warnings)
            yield _prepared(store, staged, reading.single(), notes, values or {}, package.lock)
        return
    with stage(source, store.staging, progress, recorded_as=recorded_as) as staged:
        reading = read_staged(staged)
        manifest = reading.single()
        require_allowed_imports(manifest, staged.root)
        lock, notes = _pinned(store, staged, manifest, progress)
        yield _prepared(store, staged, manifest, (*reading.warnings, *notes), {}, lock)


def _pinned(
    store: PluginStore, staged: Staged, manifest: Manifest, progress: Report | None
) -> tuple[Lock | None, tuple[Problem, ...]]:
    """The packages that a plugin from elsewhere brings along by name, where whoever runs this host lets it."""
    if not any((staged.root / name).is_file() for name in ("requirements.txt", *LOCK_FILES)):
        return None, ()
    from paddock.plugins.environments.needs import own_lock, own_requirements
    from paddock.plugins.environments.resolving import pin_requirements
    from paddock.plugins.local_environment import client_for

    lock = own_lock(staged.root, manifest)
    wanted = own_requirements(staged.root, manifest)
    if lock is not None and not store.environments_allowed:
        raise OperatorError(
            f"{manifest.name} brings packages along, and nobody has allowed that on this host",
            code="environment.not_allowed",
            hint="whoever runs it can: plugins.environments = true in config.toml",
        )
    if wanted and not store.environments_allowed:
        hint = "whoever runs this host can allow them: plugins.environments = true in config.toml"
        what = f"{len(wanted)} packages that it asks for will not be there"
        return None, (Problem("requirements.txt", what, hint, "environment_not_allowed"),)
    if wanted:
        with client_for(store, progress) as client:
            return pin_requirements(wanted, client), ()
    return lock, ()


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
    store: PluginStore,
    staged: Staged,
    manifest: Manifest,
    warnings: tuple[Problem, ...],
    values: Mapping[str, Any],
    lock: Lock | None = None,
) -> Prepared:
    known = store.database.read(lambda tx: _known(tx, store, manifest, locked=lock is not None))
    row, keys = known.row, known.keys
    verdict = signature_state(staged.tree.digest, read_signature(staged.root), keys)
    if verdict.state is SignatureState.MODIFIED:
        raise PluginError(
            f"the signature of {manifest.name} does not match: {verdict.reason}",
            code="signature.mismatch",
            hint="get the package again from its author; an author signs it anew with 'paddock plugin sign'",
        )
    upgrade, standing = None, None
    if row is not None:
        standing = standing_of(row, {key: trusted.name for key, trusted in keys.items()}, intact=True)
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
        tuple(parse(text) for text in known.grant.capabilities) if known.grant else (),
        upgrade,
        compare(known.tree, staged.tree) if known.tree else None,
        standing,
        values,
        lock,
        known.lock,
        _new_hints(store, known, manifest, staged.root),
    )


def _new_hints(store: PluginStore, known: _Known, manifest: Manifest, root: Path) -> tuple[Hint, ...]:
    found = Survey(manifest, root, known.names).hints()
    if not found or known.row is None:
        return found
    before = Survey(manifest_of(known.row), local_root(store, known.row), known.names).hints()
    return tuple(hint for hint in found if hint not in before)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rows say about the plugin that a package would become."""

    row: VersionRow | None
    tree: Tree | None
    grant: Grant | None
    keys: Mapping[KeyId, TrustedKey]
    lock: Lock | None
    names: tuple[Names, ...]  # of all that is installed


def _known(tx: Transaction, store: PluginStore, manifest: Manifest, *, locked: bool) -> _Known:
    refuse_name_clash(tx, manifest)
    plugin = find_plugin(tx, manifest.name)
    row = find_version(tx, plugin.name, plugin.current_version) if plugin else None
    tree = tree_of(tx, row.plugin, row.version) if row else None
    return _Known(
        row,
        tree,
        find_grant(tx, store.tenant, manifest.name),
        trusted_by_id(tx),
        _lock_before(tx, row) if row and locked else None,
        names_of_all(tx, store.tenant),
    )


def _lock_before(tx: Transaction, row: VersionRow) -> Lock | None:
    from paddock.plugins.environments.rows import lock_of

    return lock_of(tx, row.plugin, row.version)
