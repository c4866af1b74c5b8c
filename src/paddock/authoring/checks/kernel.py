"""The contracts of the Kernel's kinds, each check named as the Kernel's document names it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

from paddock.authoring.checks.calls import judge
from paddock.authoring.checks.finding import Finding, failed, passed, skipped
from paddock.authoring.checks.subject import Answer, Subject
from paddock.gate.proposed_keys import with_keys
from paddock.manifest.effects import Effect
from paddock.manifest.model import Kind
from paddock.plugins.runtimes.proposals import proposed

FORBIDDEN = "Forbidden.Operator"
_HOSTS = "the host keeps this promise for every plugin of this kind; it is not checked here"
_NO_PAYLOAD = "its input schema gives no value to call it with"
_NO_PAYLOAD_HINT = "put `examples` into the schema"
_EFFECTS = "it has effects"
_EFFECTS_HINT = "--effects calls it too"


async def check_kind(subject: Subject) -> list[Finding]:
    """The checks of the plugin's kind; none for a plugin that is of no Kernel kind."""
    match subject.manifest.kind:
        case Kind.AGENT:
            return [await agent_schema(subject), await agent_context(subject), await agent_operators(subject)]
        case Kind.OPERATOR:
            return [
                skipped("operator idempotency", _HOSTS),
                await operator_permission(subject),
                await operator_input(subject),
                await operator_determinism(subject),
                await operator_effects(subject),
            ]
        case Kind.TOOL:
            return [await tool_purity(subject), skipped("tool caching correctness", _HOSTS)]
        case Kind.ADAPTER:
            return [await adapter_mapping(subject), skipped("adapter policy enforcement", _HOSTS)]
        case _:
            return []


def _first(subject: Subject, check: str) -> dict[str, Any] | Finding:
    """A payload to call it with, or why there is none."""
    if not subject.may_call(subject.only):
        return skipped(check, f"{_EFFECTS} ({', '.join(subject.only.effects)})", _EFFECTS_HINT)
    examples = subject.only.examples()
    return examples[0] if examples else skipped(check, _NO_PAYLOAD, _NO_PAYLOAD_HINT)


# --- agents -----------------------------------------------------------------------------------------------------------


async def agent_schema(subject: Subject) -> Finding:
    """Its answers fit its output schema, its confidence is one, and its hints at keys can be filled in."""
    name = "agent schema validation"
    if not subject.only.output_schema:
        return failed(name, "it declares no output schema", "name one in `schemas.output`")
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    answer = await subject.call(subject.only, payload)
    found = judge(name, subject.only, answer)
    if found is not None:
        return found
    confidence = answer.fields.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return failed(name, "its answer has no confidence from 0 to 1", "emit `confidence`")
    wrong = with_keys(subject.manifest, answer.raw).problems
    return failed(name, f"{wrong[0].path} {wrong[0].message}", wrong[0].hint) if wrong else passed(name)


async def agent_context(subject: Subject) -> Finding:
    """Without a context field that it requires it says so, and names the field."""
    name = "agent required context"
    wanted = subject.manifest.requires.context_fields
    if not wanted:
        return skipped(name, "it requires no context")
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    for place in wanted:
        lacking = without(payload, ("context", *place.split(".")))
        answer = await subject.call(subject.only, lacking)
        code, missing = needs_context(answer)
        if code != "NEEDS_CONTEXT":
            return failed(name, f"without {place} it did not answer NEEDS_CONTEXT", "name what is missing")
        if place not in missing:
            return failed(name, f"without {place} it did not name it among what is missing: {', '.join(missing)}")
    return passed(name, ", ".join(wanted))


async def agent_operators(subject: Subject) -> Finding:
    """It proposes nothing beyond its allowed actions, also when something else is on offer."""
    name = "agent forbidden operators"
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    allowed = subject.manifest.allowed_actions
    for registry in ([*allowed], [*allowed, FORBIDDEN], [FORBIDDEN]):
        answer = await subject.call(subject.only, {**payload, "tool_registry": registry})
        if answer.error is not None:
            return failed(name, f"it failed when {', '.join(registry)} was on offer: {answer.error.message}")
        beyond = [one for one in proposed(subject.manifest, answer.raw) if one not in allowed]
        if beyond:
            return failed(name, f"it proposes {beyond[0]}, which is not among its allowed actions", "stay on the list")
    return passed(name)


def needs_context(answer: Answer) -> tuple[str, list[str]]:
    """The code and the missing fields that an agent's answer names."""
    error: Any = answer.fields.get("error")
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    missing: Any = fields.get("missing") or fields.get("missing_fields") or []
    return str(fields.get("code", "")), [str(one) for one in missing]


