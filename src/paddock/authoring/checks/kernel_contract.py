"""The contracts of the Kernel's plugin kinds; each check is named as in the Kernel's document."""

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
_EFFECTS_HINT = "allow effects to call it too"


async def check_kind(subject: PluginUnderTest) -> list[CheckResult]:
    """Run the checks of the plugin's kind; none for a plugin that is of no Kernel kind."""
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
    """Return a payload to call it with, or the result that says why there is none."""
    if not subject.is_callable(subject.sole_callable):
        return skipped(check, f"{_HAS_EFFECTS} ({', '.join(subject.sole_callable.effects)})", _EFFECTS_HINT)
    examples = subject.sole_callable.examples()
    return examples[0] if examples else skipped(check, _NO_PAYLOAD, _NO_PAYLOAD_HINT)


# --- agents -----------------------------------------------------------------------------------------------------------


async def check_agent_schema(subject: PluginUnderTest) -> CheckResult:
    """Check that responses match the output schema, the confidence is valid, and idempotency hints can be filled in."""
    name = "agent schema validation"
    if not subject.sole_callable.output_schema:
        return failed(name, "it declares no output schema", "name one in `schemas.output`")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    response = await subject.call(subject.sole_callable, payload)
    failure = check_output_schema(name, subject.sole_callable, response)
    if failure is not None:
        return failure
    confidence = response.fields.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return failed(name, "its answer has no confidence from 0 to 1", "emit `confidence`")
    problems = fill_idempotency_hints(subject.manifest, response.raw).problems
    return failed(name, f"{problems[0].path} {problems[0].message}", problems[0].hint) if problems else passed(name)


async def check_agent_context(subject: PluginUnderTest) -> CheckResult:
    """Check that a call without a required context field fails and names the field."""
    name = "agent required context"
    required = subject.manifest.requires.context_fields
    if not required:
        return skipped(name, "it requires no context")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    for path in required:
        incomplete = remove_path(payload, ("context", *path.split(".")))
        response = await subject.call(subject.sole_callable, incomplete)
        code, missing = missing_context_fields(response)
        if code != "NEEDS_CONTEXT":
            return failed(name, f"without {path} it did not answer NEEDS_CONTEXT", "name what is missing")
        if path not in missing:
            return failed(name, f"without {path} it did not name it among what is missing: {', '.join(missing)}")
    return passed(name, ", ".join(required))


async def check_agent_operators(subject: PluginUnderTest) -> CheckResult:
    """Check that it proposes only its allowed actions, also when others are on offer."""
    name = "agent forbidden operators"
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    allowed = subject.manifest.allowed_actions
    for registry in ([*allowed], [*allowed, UNKNOWN_OPERATOR], [UNKNOWN_OPERATOR]):
        response = await subject.call(subject.sole_callable, {**payload, "tool_registry": registry})
        if response.error is not None:
            return failed(name, f"it failed when {', '.join(registry)} was on offer: {response.error.message}")
        forbidden = [name for name in proposed_callables(subject.manifest, response.raw) if name not in allowed]
        if forbidden:
            return failed(
                name, f"it proposes {forbidden[0]}, which is not among its allowed actions", "stay on the list"
            )
    return passed(name)


def missing_context_fields(response: CheckedResponse) -> tuple[str, list[str]]:
    """Return the error code and the missing fields that an agent's response names."""
    error: Any = response.fields.get("error")
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    missing: Any = fields.get("missing") or fields.get("missing_fields") or []
    return str(fields.get("code", "")), [str(item) for item in missing]


