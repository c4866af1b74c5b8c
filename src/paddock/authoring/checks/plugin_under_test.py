"""The plugin under test, its callables, and the checks of their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, cast

from msgspec import Struct, field

from paddock.authoring.example_values import generate_examples
from paddock.capabilities.sql.errors import MISSING_TABLE_HINT
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Invalid, NotFound, PaddockError, Problem, TimedOut
from paddock.core.ids import AgentPath, PrincipalId, ProjectId, RequestId, SessionId
from paddock.core.printable import printable
from paddock.core.schema.compile import compile_schema
from paddock.host.learn.trial_run import TrialRun
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Manifest
from paddock.manifest.permissions import callable_effects
from paddock.plugins.dialects.envelope import raise_if_failed, result_value


class CheckVerdict(StrEnum):
    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    SKIP = "skip"


class CheckResult(Struct, frozen=True):
    """A check's name, verdict and reason."""

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


class CallableUnderTest(Struct, frozen=True):
    """A callable with the schemas that it is checked against."""

    spec: CallableSpec
    input_schema: Any
    output_schema: Any
    effects: tuple[Effect, ...]

    @property
    def read_only(self) -> bool:
        return set(self.effects) <= {Effect.READ_ONLY}

    def examples(self) -> list[dict[str, Any]]:
        """Return payloads that match its input schema; empty if none could be found."""
        try:
            values = generate_examples(self.input_schema or {"type": "object"})
        except Invalid:
            return []
        return [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]

    def output_errors(self, result: Any) -> list[Problem]:
        """Return how a result violates its output schema."""
        try:
            return compile_schema(self.output_schema or {}).errors(result)
        except Invalid as error:
            return list(error.problems)


class CheckedResponse(Struct, frozen=True):
    """The response to one call: a result, or an error.

    Attributes:
        raw: As received, with its envelope.
        error: None for a success; also set for an envelope that reports a failure.
        host_requests: The capability methods that the plugin requested meanwhile.
        unwrapped: The result without its envelope.
    """

    raw: Any = None
    error: PaddockError | None = None
    host_requests: tuple[str, ...] = ()
    unwrapped: Any = None

    @property
    def code(self) -> str:
        """The plugin's own error code; empty for a success."""
        if self.error is None:
            return ""
        return str(self.error.details.get("plugin_code") or self.error.error_code)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the raw response; empty if it is not an object."""
        raw: object = self.raw
        return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}


class PluginUnderTest(Struct):
    """A running plugin, after its handshake and configuration."""

    manifest: Manifest
    trial_run: TrialRun
    callables: tuple[CallableUnderTest, ...]
    effects_allowed: bool
    _calls: int = field(default=0)

    @property
    def sole_callable(self) -> CallableUnderTest:
        """The callable of a Kernel plugin, which has exactly one."""
        return self.callables[0]

    def is_callable(self, target: CallableUnderTest) -> bool:
        return target.read_only or self.effects_allowed

    async def call(
        self,
        target: CallableUnderTest,
        payload: Mapping[str, Any],
        *,
        scopes: Iterable[str] | None = None,
        key: str = "",
    ) -> CheckedResponse:
        """Call it, with its required scopes unless others are given."""
        self._calls += 1
        granted = frozenset(target.spec.required_scopes if scopes is None else scopes)
        context = CallContext(
            Principal(PrincipalId("local:author"), granted, kind="local"),
            RequestId(f"req_test_{self._calls}"),
            project=ProjectId("test"),
            agent_path=AgentPath("test"),
            session=SessionId("test"),
        )
        before = len(self.trial_run.host_requests)
        raw: Any = None
        try:
            raw = await self.trial_run.call(target.spec, payload, context, key=key or f"test-{self._calls}")
            result = raise_if_failed(self.manifest, raw)
        except PaddockError as error:
            return CheckedResponse(raw, error, tuple(self.trial_run.host_requests[before:]))
        return CheckedResponse(
            raw, None, tuple(self.trial_run.host_requests[before:]), result_value(self.manifest, result)
        )


def declared_callables(manifest: Manifest, schemas: Mapping[str, tuple[Any, Any]]) -> tuple[CallableUnderTest, ...]:
    """Return everything that a manifest declares to be callable, with resolved schemas."""
    return tuple(
        CallableUnderTest(spec, *schemas.get(spec.name, ({}, {})), callable_effects(manifest, spec))
        for spec in manifest.callables
    )


# Storing a new artifact is not among them: it changes no existing data.
WRITE_METHODS = (
    "storage.exec",
    "storage.begin",
    "storage.commit",
    "keyvalue.put",
    "keyvalue.delete",
    "artifacts.delete",
)


async def check_calls(subject: PluginUnderTest) -> list[CheckResult]:
    """Check each callable with its examples."""
    return [await _check_callable(subject, target) for target in subject.callables]


async def _check_callable(subject: PluginUnderTest, target: CallableUnderTest) -> CheckResult:
    name = f"call {target.spec.name}"
    if not subject.is_callable(target):
        return skipped(name, f"it has effects ({', '.join(target.effects)})", "allow effects to call it too")
    examples = target.examples()
    if not examples:
        return skipped(name, "its input schema gives no value to call it with", "put `examples` into the schema")
    for payload in examples:
        failure = check_output_schema(name, target, await subject.call(target, payload))
        if failure is not None:
            return failure
    return passed(name, f"{len(examples)} examples" if len(examples) > 1 else "")


def check_output_schema(name: str, target: CallableUnderTest, response: CheckedResponse) -> CheckResult | None:
    """Return what is wrong with the response to a valid payload; None if nothing is."""
    writes = [method for method in response.host_requests if method in WRITE_METHODS]
    if target.spec.effects is not None and target.read_only and writes:
        return failed(
            name, f"it declares that it changes nothing, and used {writes[0]}", "declare the effect: db_write"
        )
    if response.error is not None:
        message = printable(response.error.message, 300)
        return failed(name, f"it answered with an error ({response.code}): {message}", _hint_for_error(response.error))
    problems = target.output_errors(response.unwrapped)
    if problems:
        return failed(name, f"the answer breaks its output schema: {problems[0]}", "fix the answer, or the schema")
    return None


def _hint_for_error(error: PaddockError) -> str:
    """Return what the author can do. A missing or unresponsive callable is not the fault of the payload."""
    if isinstance(error, NotFound) and error.error_code == "method_not_found":
        return "serve it under the name that the manifest declares"
    if isinstance(error, TimedOut):
        return ""
    if error.error_code in ("storage_access_denied", "capability_denied"):
        return error.hint or "declare the effects of the call in the manifest, such as db_write"
    if error.error_code == "storage.sql" or "no such table: " in error.message:
        return error.hint or MISSING_TABLE_HINT
    return "if the payload made up from its schema is at fault, put `examples` into the schema"
