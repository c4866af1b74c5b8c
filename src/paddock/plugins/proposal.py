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
from paddock.plugins.consent import Screen, install_screen, upgrade_screen
from paddock.plugins.entries import Report
from paddock.plugins.install import changed_values, commit, refuse, take_signature, take_values
from paddock.plugins.missing_places import missing_places
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.preparing import Prepared
from paddock.plugins.readable_places import closed_places_here
from paddock.plugins.ungranted_places import ungranted_places


class Change(StrEnum):
    """What becomes of the store; the words are those for when it is done."""

    NOTHING = "unchanged"  # exactly this is installed
    SIGNATURE = "signed"  # the same files, and a signature worth keeping
    VALUES = "reconfigured"  # the same files, and other values for its configuration
    INSTALL = "installed"
    UPGRADE = "upgraded"


@dataclass(frozen=True, slots=True)
class Proposal:
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

    prepared: Prepared
    change: Change
    screen: Screen | None = None
    warnings: tuple[Problem, ...] = ()
    fields: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    trust_lost: str = ""
    old_version: str = ""
    downgrade: bool = False

    def require(self, acknowledged: Iterable[Capability], *, less_trust: bool) -> None:
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


def proposed(store: PluginStore, prepared: Prepared, *, downgrade: bool = False) -> Proposal:
    """What a package would change, unless something stands in its way.

    Raises:
        PaddockError: it cannot be; see `install.refuse`.
    """
    old_version = prepared.installed.version if prepared.installed else ""
    if prepared.unchanged:
        if prepared.newly_signed:
            return Proposal(prepared, Change.SIGNATURE, old_version=old_version)
        fields = tuple(changed_values(store, prepared))
        return Proposal(prepared, Change.VALUES if fields else Change.NOTHING, fields=fields, old_version=old_version)
    refuse(store, prepared, allow_downgrade=downgrade)
    manifest = prepared.manifest
    warnings = (
        *prepared.warnings,
        *missing_places(manifest.capabilities),
        *closed_places_here(manifest.capabilities),
        *ungranted_places(manifest, prepared.values, prepared.staged.source.source),
    )
    if prepared.upgrade is None:
        return Proposal(prepared, Change.INSTALL, install_screen(prepared), warnings, downgrade=downgrade)
    return Proposal(
        prepared,
        Change.UPGRADE,
        upgrade_screen(prepared, prepared.upgrade),
        warnings,
        capabilities=tuple(prepared.to_acknowledge),
        trust_lost=prepared.trust_lost,
        old_version=old_version,
        downgrade=downgrade,
    )


def carry_out(
    store: PluginStore,
    proposal: Proposal,
    acknowledged: Iterable[Capability] = (),
    *,
    less_trust: bool = False,
    progress: Report | None = None,
) -> None:
    """Do what was proposed; a person said yes to the whole, and to these by themselves.

    Raises:
        NeedsConsent: something needs a yes of its own, and has none.
        PaddockError: it cannot be done, or not any more; see `install.commit`.
    """
    prepared = proposal.prepared
    match proposal.change:
        case Change.NOTHING:
            return
        case Change.SIGNATURE:
            take_signature(store, prepared)
        case Change.VALUES:
            take_values(store, prepared)
        case Change.INSTALL | Change.UPGRADE:
            proposal.require(acknowledged, less_trust=less_trust)
            commit(store, prepared, prepared.to_acknowledge, allow_downgrade=proposal.downgrade, progress=progress)
        case _:
            assert_never(proposal.change)


def require_name(prepared: Prepared, expected: str) -> None:
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