def remove_path(payload: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return a copy of the payload without the value at this path."""
    result = copy.deepcopy(dict(payload))
    inner: Any = result
    for step in path[:-1]:
        inner = cast("dict[str, Any]", inner).get(step) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        cast("dict[str, Any]", inner).pop(path[-1], None)
    return result


# --- operators --------------------------------------------------------------------------------------------------------


async def check_operator_permission(subject: PluginUnderTest) -> CheckResult:
    """Check that it refuses calls without its declared scopes, although the host checks them too."""
    name = "operator permission"
    required = subject.sole_callable.spec.required_scopes
    if not required:
        return skipped(name, "it declares no scopes", "name them in `scopes`")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    for scope in required:
        response = await subject.call(
            subject.sole_callable, payload, scopes=[other for other in required if other != scope]
        )
        if response.code != "PERMISSION_DENIED":
            outcome = response.code or "a success"
            return failed(name, f"without {scope} it answered with {outcome}", f"@requires_scopes({scope!r})")
    return passed(name, ", ".join(required))


async def check_operator_input(subject: PluginUnderTest) -> CheckResult:
    """Check that it rejects a payload that violates its input schema, although the host checks it too."""
    name = "operator input validation"
    if not subject.is_callable(subject.sole_callable):
        return skipped(name, f"{_HAS_EFFECTS} ({', '.join(subject.sole_callable.effects)})", _EFFECTS_HINT)
    schema: Any = subject.sole_callable.input_schema
    if not isinstance(schema, Mapping) or not cast("Mapping[str, Any]", schema).get("required"):
        return skipped(name, "its input schema requires nothing")
    response = await subject.call(subject.sole_callable, {})
    if response.code != "VALIDATION_ERROR":
        return failed(name, f"an empty payload was answered with {response.code or 'a success'}", "use read_payload")
    return passed(name)


async def check_operator_determinism(subject: PluginUnderTest) -> CheckResult:
    """Check that two runs with the same payload agree, or that it discloses nondeterminism."""
    name = "operator determinism disclosure"
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    first, second = [await subject.call(subject.sole_callable, payload) for _ in range(2)]
    for response in (first, second):
        if response.error is not None:
            return failed(name, f"it answered with an error ({response.code}): {response.error.message}")
    disclosure: Any = second.fields.get("nondeterminism")
    disclosed = isinstance(disclosure, dict) and cast("dict[str, Any]", disclosure).get("is_nondeterministic") is True
    if first.unwrapped != second.unwrapped and not disclosed:
        return failed(name, "two runs gave different results, and it does not say so", "disclose(result, reason)")
    return passed(name, "disclosed" if disclosed else "two runs gave the same")


async def check_operator_effects(subject: PluginUnderTest) -> CheckResult:
    """Check that its effects are declared. Undeclared ones are prevented by its cage."""
    name = "operator side effect declaration"
    if Effect.UNKNOWN in subject.sole_callable.effects:
        return failed(name, "it does not say what it changes", "list its effects")
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    failure = check_output_schema(name, subject.sole_callable, await subject.call(subject.sole_callable, payload))
    return failure or passed(name, ", ".join(subject.sole_callable.effects))


# --- tools and adapters -----------------------------------------------------------------------------------------------


async def check_tool_purity(subject: PluginUnderTest) -> CheckResult:
    """Check that the same payload always gives the same result."""
    name = "tool purity"
    examples = subject.sole_callable.examples()
    if not examples:
        return skipped(name, _NO_PAYLOAD, _NO_PAYLOAD_HINT)
    order = [*range(len(examples)), *reversed(range(len(examples)))]
    seen: dict[int, Any] = {}
    for index in order:
        response = await subject.call(subject.sole_callable, examples[index])
        failure = check_output_schema(name, subject.sole_callable, response)
        if failure is not None:
            return failure
        if index in seen and seen[index] != response.unwrapped:
            return failed(name, f"example {index + 1} was answered differently the second time", "keep nothing")
        seen[index] = response.unwrapped
    return passed(name, f"{len(order)} calls")


async def check_adapter_mapping(subject: PluginUnderTest) -> CheckResult:
    """Check that an external event becomes an intent with a type."""
    name = "adapter mapping"
    payload = _first_payload(subject, name)
    if isinstance(payload, CheckResult):
        return payload
    response = await subject.call(subject.sole_callable, payload)
    failure = check_output_schema(name, subject.sole_callable, response)
    if failure is not None:
        return failure
    intent: Any = response.fields.get("intent", response.raw)
    intent_type = cast("dict[str, Any]", intent).get("intent_type") if isinstance(intent, dict) else None
    if not isinstance(intent_type, str) or not intent_type:
        return failed(name, "what it made of the event has no intent_type", "answer with {intent: {intent_type: …}}")
    return passed(name, intent_type)
