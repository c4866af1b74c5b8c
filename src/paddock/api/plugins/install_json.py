"""Installations as JSON: their stage, what a person has to be shown, and their outcome."""

from __future__ import annotations

from typing import Annotated, TypedDict

from paddock.core.error_formats import ErrorJson, error_to_json
from paddock.core.errors import MistakeJson
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime
from paddock.host.plugins.install_job import InstallJob, InstallStage, InstallStopReason
from paddock.manifest.rules.dangers import DangerJson
from paddock.plugins.install.consent_screen import ConsentScreenJson
from paddock.plugins.install.plan import InstallPlan, PlanAction
from paddock.plugins.install.resolve import ResolvedPackage
from paddock.plugins.install.upgrade_difference import UpgradeDifferenceJson
from paddock.plugins.tool_pinning.normalize import TOOL
from paddock.plugins.tool_pinning.scan.findings import HintJson
from paddock.plugins.trust.signature import SignatureState


class InstallProgressJson(TypedDict):
    step: Annotated[str, "What is being done, as `copying`; empty at the start."]
    files: int
    size: Annotated[int, "In bytes."]


class InstallTermsJson(TypedDict):
    """What needs a person's consent; `confirm` repeats it."""

    digest: Annotated[str, "Of the package's files."]
    signature: Annotated[str, "The state of the signature, and its key."]
    capabilities: Annotated[list[str], "Requested, and not granted so far."]
    trust_lost: Annotated[str, "The trust in the signer that an upgrade gives up; empty if it gives up none."]
    dangers: Annotated[list[DangerJson], "The dangerous ones of `capabilities`; a person accepts each by itself."]


class InstallSignatureJson(TypedDict):
    state: SignatureState
    reason: str


class ServerFileJson(TypedDict):
    """The package of a server in one file."""

    file: Annotated[str, "The name of the file in the package."]
    written: Annotated[dict[str, str], "The files that Paddock writes beside it, by name: a manifest, and a lock."]
    answers: Annotated[bool, "Whether it answered with nothing more than is granted."]
    tools: Annotated[list[str], "The tools that it listed when it was tried."]


class MissingGrantJson(TypedDict):
    """A grant that the settings of the plugin need and that nobody has given."""

    path: Annotated[str, "The path that they name."]
    capability: Annotated[str, "The smallest grant for it."]
    writable: Annotated[str | None, "The same place for writing, which a person may choose instead."]


class InstallProposalJson(TypedDict):
    """A change that waits for consent."""

    action: Annotated[PlanAction, "What would happen."]
    name: str
    version: str
    old_version: Annotated[str, "The installed version; empty if there is none."]
    screen: Annotated[ConsentScreenJson | None, "What to show; null if no files change."]
    terms: InstallTermsJson
    separate: Annotated[list[str], "The capabilities that have to be asked for one by one, beside the question."]
    difference: Annotated[UpgradeDifferenceJson | None, "For an upgrade: what it changes of the tools and files."]
    fields: Annotated[list[str], "The configuration fields that would be replaced."]
    signature: InstallSignatureJson
    missing_grants: Annotated[
        list[MissingGrantJson], "Grants that can be added as `capabilities` of another request; none with credentials."
    ]
    warnings: list[MistakeJson]
    hints: list[HintJson]
    server: Annotated[ServerFileJson | None, "For a server in one file: the package that is made of it."]


class InstallOutcomeJson(TypedDict):
    action: PlanAction
    name: str
    version: str
    digest: str
    unset: Annotated[list[str], "Configuration fields that must be set before it can be enabled."]


class InstallJson(TypedDict):
    """An installation."""

    id: str
    what: Annotated[str, "The package, as text for people."]
    by: Annotated[str, "Who started it."]
    upgrade: Annotated[str | None, "The plugin that is upgraded."]
    started_at: DateTime
    stage: InstallStage
    progress: InstallProgressJson
    proposal: Annotated[InstallProposalJson | None, "While it waits for consent."]
    expires_at: Annotated[DateTime | None, "Until when it waits for consent."]
    outcome: Annotated[InstallOutcomeJson | None, "Once it is done."]
    error: Annotated[ErrorJson | None, "Why it failed."]
    stop_reason: Annotated[InstallStopReason | None, "Why it was cancelled."]


class InstallsJson(TypedDict):
    installs: list[InstallJson]


def install_to_json(job: InstallJob) -> InstallJson:
    """Render an installation."""
    progress, outcome = job.progress, job.outcome
    return {
        "id": job.id,
        "what": job.what,
        "by": job.by,
        "upgrade": job.upgrade,
        "started_at": job.began_at,
        "stage": job.stage,
        "progress": {"step": progress.step, "files": progress.files, "size": progress.size},
        "proposal": _proposal_json(job.proposal) if job.proposal and job.stage is InstallStage.WAITING else None,
        "expires_at": job.expires_at or None,
        "outcome": None
        if outcome is None
        else {
            "action": outcome.change,
            "name": outcome.plugin,
            "version": outcome.version,
            "digest": outcome.digest,
            "unset": list(outcome.unset),
        },
        "error": error_to_json(job.error) if job.error else None,
        "stop_reason": job.stop_reason if job.stage is InstallStage.CANCELLED else None,
    }


def _proposal_json(plan: InstallPlan) -> InstallProposalJson:
    manifest, terms, verdict = plan.package.manifest, plan.terms, plan.package.signature
    return {
        "action": plan.action,
        "name": manifest.name,
        "version": manifest.version,
        "old_version": plan.old_version,
        "screen": plan.screen.to_value() if plan.screen else None,
        "terms": {
            "digest": terms.digest,
            "signature": terms.signature,
            "capabilities": [str(capability) for capability in terms.capabilities],
            "trust_lost": terms.trust_lost,
            "dangers": [danger.to_value() for danger in terms.dangers],
        },
        "separate": [str(capability) for capability in plan.separate_capabilities],
        "difference": plan.difference.to_value() if plan.action is PlanAction.UPGRADE else None,
        "fields": list(plan.fields),
        "signature": {"state": verdict.state, "reason": verdict.reason},
        "missing_grants": [
            {
                "path": one.path,
                "capability": str(one.capability),
                "writable": str(one.writable) if one.writable else None,
            }
            for one in plan.offered_grants
        ],
        "warnings": [problem.to_dict() for problem in plan.warnings],
        "hints": [finding.to_value() for finding in plan.package.scan_findings],
        "server": _server_json(plan.package),
    }


def _server_json(package: ResolvedPackage) -> ServerFileJson | None:
    if package.server_file is None or package.trial is None:
        return None
    from paddock.plugins.install.server_file import written_files

    return {
        "file": package.server_file.packaged_name,
        "written": written_files(package.manifest, package.lock),
        "answers": package.trial.failure is None,
        "tools": [printable(one.name, 200) for one in package.trial.definitions or () if one.kind == TOOL],
    }
