"""Calling everything that may be called, with payloads that its own schemas give."""

from __future__ import annotations

from paddock.authoring.checks.finding import Finding, failed, passed, skipped
from paddock.authoring.checks.subject import Answer, Offer, Subject
from paddock.core.errors import NotFound, PaddockError, TimedOut
from paddock.core.printable import printable

# Bytes that are kept for an answer to name them change nothing that anybody had before.
CHANGES = ("storage.exec", "storage.begin", "storage.commit", "keyvalue.put", "keyvalue.delete", "artifacts.delete")


async def check_calls(subject: Subject) -> list[Finding]:
    """One finding for each callable."""
    return [await _check(subject, one) for one in subject.callables]


async def _check(subject: Subject, one: Offer) -> Finding:
    name = f"call {one.spec.name}"
    if not subject.may_call(one):
        return skipped(name, f"it has effects ({', '.join(one.effects)})", "--effects calls it too")
    examples = one.examples()
    if not examples:
        return skipped(name, "its input schema gives no value to call it with", "put `examples` into the schema")
    for payload in examples:
        found = judge(name, one, await subject.call(one, payload))
        if found is not None:
            return found
    return passed(name, f"{len(examples)} examples" if len(examples) > 1 else "")


def judge(name: str, one: Offer, answer: Answer) -> Finding | None:
    """What is wrong with an answer to a payload that fits; None when nothing is."""
    used = [method for method in answer.asked if method in CHANGES]
    if one.spec.effects is not None and one.harmless and used:
        return failed(name, f"it declares that it changes nothing, and used {used[0]}", "declare the effect: db_write")
    if answer.error is not None:
        said = printable(answer.error.message, 300)
        return failed(name, f"it answered with an error ({answer.code}): {said}", _advice(answer.error))
    broken = one.broken(answer.inside)
    if broken:
        return failed(name, f"the answer breaks its output schema: {broken[0]}", "mend the answer, or the schema")
    return None


def _advice(error: PaddockError) -> str:
    """What its author can do. No payload is to blame for a callable that is not there, or does not answer."""
    if isinstance(error, NotFound) and error.error_code == "method_not_found":
        return "serve it under the name that the manifest declares"
    if isinstance(error, TimedOut):
        return ""
    return "if the payload made up from its schema is at fault, put `examples` into the schema"
