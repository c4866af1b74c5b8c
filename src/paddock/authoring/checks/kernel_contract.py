"""The contracts of the Kernel's kinds, each check named as the Kernel's document names it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

from paddock.authoring.checks.plugin_under_test import (
    CheckedResponse,
    CheckResult,
    PluginUnderTest,
    check_output_schema,
    failed,
    passed,
    skipped,
)
from paddock.gate.idempotency.hints import fill_idempotency_hints
from paddock.manifest.effects import Effect
from paddock.manifest.model import PluginKind
from paddock.plugins.dialects.proposals import proposed_callables

UNKNOWN_OPERATOR = "Forbidden.Operator"
_ENFORCED_BY_HOST = "the host keeps this promise for every plugin of this kind; it is not checked here"
_NO_PAYLOAD = "its input schema gives no value to call it with"
_NO_PAYLOAD_HINT = "put `examples` into the schema"
_HAS_EFFECTS = "it has effects"
_EFFECTS_HINT = "--effects calls it too"


async def check_kind(subject: PluginUnderTest) -> list[CheckResult]:
    """The checks of the plugin's kind; none for a plugin that is of no Kernel kind."""
    match subject.manifest.kind:
        case PluginKind.AGENT:
            return [
                await check_agent_schema(subject),
                await check_agent_context(subject),
                await check_agent_operators(subject),
            ]
        case PluginKind.OPERATOR:
            return [
                skipped("operator idempotency", _ENFORCED_BY_HOST),
                await check_operator_permission(subject),
                await check_operator_input(subject),
                await check_operator_determinism(subject),
                await check_operator_effects(subject),
            ]
        case PluginKind.TOOL:
            return [await check_tool_purity(subject), skipped("tool caching correctness", _ENFORCED_BY_HOST)]
        case PluginKind.ADAPTER:
            return [await check_adapter_mapping(subject), skipped("adapter policy enforcement", _ENFORCED_BY_HOST)]
        case _:
            return []


def _first_payload(subject: PluginUnderTest, check: str) -> dict[str, Any] | CheckResult:
    """A payload to call it with, or why there is none."""
    if not subject.is_callable(subject.sole_callable):
        return skipped(check, f"{_HAS_EFFECTS} ({', '.join(subject.sole_callable.effects)})", _EFFECTS_HINT)
    examples = subject.sole_callable.examples()
    return examples[0] if examples else skipped(check, _NO_PAYLOAD, _NO_PAYLOAD_HINT)


# --- agents -----------------------------------------------------------------------------------------------------------


async def check_agent_schema(subject: PluginUnderTest) -> CheckResult:
    """Its answers fit its output schema, its confidence is one, and its hints at keys can be filled in."""
    name = "agent schema validation"
    if not subject.sole_callable.output_schema:
        return failed(name, "it declares no output schema", "name one in `schemas.output`")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    answer = await subject.call(subject.sole_callable, payload)
    found = check_output_schema(name, subject.sole_callable, answer)
    if found is not None:
        return found
    confidence = answer.fields.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return failed(name, "its answer has no confidence from 0 to 1", "emit `confidence`")
    wrong = fill_idempotency_hints(subject.manifest, answer.raw).problems
    return failed(name, f"{wrong[0].path} {wrong[0].message}", wrong[0].hint) if wrong else passed(name)


async def check_agent_context(subject: PluginUnderTest) -> CheckResult:
    """Without a context field that it requires it says so, and names the field."""
    name = "agent required context"
    wanted = subject.manifest.requires.context_fields
    if not wanted:
        return skipped(name, "it requires no context")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    for place in wanted:
        lacking = remove_path(payload, ("context", *place.split(".")))
        answer = await subject.call(subject.sole_callable, lacking)
        code, missing = missing_context_fields(answer)
        if code != "NEEDS_CONTEXT":
            return failed(name, f"without {place} it did not answer NEEDS_CONTEXT", "name what is missing")
        if place not in missing:
            return failed(name, f"without {place} it did not name it among what is missing: {', '.join(missing)}")
    return passed(name, ", ".join(wanted))


async def check_agent_operators(subject: PluginUnderTest) -> CheckResult:
    """It proposes nothing beyond its allowed actions, also when something else is on offer."""
    name = "agent forbidden operators"
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    allowed = subject.manifest.allowed_actions
    for registry in ([*allowed], [*allowed, UNKNOWN_OPERATOR], [UNKNOWN_OPERATOR]):
        answer = await subject.call(subject.sole_callable, {**payload, "tool_registry": registry})
        if answer.error is not None:
            return failed(name, f"it failed when {', '.join(registry)} was on offer: {answer.error.message}")
        beyond = [one for one in proposed_callables(subject.manifest, answer.raw) if one not in allowed]
        if beyond:
            return failed(name, f"it proposes {beyond[0]}, which is not among its allowed actions", "stay on the list")
    return passed(name)


