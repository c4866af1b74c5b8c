"""A plugin under test: one life of it, what it can be called with, and what came of each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from paddock.authoring.example_values import examples_of
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.ids import AgentPath, PrincipalId, ProjectId, RequestId, SessionId
from paddock.core.schema import compile_schema
from paddock.host.workshop.trial import Trial
from paddock.manifest.effects import Effect
from paddock.manifest.effects_of import effects_of
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.runtimes.envelopes import checked_part, unless_failed


@dataclass(frozen=True, slots=True)
class Offer:
    """Something to call, with the schemas that it is judged by."""

    spec: CallableSpec
    input_schema: Any
    output_schema: Any
    effects: tuple[Effect, ...]

    @property
    def harmless(self) -> bool:
        return set(self.effects) <= {Effect.READ_ONLY}

    def examples(self) -> list[dict[str, Any]]:
        """Payloads that fit its input; empty where none could be found."""
        try:
            found = examples_of(self.input_schema or {"type": "object"})
        except Invalid:
            return []
        return [cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]

    def broken(self, answer: Any) -> list[Problem]:
        """What its output schema says against an answer."""
        try:
            return compile_schema(self.output_schema or {}).errors(answer)
        except Invalid as error:
            return list(error.problems)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call: an answer, or an error that stood in its place.

    Attributes:
        raw: As it came, with its envelope.
        error: None for a success; of an envelope that tells of a failure, too.
        code: The plugin's own word for what went wrong.
        asked: What it asked of the host meanwhile.
    """

    raw: Any = None
    error: PaddockError | None = None
    asked: tuple[str, ...] = ()
    inside: Any = None

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
class Subject:
    """The plugin, greeted and configured."""

    manifest: Manifest
    life: Trial
    callables: tuple[Offer, ...]
    effects_allowed: bool
    _calls: int = field(default=0)

    @property
    def only(self) -> Offer:
        """Of a Kernel plugin, which is one callable."""
        return self.callables[0]

    def may_call(self, one: Offer) -> bool:
        return one.harmless or self.effects_allowed

    async def call(
        self, one: Offer, payload: Mapping[str, Any], *, scopes: Iterable[str] | None = None, key: str = ""
    ) -> Answer:
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
        before = len(self.life.asked)
        raw: Any = None
        try:
            raw = await self.life.call(one.spec, payload, context, key=key or f"test-{self._calls}")
            result = unless_failed(self.manifest, raw)
        except PaddockError as error:
            return Answer(raw, error, tuple(self.life.asked[before:]))
        return Answer(raw, None, tuple(self.life.asked[before:]), checked_part(self.manifest, result))


def callables_of(manifest: Manifest, schemas: Mapping[str, tuple[Any, Any]]) -> tuple[Offer, ...]:
    """Everything that a manifest declares, with its schemas as values."""
    return tuple(
        Offer(spec, *schemas.get(spec.name, ({}, {})), effects_of(manifest, spec)) for spec in manifest.callables
    )
