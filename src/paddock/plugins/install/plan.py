"""Plans an install: what a resolved package would change, what a person is shown, and what needs their consent.

The command line and the console both use it and render it in their own way, so that neither asks for less.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Conflict, Problem
from paddock.manifest.capability import Capability
from paddock.manifest.rules.readiness import find_disallowed_hosts
from paddock.plugins.install.commit import (
    changed_values,
    check_installable,
    commit_install,
    save_signature,
    save_values,
)
from paddock.plugins.install.consent import (
    ConsentTerms,
    InstallConsent,
    check_consent,
    check_same_package,
    shown_terms,
)
from paddock.plugins.install.consent_screen import ConsentScreen, install_screen, upgrade_screen
from paddock.plugins.install.path_checks import (
    UngrantedPath,
    missing_paths,
    takes_capability_option,
    ungranted_paths,
    unreadable_paths_here,
)
from paddock.plugins.install.resolve import ResolvedPackage
from paddock.plugins.install.upgrade_difference import (
    NO_DIFFERENCE,
    ComparedVersion,
    UpgradeDifference,
    compare_versions,
)
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.store.lookup import load_schema, manifest_of
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import tree_of
from paddock.plugins.store.store import PluginStore


class PlanAction(StrEnum):
    """The action of a plan; the values are the past participles for messages."""

    NOTHING = "unchanged"  # exactly this package is installed
    SIGNATURE = "signed"  # the same files with a new signature
    VALUES = "reconfigured"  # the same files with other configuration values
    INSTALL = "installed"
    UPGRADE = "upgraded"


class InstallPlan(Struct, frozen=True):
    """A change that waits for a person's consent.

    Attributes:
        package: The package.
        action: What would happen to the store.
        terms: What the person is shown and has to agree to.
        screen: The consent screen, if files come in.
        warnings: Further warnings for the person.
        fields: The configuration fields that would be replaced.
        old_version: The installed version, if there is one.
        downgrade: Whether a downgrade is allowed.
        ungranted: The host paths that its settings name and that no capability covers.
        difference: What an upgrade changes of the tools and files.
    """

    package: ResolvedPackage
    action: PlanAction
    terms: ConsentTerms
    screen: ConsentScreen | None = None
    warnings: tuple[Problem, ...] = ()
    fields: tuple[str, ...] = ()
    old_version: str = ""
    downgrade: bool = False
    ungranted: tuple[UngrantedPath, ...] = ()
    difference: UpgradeDifference = NO_DIFFERENCE

    @property
    def changes_files(self) -> bool:
        """Whether files come in; otherwise only the signature or the configuration of installed files changes."""
        return self.action in (PlanAction.INSTALL, PlanAction.UPGRADE)

    @property
    def separate_capabilities(self) -> tuple[Capability, ...]:
        """What is asked for separately: the new capabilities of an upgrade, and the dangerous ones of an install."""
        match self.action:
            case PlanAction.UPGRADE:
                return self.terms.capabilities
            case PlanAction.INSTALL:
                return tuple(danger.capability for danger in self.terms.dangers)
            case _:
                return ()

    @property
    def offered_grants(self) -> tuple[UngrantedPath, ...]:
        """The paths for which a person may add a grant now: none that holds credentials."""
        choosable = takes_capability_option(self.package.staged.source.source)
        return tuple(one for one in self.ungranted if not one.credentials) if choosable else ()

    def check_consent(self, consent: InstallConsent) -> None:
        """Check a person's answer against what they were shown.

        Raises:
            NeedsConsent: they were shown another package, or have not agreed to everything.
        """
        if self.changes_files:
            check_consent(self.terms, consent)
        else:
            check_same_package(self.terms, consent)


def make_plan(store: PluginStore, package: ResolvedPackage, *, downgrade: bool = False) -> InstallPlan:
    """Plan what a package would change.

    Raises:
        PaddockError: it cannot be installed; see `commit.check_installable`.
    """
    old_version = package.installed.version if package.installed else ""
    terms = shown_terms(package)
    if package.unchanged:
        if package.newly_signed:
            return InstallPlan(package, PlanAction.SIGNATURE, terms, old_version=old_version)
        fields = tuple(changed_values(store, package))
        return InstallPlan(
            package, PlanAction.VALUES if fields else PlanAction.NOTHING, terms, fields=fields, old_version=old_version
        )
    check_installable(store, package, allow_downgrade=downgrade)
    manifest, source = package.manifest, package.staged.source.source
    ungranted = ungranted_paths(manifest, package.values)
    warnings = (
        *package.warnings,
        *missing_paths(manifest.capabilities),
        *unreadable_paths_here(manifest.capabilities),
        *(one.to_problem(source) for one in ungranted),
        *find_disallowed_hosts(manifest, store.allowed_domains),
    )
    if package.upgrade is None:
        screen = install_screen(package, terms.dangers)
        return InstallPlan(
            package, PlanAction.INSTALL, terms, screen, warnings, downgrade=downgrade, ungranted=ungranted
        )
    difference = _compare_with_installed(store, package)
    return InstallPlan(
        package,
        PlanAction.UPGRADE,
        terms,
        upgrade_screen(package, package.upgrade, terms.dangers, difference.tools),
        warnings,
        old_version=old_version,
        downgrade=downgrade,
        ungranted=ungranted,
        difference=difference,
    )


def _compare_with_installed(store: PluginStore, package: ResolvedPackage) -> UpgradeDifference:
    row, staged = package.installed, package.staged
    if row is None:
        return NO_DIFFERENCE
    root = ensure_local_files(store, row)
    tree = store.database.read(lambda tx: tree_of(tx, row.plugin, row.version))
    return compare_versions(
        ComparedVersion(manifest_of(row), root, tree, lambda schema: load_schema(schema, root)),
        ComparedVersion(package.manifest, staged.root, staged.tree, lambda schema: load_schema(schema, staged.root)),
    )


def apply_plan(
    store: PluginStore,
    plan: InstallPlan,
    consent: InstallConsent,
    *,
    progress: ProgressCallback | None = None,
) -> None:
    """Carry out a plan with a person's consent, which is compared with what is installed at that moment.

    Raises:
        NeedsConsent: it does not cover the package, its signer or its capabilities as they are now.
        PaddockError: it cannot be done, or not any more; see `commit.commit_install`.
    """
    package = plan.package
    match plan.action:
        case PlanAction.NOTHING:
            return
        case PlanAction.SIGNATURE:
            save_signature(store, package, consent)
        case PlanAction.VALUES:
            save_values(store, package, plan.fields)
        case PlanAction.INSTALL | PlanAction.UPGRADE:
            commit_install(store, package, consent, allow_downgrade=plan.downgrade, progress=progress)
        case _:
            assert_never(plan.action)


def check_same_plugin(package: ResolvedPackage, expected: str) -> None:
    """Check that a package upgrades the expected plugin.

    Raises:
        Conflict: the package is another plugin.
    """
    if package.manifest.name != expected:
        location = package.staged.source.source.location
        raise Conflict(
            f"the package is {package.manifest.name}, not {expected}",
            code="plugin.other_name",
            hint="install it under its own name",
            action=Action.of("plugin.install", source=location),
        )
