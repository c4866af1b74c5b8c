"""What an answer has to be before anybody gets it: as its plugin promised, and proposing nothing that may not be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.errors import NotFound, Problem
from paddock.gate.authorization import ProposalChecker, denied_error
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.invocation import Invocation
from paddock.gate.ports import ArtifactLookup
from paddock.manifest.model import Dialect, PluginKind
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.plugins.dialects.operator_result import stored_artifact_digests


@dataclass(slots=True)
class OutputValidator:
    """Looks at answers. `artifacts` knows what the host keeps, and `proposals` what agents may propose: without these
    nobody looks, as when an author tries something of theirs."""

    artifacts: ArtifactLookup | None = None
    proposals: ProposalChecker | None = None

    async def validate(self, target: CallTarget, result: Any) -> None:
        """Refuse an answer that is not what was promised.

        Raises:
            OutputInvalid: all that is wrong with it.
        """
        self.validate_schema(target, result)
        if is_kernel_operator(target):
            await self.validate_artifacts(target, result)

    def validate_schema(self, target: CallTarget, result: Any) -> None:
        """Refuse an answer that does not fit its schema.

        Raises:
            OutputInvalid: it does not.
        """
        if not target.output_is_valid(result):
            raise OutputInvalid(target.key.plugin, target.spec.name, target.output_errors(result))

    async def validate_artifacts(self, target: CallTarget, result: Any) -> None:
        """See to it that the host has what an operator says to have left with it; then its hash is the right one.

        Raises:
            OutputInvalid: it has not.
        """
        if self.artifacts is None:
            return
        for digest in stored_artifact_digests(result):
            try:
                await self.artifacts.find(target.key.tenant, digest)
            except NotFound:
                missing = f"the host keeps no artifact {digest}"
                problem = Problem("artifacts", missing, "put it there first", "not_found")
                raise OutputInvalid(target.key.plugin, target.spec.name, [problem]) from None

    def check_proposal(self, course: Invocation, result: Any) -> Any:
        """The answer of an agent, which may propose that others do something, with the keys that it hints at.

        Raises:
            Denied: it proposes what it may not.
            BadHint: a key cannot be filled in.
        """
        if self.proposals is None:
            return result
        found = self.proposals.first_denied(course.target, result)
        if found is not None:
            course.proposed, course.decision = found
            raise denied_error(course.decision, course.target, course.call_id, proposed=course.proposed)
        return self.proposals.fill_hints(course.target, result)


def is_kernel_operator(target: CallTarget) -> bool:
    """Whether it answers as the Kernel's document has it, and is told what the rules said of its call."""
    return target.manifest.kind is PluginKind.OPERATOR and target.manifest.dialect is Dialect.KERNEL
