"""Plans an install: what a resolved package would change, what a person is shown, and what needs their consent.

The command line and the console both use it and render it in their own way, so that neither asks for less.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from paddock.core.errors import Conflict, NeedsConsent, Problem
from paddock.manifest.capability import Capability
from paddock.plugins.install.commit import (
    changed_values,
    check_installable,
    commit_install,
    save_signature,
    save_values,
)
from paddock.plugins.install.consent_screen import ConsentScreen, install_screen, upgrade_screen
from paddock.plugins.install.path_checks import missing_paths, ungranted_paths, unreadable_paths_here
from paddock.plugins.install.resolve import ResolvedPackage
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.store.store import PluginStore


class PlanAction(StrEnum):
    """The action of a plan; the values are the past participles for messages."""

    NOTHING = "unchanged"  # exactly this package is installed
    SIGNATURE = "signed"  # the same files with a new signature
    VALUES = "reconfigured"  # the same files with other configuration values
    INSTALL = "installed"
    UPGRADE = "upgraded"


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """A change that waits for a person's consent.

    Attributes:
        package: The package.
        action: What would happen to the store.
        screen: The consent screen, if files come in.
        warnings: Further warnings for the person.
        fields: The configuration fields that would be replaced.
        capabilities: New capabilities of an upgrade, each of which needs its own consent; an install is consented
            to as a whole.
        trust_lost: A description of the trust that an upgrade gives up; that needs its own consent too.
        old_version: The installed version, if there is one.
        downgrade: Whether a downgrade is allowed.
    """

    package: ResolvedPackage
    action: PlanAction
    screen: ConsentScreen | None = None
    warnings: tuple[Problem, ...] = ()
    fields: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    trust_lost: str = ""
    old_version: str = ""
    downgrade: bool = False

    def check_consent(self, acknowledged: Iterable[Capability], *, less_trust: bool) -> None:
        """Raise if a required consent is missing.

        Raises:
            NeedsConsent: something is missing.
        """
        if self.trust_lost and not less_trust:
            raise NeedsConsent(self.trust_lost, code="trust_lost", hint="say yes to that by itself")
        consented = frozenset(acknowledged)
        missing = [one for one in self.capabilities if one not in consented]
        if missing:
            raise NeedsConsent(
                f"it asks for new capabilities: {', '.join(map(str, missing))}",
                hint="say yes to each of them",
                details={"capabilities": [str(one) for one in missing]},
            )


def make_plan(store: PluginStore, package: ResolvedPackage, *, downgrade: bool = False) -> InstallPlan:
    """Plan what a package would change.

    Raises:
        PaddockError: it cannot be installed; see `commit.check_installable`.
    """
    old_version = package.installed.version if package.installed else ""
    if package.unchanged:
        if package.newly_signed:
            return InstallPlan(package, PlanAction.SIGNATURE, old_version=old_version)
        fields = tuple(changed_values(store, package))
        return InstallPlan(
            package, PlanAction.VALUES if fields else PlanAction.NOTHING, fields=fields, old_version=old_version
        )
    check_installable(store, package, allow_downgrade=downgrade)
    manifest = package.manifest
    warnings = (
        *package.warnings,
        *missing_paths(manifest.capabilities),
        *unreadable_paths_here(manifest.capabilities),
        *ungranted_paths(manifest, package.values, package.staged.source.source),
    )
    if package.upgrade is None:
        return InstallPlan(package, PlanAction.INSTALL, install_screen(package), warnings, downgrade=downgrade)
    return InstallPlan(
        package,
        PlanAction.UPGRADE,
        upgrade_screen(package, package.upgrade),
        warnings,
        capabilities=tuple(package.missing_consents),
        trust_lost=package.trust_lost,
        old_version=old_version,
        downgrade=downgrade,
    )


def apply_plan(
    store: PluginStore,
    plan: InstallPlan,
    acknowledged: Iterable[Capability] = (),
    *,
    less_trust: bool = False,
    progress: ProgressCallback | None = None,
) -> None:
    """Carry out a plan that a person consented to, with the given consents to single capabilities.

    Raises:
        NeedsConsent: something needs its own consent and has none.
        PaddockError: it cannot be done, or not any more; see `commit.commit_install`.
    """
    package = plan.package
    match plan.action:
        case PlanAction.NOTHING:
            return
        case PlanAction.SIGNATURE:
            save_signature(store, package)
        case PlanAction.VALUES:
            save_values(store, package)
        case PlanAction.INSTALL | PlanAction.UPGRADE:
            plan.check_consent(acknowledged, less_trust=less_trust)
            commit_install(store, package, package.missing_consents, allow_downgrade=plan.downgrade, progress=progress)
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
            hint=f"install it as itself: paddock plugin install {shlex.quote(location)}",
        )
