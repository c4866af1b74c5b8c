"""Stores grants that a person chose after a trial: the installed package gets them, under a version of its own."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.core.call import Principal
from paddock.core.errors import Conflict
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.install_job import InstallStage
from paddock.manifest.capability import Capability
from paddock.plugins.install.consent import InstallConsent
from paddock.plugins.install.request import InstallRequest


async def store_grants(installer: InstallService, plugin: str, grants: Sequence[Capability], by: Principal) -> None:
    """Add grants to a plugin as it is installed. Does nothing if it has them already.

    Raises:
        Denied: the principal is not a person at work.
        Busy: too many installations are under way.
        PaddockError: they cannot be added.
    """
    request = InstallRequest(None, upgrade=plugin, grants=tuple(grants), as_installed=True)
    job = installer.start(request, f"{plugin} as installed", by.id)
    async for stage in job.watch():
        if stage is InstallStage.WAITING and job.proposal is not None:
            terms = job.proposal.terms
            chosen = frozenset(grants)  # each by itself, from what the trial proposed
            job.give_consent(by, InstallConsent(terms.digest, terms.signature, chosen, dangers=chosen))
    if job.error is not None:
        raise job.error
    if job.stage is not InstallStage.DONE:
        raise Conflict(f"the grants of {plugin} were not stored", code="install.cancelled", hint="try it again")
