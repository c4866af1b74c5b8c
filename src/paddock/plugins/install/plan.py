"""What a prepared package would change here, what a person is told of that, and what they have to say yes to.

The command line and the console both ask here and show it each in its own way, so that neither asks for less.
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
    """What becomes of the store; the words are those for when it is done."""

    NOTHING = "unchanged"  # exactly this is installed
    SIGNATURE = "signed"  # the same files, and a signature worth keeping
    VALUES = "reconfigured"  # the same files, and other values for its configuration
    INSTALL = "installed"
    UPGRADE = "upgraded"


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """A change that waits for a person.

    Attributes:
        prepared: The package.
        change: What would become of the store.
        screen: What a person reads first, where files come in.
        warnings: What they should know beside it.
        fields: Of its configuration, those that would be replaced.
        capabilities: What an upgrade asks for anew, each with a yes of its own; an install is a yes to the whole.
        trust_lost: In words, what an upgrade gives up of who stands behind it; that needs a yes of its own too.
        old_version: The one in use, where there is one.
        downgrade: Whether it may step back.
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
        """Raise what nobody said yes to.

        Raises:
            NeedsConsent: something is missing.
        """
        if self.trust_lost and not less_trust:
            raise NeedsConsent(self.trust_lost, code="trust_lost", hint="say yes to that by itself")
        said = frozenset(acknowledged)
        missing = [one for one in self.capabilities if one not in said]
        if missing:
            raise NeedsConsent(
                f"it asks for new capabilities: {', '.join(map(str, missing))}",
                hint="say yes to each of them",
                details={"capabilities": [str(one) for one in missing]},
            )


def make_plan(store: PluginStore, prepared: ResolvedPackage, *, downgrade: bool = False) -> InstallPlan:
    """What a package would change, unless something stands in its way.

    Raises:
        PaddockError: it cannot be; see `install.refuse`.
    """
    old_version = prepared.installed.version if prepared.installed else ""
    if prepared.unchanged:
        if prepared.newly_signed:
            return InstallPlan(prepared, PlanAction.SIGNATURE, old_version=old_version)
        fields = tuple(changed_values(store, prepared))
        return InstallPlan(
            prepared, PlanAction.VALUES if fields else PlanAction.NOTHING, fields=fields, old_version=old_version
        )
    check_installable(store, prepared, allow_downgrade=downgrade)
    manifest = prepared.manifest
    warnings = (
        *prepared.warnings,
        *missing_paths(manifest.capabilities),
        *unreadable_paths_here(manifest.capabilities),
        *ungranted_paths(manifest, prepared.values, prepared.staged.source.source),
    )
    if prepared.upgrade is None:
        return InstallPlan(prepared, PlanAction.INSTALL, install_screen(prepared), warnings, downgrade=downgrade)
    return InstallPlan(
        prepared,
        PlanAction.UPGRADE,
        upgrade_screen(prepared, prepared.upgrade),
        warnings,
        capabilities=tuple(prepared.missing_consents),
        trust_lost=prepared.trust_lost,
        old_version=old_version,
        downgrade=downgrade,
    )


def apply_plan(
    store: PluginStore,
    proposal: InstallPlan,
    acknowledged: Iterable[Capability] = (),
    *,
    less_trust: bool = False,
    progress: ProgressCallback | None = None,
) -> None:
    """Do what was proposed; a person said yes to the whole, and to these by themselves.

    Raises:
        NeedsConsent: something needs a yes of its own, and has none.
        PaddockError: it cannot be done, or not any more; see `install.commit`.
    """
    prepared = proposal.package
    match proposal.action:
        case PlanAction.NOTHING:
            return
        case PlanAction.SIGNATURE:
            save_signature(store, prepared)
        case PlanAction.VALUES:
            save_values(store, prepared)
        case PlanAction.INSTALL | PlanAction.UPGRADE:
            proposal.check_consent(acknowledged, less_trust=less_trust)
            commit_install(
                store, prepared, prepared.missing_consents, allow_downgrade=proposal.downgrade, progress=progress
            )
        case _:
            assert_never(proposal.change)


def check_same_plugin(prepared: ResolvedPackage, expected: str) -> None:
    """Let a plugin be upgraded by itself alone.

    Raises:
        Conflict: the package is another plugin.
    """
    if prepared.manifest.name != expected:
        where = prepared.staged.source.source.location
        raise Conflict(
            f"the package is {prepared.manifest.name}, not {expected}",
            code="plugin.other_name",
            hint=f"install it as itself: paddock plugin install {shlex.quote(where)}",
        )
