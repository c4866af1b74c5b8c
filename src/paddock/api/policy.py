"""`/policy`: the rules in force, and their decision on a hypothetical call; for operators of a tenant."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from typing import Annotated, Literal, NotRequired, TypedDict, cast

from starlette.requests import Request

from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.policy.hypothetical_call import HypotheticalCall
from paddock.policy.explain import DecisionJson
from paddock.policy.rules import Rule, RuleJson
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import MAX_NAME_CHARS, OPERATOR, TENANT_PARAM, ApiRoute, JsonResponse, RequestBody
from paddock.web.routing.validation import validated_body

_MAX_WORDS = 50

_Name = Annotated[str, MemberConstraint(max_length=MAX_NAME_CHARS)]
_Words = Annotated[list[_Name], MemberConstraint(max_items=_MAX_WORDS)]


class PolicyRuleJson(RuleJson):
    """A policy rule with its source."""

    asks: Annotated[
        Literal["confirmation", "consent", "action", "gate"] | None,
        "The approval that it requires; null if it permits or forbids by itself.",
    ]
    fixed: Annotated[bool, "Whether a custom rule with the same id cannot replace it."]
    source: Annotated[str, "The rule in Cedar."]


class PolicyJson(TypedDict):
    """The rules in force."""

    version: str
    rules: list[PolicyRuleJson]
    load_error: Annotated[str | None, "Why the rules in the files are not in force; null if they are."]


class PolicyTryBody(TypedDict):
    name: Annotated[_Name, "A callable, such as `notes.add`; it need not be installed."]
    principal: NotRequired[
        Annotated[_Name, "The caller, such as `user:ann`, or `role:guest` for that role alone; you by default."]
    ]
    roles: NotRequired[Annotated[_Words, "Additional roles of the caller."]]
    groups: NotRequired[Annotated[_Words, "Additional groups of the caller."]]
    effects: NotRequired[Annotated[_Words, "Effects of the callable, instead of the declared ones."]]
    tags: NotRequired[Annotated[_Words, "Policy tags of the callable, instead of its own."]]
    flags: NotRequired[Annotated[_Words, "Suspicious-text flags of the callable, instead of the detected ones."]]
    kind: NotRequired[Annotated[_Name, "The kind of its plugin."]]
    consented: NotRequired[Annotated[bool, "Whether the caller consented to it."]]
    allowlisted: NotRequired[Annotated[bool, "Whether it is on the agent's allowlist."]]
    background: NotRequired[Annotated[bool, "Whether it is a call in the background."]]


class TriedTargetJson(TypedDict):
    """The callable that was decided on."""

    effects: list[str]
    tags: list[str]
    flags: list[str]
    installed: Annotated[bool, "Whether it exists; otherwise it is as the request describes it."]


class PolicyTryJson(DecisionJson):
    """The decision on a hypothetical call."""

    roles: Annotated[list[str], "All roles of the caller."]
    target: TriedTargetJson


class PolicyRoutes:
    """Routes that show and try the rules in force."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/policy",
                self.show_rules,
                "Show the policy rules in force",
                "All rules of this host. `origin` has a directory for operators of the tenant `default` only.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/policy/try",
                self.try_call,
                "Decide a hypothetical call",
                "The decision, the rules behind it, and what would change it. Nothing is called or recorded.",
                query=TENANT_PARAM,
                request_body=RequestBody(PolicyTryBody, {"name": "notes.add", "principal": "role:guest"}),
                access=OPERATOR,
            ),
        ]

    async def show_rules(self, request: Request) -> JsonResponse[PolicyJson]:
        tenant, active = await request_tenant(self._host, request), self._host.policy.active
        rules, error = active.policy.rules, active.load_error
        listed = await asyncio.to_thread(lambda: [_rule_json(rule, tenant) for rule in rules.rules])
        return JsonResponse({"version": rules.version, "rules": listed, "load_error": _load_error_text(error, tenant)})

    async def try_call(self, request: Request) -> JsonResponse[PolicyTryJson]:
        body, principal = validated_body(request, PolicyTryBody), (await call_context(self._host, request)).principal
        call = HypotheticalCall(
            body.get("principal", principal.id),
            body["name"],
            roles=tuple(body.get("roles", ())),
            groups=tuple(body.get("groups", ())),
            effects=tuple(body.get("effects", ())),
            tags=tuple(body.get("tags", ())),
            flags=tuple(body.get("flags", ())),
            kind=body.get("kind", ""),
            consented=body.get("consented", False),
            allowlisted=body.get("allowlisted", False),
            background=body.get("background", False),
        )
        tried = await self._host.policy.rules.try_call(principal, call)
        decision, target = tried.explanation.to_value(), tried.target
        rules = [_hide_directory(rule, principal.tenant) for rule in decision["rules"]]
        return JsonResponse(
            {
                **decision,
                "rules": rules,
                "roles": sorted(tried.subject.roles),
                "target": {
                    "effects": sorted(target.effects),
                    "tags": sorted(target.traits.tags),
                    "flags": sorted(target.flags),
                    "installed": tried.installed,
                },
            }
        )


def _rule_json(rule: Rule, tenant: Tenant) -> PolicyRuleJson:
    """Serialize a rule. Parses it, so do not call it on the event loop."""
    asks = rule.wanted.kind if rule.asks else None
    return {**_hide_directory(rule.to_json(), tenant), "asks": asks, "fixed": rule.fixed, "source": rule.source}


def _load_error_text(error: PaddockError | None, tenant: Tenant) -> str | None:
    """Return why the rules on disk are not in force; without file names, unless the tenant operates this host."""
    if error is None:
        return None
    return error.message if tenant == DEFAULT_TENANT else "the rules on disk have a mistake; older ones are in force"


def _hide_directory(rule: RuleJson, tenant: Tenant) -> RuleJson:
    """Leave out the directory of the rule's file, unless the tenant operates this host."""
    return rule if tenant == DEFAULT_TENANT else cast("RuleJson", {**rule, "origin": PurePath(rule["origin"]).name})
