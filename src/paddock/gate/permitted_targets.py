"""Targets that a caller may use: those that neither policy nor missing scopes forbid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

from msgspec import Struct

from paddock.core.call import CallContext
from paddock.core.errors import NotFound
from paddock.gate.authorization import Authorizer
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.manifest.model import CallableForm
from paddock.policy.decision import Allow, Ask, Deny


class PermittedTargetJson(TypedDict):
    """A callable that the caller may use: Shu's ActionMeta, and its effects."""

    name: str
    description: str
    params_schema: Annotated[Mapping[str, Any] | bool | None, "A JSON Schema."]
    required_scopes: list[str]
    requires_approval: Annotated[bool, "Whether the plugin or a rule requires approval by a person."]
    effects: list[str]


class PermittedTarget(Struct, frozen=True):
    """A target that may be called; `needs_approval` says whether a person has to approve first."""

    target: CallTarget
    needs_approval: bool

    def to_json(self) -> PermittedTargetJson:
        """Return it as JSON data, with Shu's field names for an action, plus its effects."""
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
    """Filter the targets to those that the caller may use; the others are not mentioned.

    Policy decides whether approval is needed. It knows what the plugin requests, and the stricter of both applies.
    """
    permitted: list[PermittedTarget] = []
    for target in targets:
        if target.withheld is not None or context.principal.missing_scopes(target.spec.required_scopes):
            continue
        decision = await authorizer.decide(target, context)
        if not isinstance(decision, Deny):
            permitted.append(PermittedTarget(target, isinstance(decision, Ask)))
    return permitted


async def may_call_unattended(
    context: CallContext, catalogue: Catalogue, authorizer: Authorizer, plugin: str, callable_name: str
) -> bool:
    """Whether a caller may call something now, without an approval."""
    try:
        target = catalogue.find_callable(plugin, callable_name)
    except NotFound:
        return False
    if target.withheld is not None or context.principal.missing_scopes(target.spec.required_scopes):
        return False
    return isinstance(await authorizer.decide(target, context), Allow)


def is_action(target: CallTarget) -> bool:
    """Whether a target changes something; Shu's actions always count, whatever their effects."""
    return target.spec.form is CallableForm.ACTION or not target.read_only
