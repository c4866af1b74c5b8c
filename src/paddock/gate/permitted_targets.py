"""What somebody may call: everything that neither the rules nor its scopes keep from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paddock.core.call import CallContext
from paddock.gate.authorization import Authorizer
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.manifest.model import CallableForm
from paddock.policy.decision import Ask, Deny


@dataclass(frozen=True, slots=True)
class PermittedTarget:
    """Something that may be called; `asks` says whether a person has to say yes first."""

    target: CallTarget
    needs_approval: bool

    def to_json(self) -> dict[str, Any]:
        """In Shu's words for an action, with what it changes beside them."""
        spec = self.target.spec
        return {
            "name": spec.name,
            "description": spec.description,
            "params_schema": self.target.schemas.input,
            "required_scopes": list(spec.required_scopes),
            "requires_approval": self.needs_approval,
            "effects": list(self.target.effects),
        }


async def permitted_targets(
    context: CallContext, targets: Iterable[CallTarget], authorizer: Authorizer
) -> list[PermittedTarget]:
    """Those that whoever acts in this context may call; of what they may not, nothing is said.

    Whether a person is asked is decided by the rules, which know what the plugin wants: the stricter of both.
    """
    permitted: list[PermittedTarget] = []
    for target in targets:
        if target.withheld is not None or context.principal.missing_scopes(target.spec.required_scopes):
            continue
        decision = await authorizer.decide(target, context)
        if not isinstance(decision, Deny):
            permitted.append(PermittedTarget(target, isinstance(decision, Ask)))
    return permitted


def is_action(target: CallTarget) -> bool:
    """Whether it is called to change something: Shu's actions are, whatever they change."""
    return target.spec.form is CallableForm.ACTION or not target.read_only
