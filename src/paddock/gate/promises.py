"""What an answer has to be before anybody gets it: as its plugin promised, and proposing nothing that may not be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.errors import NotFound, Problem
from paddock.gate.beside import KeepsArtifacts
from paddock.gate.catalogue import Target
from paddock.gate.course import Course
from paddock.gate.deciding import refusal
from paddock.gate.whitelists import Proposals
from paddock.manifest.model import Dialect, Kind
from paddock.plugins.runtimes.envelopes import OutputInvalid
from paddock.plugins.runtimes.operator_answers import kept_here


@dataclass(slots=True)
class Promises:
    """Looks at answers. `artifacts` knows what the host keeps, and `proposals` what agents may propose: without these
    nobody looks, as when an author tries something of theirs."""

    artifacts: KeepsArtifacts | None = None
    proposals: Proposals | None = None

    async def require(self, target: Target, result: Any) -> None:
        """Refuse an answer that is not what was promised.

        Raises:
            OutputInvalid: all that is wrong with it.
        """
        self.require_shape(target, result)
        if answers_as_operator(target):
            await self.require_artifacts(target, result)

    def require_shape(self, target: Target, result: Any) -> None:
        """Refuse an answer that does not fit its schema.

        Raises:
            OutputInvalid: it does not.
        """
        if not target.keeps_to(result):
            raise OutputInvalid(target.key.plugin, target.spec.name, target.broken_by(result))

    async def require_artifacts(self, target: Target, result: Any) -> None:
        """See to it that the host has what an operator says to have left with it; then its hash is the right one.

        Raises:
            OutputInvalid: it has not.
        """
        if self.artifacts is None:
            return
        for digest in kept_here(result):
            try:
                await self.artifacts.kept(target.key.tenant, digest)
            except NotFound:
                missing = f"the host keeps no artifact {digest}"
                problem = Problem("artifacts", missing, "put it there first", "not_found")
                raise OutputInvalid(target.key.plugin, target.spec.name, [problem]) from None

    def proposal(self, course: Course, result: Any) -> Any:
        """The answer of an agent, which may propose that others do something, with the keys that it hints at.

        Raises:
            Denied: it proposes what it may not.
            BadHint: a key cannot be filled in.
        """
        if self.proposals is None:
            return result
        found = self.proposals.denied(course.target, result)
        if found is not None:
            course.proposed, course.decision = found
            raise refusal(course.decision, course.target, course.call, proposed=course.proposed)
        return self.proposals.with_keys(course.target, result)


def answers_as_operator(target: Target) -> bool:
    """Whether it answers as the Kernel's document has it, and is told what the rules said of its call."""
    return target.manifest.kind is Kind.OPERATOR and target.manifest.dialect is Dialect.KERNEL
