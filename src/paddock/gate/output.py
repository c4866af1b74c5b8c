"""Checks on a plugin's answer: its output schema, the artifacts that it names, and the calls that an agent proposes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from paddock.capabilities.artifacts.access import ArtifactAccess
from paddock.core.call import CallContext
from paddock.core.errors import NotFound, Problem
from paddock.gate.authorization import ProposalChecker, denied_error
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.invocation import Invocation
from paddock.manifest.capability import HostService
from paddock.manifest.model import Dialect, PluginKind
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.plugins.dialects.operator_result import stored_artifact_digests

_ARTIFACTS = HostService("artifacts")


class OutputValidator(Struct, frozen=True):
    """Checks answers. Without `artifacts` or `proposals`, as in the development host, those are not checked."""

    artifacts: ArtifactAccess | None = None
    proposals: ProposalChecker | None = None

    async def validate(self, target: CallTarget, context: CallContext, payload: Mapping[str, Any], result: Any) -> None:
        """Require that the answer to a payload fits its output schema, and that the artifacts exist that it names.

        These are handed to the caller.

        Raises:
            OutputInvalid: it does not; carries every mistake.
        """
        self.validate_schema(target, result)
        await self._pass_artifacts(target, context, payload, result)

    def validate_schema(self, target: CallTarget, result: Any) -> None:
        """Require that an answer fits its output schema.

        Raises:
            OutputInvalid: it does not.
        """
        if not target.output_is_valid(result):
            raise OutputInvalid(target.key.plugin, target.spec.name, target.output_errors(result))

    async def _pass_artifacts(
        self, target: CallTarget, context: CallContext, payload: Mapping[str, Any], result: Any
    ) -> None:
        """Hand the artifacts in an answer to the caller. Those that an operator names must exist: their hashes are
        right then.

        Raises:
            OutputInvalid: one of them is neither its plugin's nor the caller's.
        """
        if self.artifacts is None:
            return
        if _ARTIFACTS in target.manifest.capabilities:
            await self.artifacts.hand_over(target.key.plugin, context, payload, result)
        if not is_kernel_operator(target):
            return
        for digest in stored_artifact_digests(result):
            try:
                await self.artifacts.find_for_plugin(target.key.tenant, target.key.plugin, context, digest)
            except NotFound:
                missing = f"the host keeps no artifact {digest}"
                problem = Problem("artifacts", missing, "put it there first", "not_found")
                raise OutputInvalid(target.key.plugin, target.spec.name, [problem]) from None

    async def checked(self, invocation: Invocation, result: Any) -> Any:
        """The answer to a call, checked; of an agent, with the idempotency keys filled in that it hints at.

        Raises:
            OutputInvalid: it does not fit the output schema, or names artifacts that the host does not store.
            Denied: the agent proposes a call that it may not.
            InvalidIdempotencyHint: a key cannot be filled in.
        """
        target = invocation.target
        self.validate_schema(target, result)
        await self._pass_artifacts(target, invocation.context, invocation.payload, result)
        if target.manifest.kind is PluginKind.AGENT:
            return self.check_proposal(invocation, result)
        return result

    def check_proposal(self, invocation: Invocation, result: Any) -> Any:
        """The answer of an agent, its proposed calls checked and their idempotency keys filled in.

        Raises:
            Denied: it proposes a call that it may not.
            InvalidIdempotencyHint: a key cannot be filled in.
        """
        if self.proposals is None:
            return result
        found = self.proposals.first_denied(invocation.target, result)
        if found is not None:
            invocation.proposed, invocation.decision = found
            raise denied_error(invocation.decision, invocation.target, invocation.call_id, proposed=invocation.proposed)
        return self.proposals.fill_hints(invocation.target, result)


def is_kernel_operator(target: CallTarget) -> bool:
    """Whether it is an operator of the Kernel dialect, which is told the policy's decision about its call."""
    return target.manifest.kind is PluginKind.OPERATOR and target.manifest.dialect is Dialect.KERNEL
