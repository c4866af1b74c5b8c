"""A worker's wire: our own protocol, with the plugin's callables behind one method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from paddock.core.call import CallContext
from paddock.core.errors import Invalid
from paddock.core.schema import CompiledSchema, compile_schema
from paddock.manifest.model import CallableSpec
from paddock.plugins.runtimes.envelopes import OutputInvalid, checked_part, envelope_for, unless_failed
from paddock.plugins.runtimes.native import handshake
from paddock.plugins.runtimes.native.wire import NativeWire
from paddock.plugins.supervision.answers import fault_words
from paddock.plugins.supervision.wire import Introduced, Message, Refusal, Refused, Talk
from paddock.rpc.faults import RpcFault

DESCRIBE = "worker.describe"
CALL = "worker.call"
_SIDES = ("input_schema", "output_schema")


class PythonWire(NativeWire):
    """See `Wire`. Code may compute its schemas: those are known only here, once it runs, and checked here."""

    _schemas: Mapping[str, Mapping[str, CompiledSchema]] = {}

    async def greet(self, talk: Talk) -> Introduced:
        introduced = await super().greet(talk)
        try:
            answer = await talk.ask(Message(DESCRIBE, {}), handshake.TIMEOUT)
        except (RpcFault, TimeoutError) as error:
            raise Refusal(self._undescribed(fault_words(error))) from None
        self._schemas = self._described(answer)
        return introduced

    def call(self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str) -> Message:
        own = self._schemas.get(spec.name, {}).get("input_schema")
        problems = own.errors(dict(payload)) if own is not None else ()
        if problems:
            raise Invalid(
                f"the parameters of {self._manifest.name} {spec.name} are not valid",
                problems,
                code="invalid_params",
                details={"plugin": self._manifest.name},
            )
        asked = {"callable": spec.name, "payload": payload, "envelope": envelope_for(self._manifest, context)}
        return self._addressed(CALL, asked, context, token)

    def result(self, spec: CallableSpec, raw: Any) -> Any:
        result = unless_failed(self._manifest, raw)
        own = self._schemas.get(spec.name, {}).get("output_schema")
        broken = own.errors(checked_part(self._manifest, result)) if own is not None else ()
        if broken:
            raise OutputInvalid(self._manifest.name, spec.name, broken)
        return result

    def _described(self, answer: Any) -> dict[str, dict[str, CompiledSchema]]:
        """The schemas that its code gives, of callables whose manifest gives none."""
        told: Any = cast("dict[str, Any]", answer).get("callables") if isinstance(answer, dict) else None
        if not isinstance(told, dict):
            raise Refusal(self._undescribed("it is no list of callables"))
        callables = cast("dict[str, Any]", told)
        found: dict[str, dict[str, CompiledSchema]] = {}
        for spec in self._manifest.callables:
            about: Any = callables.get(spec.name)
            if not isinstance(about, dict):
                raise Refusal(self._undescribed(f"it says nothing of {spec.name}"))
            declared = {"input_schema": spec.input_schema, "output_schema": spec.output_schema}
            given = {side: cast("dict[str, Any]", about).get(side) for side in _SIDES if declared[side] is None}
            found[spec.name] = {
                side: self._compiled(spec, side, schema) for side, schema in given.items() if schema is not None
            }
        return found

    def _compiled(self, spec: CallableSpec, side: str, schema: Any) -> CompiledSchema:
        try:
            return compile_schema(schema)
        except Invalid as error:
            raise Refusal(self._undescribed(f"{side} of {spec.name}: {error.problems[0].message}")) from None

    def _undescribed(self, words: str) -> Refused:
        refused = handshake.malformed(self._manifest, f"what it says of its callables cannot be used: {words}")
        return Refused("schema.unusable", refused.reason, refused.event)
