"""Trials in words: what is being done, what came of it, and what a person may choose. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from paddock.host.learn.read_marks import ReadMarkJson
from paddock.host.learn.trial_job import TrialJob
from paddock.host.learn.trial_report import GrantProposalJson, PluginTrialJson
from paddock.manifest.capability import describe_capability, parse_capability


class ProposalView(Struct, frozen=True):
    """A grant to tick."""

    capability: str
    means: str
    reason: str
    warning: str
    selected: bool
    writable: bool  # whether it may be granted for writing instead


def trial_values(plugin: str, job: TrialJob | None) -> dict[str, Any]:
    """Return the template values of a trial; of none, where the plugin was not tried."""
    values: dict[str, Any] = {"plugin": plugin, "tried": job is not None, "step": "", "follows": False}
    values |= {"report": None, "problem": None, "stored": (), "trusted": (), "given": (), "proposals": (), "marks": ()}
    if job is None:
        return values
    report = job.report
    values |= {"step": job.step or "getting ready", "follows": not job.finished, "problem": job.error}
    values |= {"report": report, "stored": [str(one) for one in job.stored], "trusted": job.trusted}
    if report is not None:
        asked = {str(one) for one in job.choice.grants}
        values["given"] = [] if job.stored else sorted(asked - set(report["unneeded"]))
        values["proposals"] = [_proposal_view(one) for one in report["proposals"] if one["capability"] not in asked]
        values["marks"] = _open_marks(report, job)
    return values


def _proposal_view(proposal: GrantProposalJson) -> ProposalView:
    return ProposalView(
        proposal["capability"],
        describe_capability(parse_capability(proposal["capability"])),
        proposal["reason"],
        proposal["warning"],
        proposal["selected"],
        proposal["writable"] is not None,
    )


def _open_marks(report: PluginTrialJson, job: TrialJob) -> list[ReadMarkJson]:
    """Return the read-only marks that are not trusted. Stored grants make another version, which has no trust yet."""
    return [
        mark for mark in report["read_marks"] if mark["tool"] not in job.trusted and (job.stored or not mark["trusted"])
    ]