def missing_context_fields(answer: CheckedResponse) -> tuple[str, list[str]]:
    """The code and the missing fields that an agent's answer names."""
    error: Any = answer.fields.get("error")
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    missing: Any = fields.get("missing") or fields.get("missing_fields") or []
    return str(fields.get("code", "")), [str(one) for one in missing]


def remove_path(payload: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A copy of the payload without the value at this place."""
    made = copy.deepcopy(dict(payload))
    inner: Any = made
    for step in path[:-1]:
        inner = cast("dict[str, Any]", inner).get(step) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        cast("dict[str, Any]", inner).pop(path[-1], None)
    return made


# --- operators --------------------------------------------------------------------------------------------------------


async def check_operator_permission(subject: PluginUnderTest) -> CheckResult:
    """Without the scopes that it declares it refuses, although the host has looked at them before."""
    name = "operator permission"
    wanted = subject.sole_callable.spec.required_scopes
    if not wanted:
        return skipped(name, "it declares no scopes", "name them in `scopes`")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    for scope in wanted:
        answer = await subject.call(subject.sole_callable, payload, scopes=[one for one in wanted if one != scope])
        if answer.code != "PERMISSION_DENIED":
            said = answer.code or "a success"
            return failed(name, f"without {scope} it answered with {said}", f"@requires_scopes({scope!r})")
    return passed(name, ", ".join(wanted))


async def check_operator_input(subject: PluginUnderTest) -> CheckResult:
    """A payload that breaks its input schema is refused, although the host has looked at it before."""
    name = "operator input validation"
    if not subject.is_callable(subject.sole_callable):
        return skipped(name, f"{_HAS_EFFECTS} ({', '.join(subject.sole_callable.effects)})", _EFFECTS_HINT)
    schema: Any = subject.sole_callable.input_schema
    if not isinstance(schema, Mapping) or not cast("Mapping[str, Any]", schema).get("required"):
        return skipped(name, "its input schema requires nothing")
    answer = await subject.call(subject.sole_callable, {})
    if answer.code != "VALIDATION_ERROR":
        return failed(name, f"an empty payload was answered with {answer.code or 'a success'}", "use read_payload")
    return passed(name)


async def check_operator_determinism(subject: PluginUnderTest) -> CheckResult:
    """Two runs with the same payload give the same result, or it discloses that they need not."""
    name = "operator determinism disclosure"
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    first, second = [await subject.call(subject.sole_callable, payload) for _ in range(2)]
    for answer in (first, second):
        if answer.error is not None:
            return failed(name, f"it answered with an error ({answer.code}): {answer.error.message}")
    told: Any = second.fields.get("nondeterminism")
    disclosed = isinstance(told, dict) and cast("dict[str, Any]", told).get("is_nondeterministic") is True
    if first.unwrapped != second.unwrapped and not disclosed:
        return failed(name, "two runs gave different results, and it does not say so", "disclose(result, reason)")
    return passed(name, "disclosed" if disclosed else "two runs gave the same")


async def check_operator_effects(subject: PluginUnderTest) -> CheckResult:
    """What it does is declared. What it could do beyond that, its cage does not let it."""
    name = "operator side effect declaration"
    if Effect.UNKNOWN in subject.sole_callable.effects:
        return failed(name, "it does not say what it changes", "list its effects")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    found = check_output_schema(name, subject.sole_callable, await subject.call(subject.sole_callable, payload))
    return found or passed(name, ", ".join(subject.sole_callable.effects))


# --- tools and adapters -----------------------------------------------------------------------------------------------


async def check_tool_purity(subject: PluginUnderTest) -> CheckResult:
    """The same payload gives the same answer, whatever was asked before it."""
    name = "tool purity"
    examples = subject.sole_callable.examples()
    if not examples:
        return skipped(name, _NO_PAYLOAD, _NO_PAYLOAD_HINT)
    order = [*range(len(examples)), *reversed(range(len(examples)))]
    seen: dict[int, Any] = {}
    for index in order:
        answer = await subject.call(subject.sole_callable, examples[index])
        found = check_output_schema(name, subject.sole_callable, answer)
        if found is not None:
            return found
        if index in seen and seen[index] != answer.unwrapped:
            return failed(name, f"example {index + 1} was answered differently the second time", "keep nothing")
        seen[index] = answer.unwrapped
    return passed(name, f"{len(order)} calls")


async def check_adapter_mapping(subject: PluginUnderTest) -> CheckResult:
    """An event from outside becomes an intent with a type."""
    name = "adapter mapping"
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    answer = await subject.call(subject.sole_callable, payload)
    found = check_output_schema(name, subject.sole_callable, answer)
    if found is not None:
        return found
    intent: Any = answer.fields.get("intent", answer.raw)
    kind = cast("dict[str, Any]", intent).get("intent_type") if isinstance(intent, dict) else None
    if not isinstance(kind, str) or not kind:
        return failed(name, "what it made of the event has no intent_type", "answer with {intent: {intent_type: …}}")
    return passed(name, kind)