def without(payload: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A copy of the payload without the value at this place."""
    made = copy.deepcopy(dict(payload))
    inner: Any = made
    for step in path[:-1]:
        inner = cast("dict[str, Any]", inner).get(step) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        cast("dict[str, Any]", inner).pop(path[-1], None)
    return made


# --- operators --------------------------------------------------------------------------------------------------------


async def operator_permission(subject: Subject) -> Finding:
    """Without the scopes that it declares it refuses, although the host has looked at them before."""
    name = "operator permission"
    wanted = subject.only.spec.required_scopes
    if not wanted:
        return skipped(name, "it declares no scopes", "name them in `scopes`")
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    for scope in wanted:
        answer = await subject.call(subject.only, payload, scopes=[one for one in wanted if one != scope])
        if answer.code != "PERMISSION_DENIED":
            said = answer.code or "a success"
            return failed(name, f"without {scope} it answered with {said}", f"@requires_scopes({scope!r})")
    return passed(name, ", ".join(wanted))


async def operator_input(subject: Subject) -> Finding:
    """A payload that breaks its input schema is refused, although the host has looked at it before."""
    name = "operator input validation"
    if not subject.may_call(subject.only):
        return skipped(name, f"{_EFFECTS} ({', '.join(subject.only.effects)})", _EFFECTS_HINT)
    schema: Any = subject.only.input_schema
    if not isinstance(schema, Mapping) or not cast("Mapping[str, Any]", schema).get("required"):
        return skipped(name, "its input schema requires nothing")
    answer = await subject.call(subject.only, {})
    if answer.code != "VALIDATION_ERROR":
        return failed(name, f"an empty payload was answered with {answer.code or 'a success'}", "use read_payload")
    return passed(name)


async def operator_determinism(subject: Subject) -> Finding:
    """Two runs with the same payload give the same result, or it discloses that they need not."""
    name = "operator determinism disclosure"
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    first, second = [await subject.call(subject.only, payload) for _ in range(2)]
    for answer in (first, second):
        if answer.error is not None:
            return failed(name, f"it answered with an error ({answer.code}): {answer.error.message}")
    told: Any = second.fields.get("nondeterminism")
    disclosed = isinstance(told, dict) and cast("dict[str, Any]", told).get("is_nondeterministic") is True
    if first.inside != second.inside and not disclosed:
        return failed(name, "two runs gave different results, and it does not say so", "disclose(result, reason)")
    return passed(name, "disclosed" if disclosed else "two runs gave the same")


async def operator_effects(subject: Subject) -> Finding:
    """What it does is declared. What it could do beyond that, its cage does not let it."""
    name = "operator side effect declaration"
    if Effect.UNKNOWN in subject.only.effects:
        return failed(name, "it does not say what it changes", "list its effects")
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    found = judge(name, subject.only, await subject.call(subject.only, payload))
    return found or passed(name, ", ".join(subject.only.effects))


# --- tools and adapters -----------------------------------------------------------------------------------------------


async def tool_purity(subject: Subject) -> Finding:
    """The same payload gives the same answer, whatever was asked before it."""
    name = "tool purity"
    examples = subject.only.examples()
    if not examples:
        return skipped(name, _NO_PAYLOAD, _NO_PAYLOAD_HINT)
    order = [*range(len(examples)), *reversed(range(len(examples)))]
    seen: dict[int, Any] = {}
    for index in order:
        answer = await subject.call(subject.only, examples[index])
        found = judge(name, subject.only, answer)
        if found is not None:
            return found
        if index in seen and seen[index] != answer.inside:
            return failed(name, f"example {index + 1} was answered differently the second time", "keep nothing")
        seen[index] = answer.inside
    return passed(name, f"{len(order)} calls")


async def adapter_mapping(subject: Subject) -> Finding:
    """An event from outside becomes an intent with a type."""
    name = "adapter mapping"
    payload = _first(subject, name)
    if isinstance(payload, Finding):
        return payload
    answer = await subject.call(subject.only, payload)
    found = judge(name, subject.only, answer)
    if found is not None:
        return found
    intent: Any = answer.fields.get("intent", answer.raw)
    kind = cast("dict[str, Any]", intent).get("intent_type") if isinstance(intent, dict) else None
    if not isinstance(kind, str) or not kind:
        return failed(name, "what it made of the event has no intent_type", "answer with {intent: {intent_type: …}}")
    return passed(name, kind)
