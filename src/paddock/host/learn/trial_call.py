"""A tool that a person lets a trial call. The call is real: it is decided by the rules and checked by its schema.

Needs that only a call shows, such as a file that a server opens when it is asked for it, are observed this way. It does
not pass the gate: there is no idempotency record and no approval request, and the trial's own ledger entry names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.errors import Conflict, Invalid, NotFound, PaddockError, PluginError
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.authorization import Authorizer, denied_error
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.host.learn.trial_run import TRIAL_CALL_PREFIX, TrialRun
from paddock.host.plugins.tool_records import parse_tool
from paddock.manifest.effects import Claim
from paddock.manifest.model import CallableSpec
from paddock.plugins.store.lookup import load_schema
from paddock.plugins.tool_pinning.normalize import TOOL, Definition
from paddock.plugins.tool_pinning.offer import apply_manifest
from paddock.policy.decision import Ask, Deny
from paddock.rpc.errors import PeerLost, RpcError
from paddock.runtime.deployment import Deployment
from paddock.runtime.errors import describe_error

_MAX_NAMES_LISTED = 12


class TrialCall(Struct, frozen=True):
    """A call that a person wants a trial to make: the tool, its parameters, and who calls.

    `package` is the directory of the plugin's files, which may hold the tool's schema.
    """

    tool: str
    payload: Mapping[str, Any]
    context: CallContext
    package: Path = Path()


class TrialCallOutcome(Struct, frozen=True):
    """What came of a call.

    Attributes:
        failure: Why it failed; None if it succeeded.
        repeatable: Whether it may be made once more: the tool only reads, or says so.
    """

    failure: PaddockError | None
    repeatable: bool


async def make_trial_call(
    trial: TrialRun,
    deployment: Deployment,
    definitions: Sequence[Definition] | None,
    call: TrialCall,
    authorizer: Authorizer,
) -> TrialCallOutcome:
    """Call the tool that the person named, if the rules let them.

    Args:
        trial: The process.
        deployment: The plugin as it is tried.
        definitions: What its server lists; None if its manifest declares its tools.
        call: The call.
        authorizer: Decides about it.

    Raises:
        NotFound: there is no such tool.
        Invalid: the parameters do not fit; carries every mistake.
        Denied: the rules forbid it.
        Conflict: the rules want the approval of somebody else.
    """
    target = _find_target(deployment, definitions, call)
    if problems := target.input.errors(call.payload):
        raise Invalid(f"the parameters of {target.title} are not valid", problems, code="invalid_params")
    decision = await authorizer.decide(target, call.context)
    if isinstance(decision, Deny):
        denied = denied_error(decision, target, CallId(f"{TRIAL_CALL_PREFIX}{call.context.request}"))
        raise denied.with_remedy(hint=denied.hint, action=None)  # it is no call of the ledger, which could be explained
    if isinstance(decision, Ask) and decision.kind != "confirmation":
        message = f"{target.title} needs the approval of other people: {decision.reason}"
        action = Action.of("plugin.enable", plugin=deployment.name, tenant=deployment.key.tenant)
        raise Conflict(message, code="trial.needs_approval", action=action)
    failure: PaddockError | None = None
    try:
        await trial.call(target.spec, call.payload, call.context)
    except PaddockError as error:
        failure = error
    except (RpcError, PeerLost, TimeoutError) as error:
        failure = PluginError(f"{target.title} did not answer: {describe_error(error)}", code="plugin.crashed")
    return TrialCallOutcome(failure, target.read_only or target.claim is Claim.READS)


def _find_target(deployment: Deployment, definitions: Sequence[Definition] | None, call: TrialCall) -> CallTarget:
    manifest, name = deployment.manifest, call.tool
    if definitions is None:
        specs = {spec.name: spec for spec in manifest.callables}
    else:
        listed = (parse_tool(one.raw) for one in definitions if one.kind == TOOL)
        declared = {spec.name: spec for spec in manifest.callables}
        specs = {
            one.name: apply_manifest(one, declared.get(one.name)) for one in listed if isinstance(one, CallableSpec)
        }
    spec = specs.get(name)
    if spec is None:
        offered = ", ".join(printable(one, 80) for one in list(specs)[:_MAX_NAMES_LISTED])
        raise NotFound(
            f"{deployment.name} has no tool {printable(name)!r}",
            code="callable.not_found",
            hint=f"it offers: {offered}" if offered else "",
            details={"plugin": deployment.name},
        )
    granted = replace(manifest, callables=(spec,), capabilities=deployment.capabilities)
    schemas = CallableSchemas(*(load_schema(one, call.package) for one in (spec.input_schema, spec.output_schema)))
    return CallTarget(CatalogueEntry(deployment.key, granted, {spec.name: schemas}), spec)
