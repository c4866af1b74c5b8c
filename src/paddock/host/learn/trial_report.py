"""What came of a trial, as the API returns it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, TypedDict

from paddock.cage.learn.proposal import GrantProposal
from paddock.core.action import ActionJson
from paddock.core.errors import PaddockError
from paddock.host.learn.learning_trial import TrialResult
from paddock.host.learn.read_marks import ReadMarkJson, find_read_marks
from paddock.plugins.tool_pinning.tool_trust import ToolTrustRow
from paddock.runtime.deployment import Deployment


class GrantProposalJson(TypedDict):
    """A grant that would have let the plugin do what it tried."""

    capability: str
    reason: Annotated[str, "Why it is proposed."]
    named: Annotated[bool, "Whether the plugin's settings name what it grants."]
    selected: Annotated[bool, "Whether it is ticked before a person has looked at it."]
    warning: Annotated[str, "Why it is dangerous; empty if it is not."]
    writable: Annotated[str | None, "The same place for writing, which a person may choose instead."]


class ObstacleJson(TypedDict):
    """Something that the plugin tried and that no grant allows."""

    message: str
    hint: str
    saves: Annotated[bool, "Whether it is a file that it writes where it cannot, so that its calls would fail."]


class TrialFailureJson(TypedDict):
    """Why the plugin did not answer."""

    code: str
    message: str
    hint: str
    action: ActionJson | None


class TrialCallJson(TypedDict):
    """The call that a person wanted, which was really made."""

    tool: str
    succeeded: Annotated[bool, "Whether it succeeded, with what is granted."]
    failure: Annotated[TrialFailureJson | None, "Why it failed."]
    times: Annotated[int, "How often it was made; once, unless the tool only reads or says so."]


class PluginTrialJson(TypedDict):
    """What came of trying a plugin."""

    name: str
    version: str
    answers: Annotated[bool, "Whether it starts and says what it offers, with what is granted."]
    tools: Annotated[int | None, "How many tools it offers; null if it does not answer."]
    passes: Annotated[int, "How often it was started."]
    failure: Annotated[TrialFailureJson | None, "Why it does not answer."]
    granted: Annotated[list[str], "What it was tried with."]
    proposals: list[GrantProposalJson]
    widenable: Annotated[
        list[str], "Grants to change what it may only read so far: places that its settings name. None is proposed."
    ]
    obstacles: list[ObstacleJson]
    unneeded: Annotated[list[str], "Of the grants for this trial: those it answers without."]
    read_marks: Annotated[list[ReadMarkJson], "Its tools that say that they only read, if a person could trust that."]
    grantable: Annotated[bool, "Whether grants can be added to it as it is installed."]
    call: Annotated[TrialCallJson | None, "What came of the call, if one was wanted and the plugin answers."]


def trial_to_json(
    deployment: Deployment, result: TrialResult, trust: Collection[ToolTrustRow], *, grantable: bool
) -> PluginTrialJson:
    """Render a trial.

    Args:
        deployment: The plugin as it was tried.
        result: What came of it.
        trust: What people took its word for.
        grantable: Whether grants can be added to it as it is installed.
    """
    manifest, learned, outcome, failure = deployment.manifest, result.learned, result.outcome, result.failure
    return {
        "name": manifest.name,
        "version": manifest.version,
        "answers": outcome is not None,
        "tools": outcome.tools if outcome is not None else None,
        "passes": result.passes,
        "failure": _failure_to_json(failure) if failure is not None else None,
        "granted": [str(one) for one in deployment.capabilities],
        "proposals": [_proposal_to_json(one) for one in learned.proposals],
        "widenable": [str(one) for one in learned.widenable],
        "obstacles": [{"message": one.message, "hint": one.hint, "saves": one.saves} for one in learned.obstacles],
        "unneeded": [str(one) for one in result.unneeded],
        "read_marks": find_read_marks(deployment, outcome.definitions or (), trust) if outcome is not None else [],
        "grantable": grantable,
        "call": _call_to_json(result),
    }


def _call_to_json(result: TrialResult) -> TrialCallJson | None:
    if result.outcome is None or result.outcome.call is None:
        return None
    error = result.outcome.call.failure
    failure = _failure_to_json(error) if error else None
    return {"tool": result.tool, "succeeded": error is None, "failure": failure, "times": result.calls_made}


def _failure_to_json(error: PaddockError) -> TrialFailureJson:
    action = error.action.to_json() if error.action else None
    return {"code": error.error_code, "message": error.message, "hint": error.hint, "action": action}


def _proposal_to_json(proposal: GrantProposal) -> GrantProposalJson:
    return {
        "capability": str(proposal.capability),
        "reason": proposal.reason,
        "named": proposal.named,
        "selected": proposal.selected,
        "warning": proposal.warning,
        "writable": str(proposal.writable) if proposal.writable else None,
    }
