"""What one check found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from paddock.authoring.example_values import generate_examples
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Invalid, NotFound, PaddockError, Problem, TimedOut
from paddock.core.ids import AgentPath, PrincipalId, ProjectId, RequestId, SessionId
from paddock.core.printable import printable
from paddock.core.schema.compile import compile_schema
from paddock.host.dev.trial_run import TrialRun
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Manifest
from paddock.manifest.permissions import callable_effects
from paddock.plugins.dialects.envelope import raise_if_failed, result_value


class CheckVerdict(StrEnum):
    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check by its name, how it came out, and why."""

    check: str
    verdict: CheckVerdict
    why: str = ""
    hint: str = ""

    def to_value(self) -> dict[str, Any]:
        return {"check": self.check, "verdict": self.verdict.value, "why": self.why, "hint": self.hint}


def passed(check: str, why: str = "") -> CheckResult:
    return CheckResult(check, CheckVerdict.PASS, why)


def failed(check: str, why: str, hint: str = "") -> CheckResult:
    return CheckResult(check, CheckVerdict.FAIL, why, hint)


def skipped(check: str, why: str, hint: str = "") -> CheckResult:
    return CheckResult(check, CheckVerdict.SKIP, why, hint)


@dataclass(frozen=True, slots=True)
class CallableUnderTest:
    """Something to call, with the schemas that it is judged by."""

    spec: CallableSpec
    input_schema: Any
    output_schema: Any
    effects: tuple[Effect, ...]

    @property
    def read_only(self) -> bool:
        return set(self.effects) <= {Effect.READ_ONLY}

    def examples(self) -> list[dict[str, Any]]:
        """Payloads that fit its input; empty where none could be found."""
        try:
            found = generate_examples(self.input_schema or {"type": "object"})
        except Invalid:
            return []
        return [cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]

    def output_errors(self, answer: Any) -> list[Problem]:
        """What its output schema says against an answer."""
        try:
            return compile_schema(self.output_schema or {}).errors(answer)
        except Invalid as error:
            return list(error.problems)


@dataclass(frozen=True, slots=True)
class CheckedResponse:
    """What came of one call: an answer, or an error that stood in its place.

    Attributes:
        raw: As it came, with its envelope.
        error: None for a success; of an envelope that tells of a failure, too.
        code: The plugin's own word for what went wrong.
        asked: What it asked of the host meanwhile.
    """

    raw: Any = None
    error: PaddockError | None = None
    host_requests: tuple[str, ...] = ()
    unwrapped: Any = None

    @property
    def code(self) -> str:
        if self.error is None:
            return ""
        return str(self.error.details.get("plugin_code") or self.error.error_code)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Of the raw answer; none where it is no object."""
        raw: object = self.raw
        return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}


@dataclass(slots=True)
class PluginUnderTest:
    """The plugin, greeted and configured."""

    manifest: Manifest
    trial_run: TrialRun
    callables: tuple[CallableUnderTest, ...]
    effects_allowed: bool
    _calls: int = field(default=0)

    @property
    def sole_callable(self) -> CallableUnderTest:
        """Of a Kernel plugin, which is one callable."""
        return self.callables[0]

    def is_callable(self, one: CallableUnderTest) -> bool:
        return one.read_only or self.effects_allowed

    async def call(
        self, one: CallableUnderTest, payload: Mapping[str, Any], *, scopes: Iterable[str] | None = None, key: str = ""
    ) -> CheckedResponse:
        """Call it, with the scopes that it asks for unless others are given."""
        self._calls += 1
        held = frozenset(one.spec.required_scopes if scopes is None else scopes)
        context = CallContext(
            Principal(PrincipalId("local:author"), held, kind="local"),
            RequestId(f"req_test_{self._calls}"),
            project=ProjectId("test"),
            agent_path=AgentPath("test"),
            session=SessionId("test"),
        )
        before = len(self.trial_run.host_requests)
        raw: Any = None
        try:
            raw = await self.trial_run.call(one.spec, payload, context, key=key or f"test-{self._calls}")
            result = raise_if_failed(self.manifest, raw)
        except PaddockError as error:
            return CheckedResponse(raw, error, tuple(self.trial_run.host_requests[before:]))
        return CheckedResponse(
            raw, None, tuple(self.trial_run.host_requests[before:]), result_value(self.manifest, result)
        )


def declared_callables(manifest: Manifest, schemas: Mapping[str, tuple[Any, Any]]) -> tuple[CallableUnderTest, ...]:
    """Everything that a manifest declares, with its schemas as values."""
    return tuple(
        CallableUnderTest(spec, *schemas.get(spec.name, ({}, {})), callable_effects(manifest, spec))
        for spec in manifest.callables
    )


# Bytes that are kept for an answer to name them change nothing that anybody had before.
WRITE_METHODS = (
    "storage.exec",
    "storage.begin",
    "storage.commit",
    "keyvalue.put",
    "keyvalue.delete",
    "artifacts.delete",
)


async def check_calls(subject: PluginUnderTest) -> list[CheckResult]:
    """One finding for each callable."""
    return [await _check_callable(subject, one) for one in subject.callables]


async def _check_callable(subject: PluginUnderTest, one: CallableUnderTest) -> CheckResult:
    name = f"call {one.spec.name}"
    if not subject.is_callable(one):
        return skipped(name, f"it has effects ({', '.join(one.effects)})", "--effects calls it too")
    examples = one.examples()
    if not examples:
        return skipped(name, "its input schema gives no value to call it with", "put `examples` into the schema")
    for payload in examples:
        found = check_output_schema(name, one, await subject.call(one, payload))
        if found is not None:
            return found
    return passed(name, f"{len(examples)} examples" if len(examples) > 1 else "")


def check_output_schema(name: str, one: CallableUnderTest, answer: CheckedResponse) -> CheckResult | None:
    """What is wrong with an answer to a payload that fits; None when nothing is."""
    used = [method for method in answer.host_requests if method in WRITE_METHODS]
    if one.spec.effects is not None and one.read_only and used:
        return failed(name, f"it declares that it changes nothing, and used {used[0]}", "declare the effect: db_write")
    if answer.error is not None:
        said = printable(answer.error.message, 300)
        return failed(name, f"it answered with an error ({answer.code}): {said}", _hint_for_error(answer.error))
    broken = one.output_errors(answer.unwrapped)
    if broken:
        return failed(name, f"the answer breaks its output schema: {broken[0]}", "mend the answer, or the schema")
    return None


def _hint_for_error(error: PaddockError) -> str:
    """What its author can do. No payload is to blame for a callable that is not there, or does not answer."""
    if isinstance(error, NotFound) and error.error_code == "method_not_found":
        return "serve it under the name that the manifest declares"
    if isinstance(error, TimedOut):
        return ""
    return "if the payload made up from its schema is at fault, put `examples` into the schema"
