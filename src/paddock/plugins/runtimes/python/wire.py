"""A worker's wire: our own protocol, with the plugin's callables behind one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from paddock.core.call import CallContext
from paddock.core.errors import Invalid, PluginError
from paddock.core.schema import CompiledSchema, compile_schema
from paddock.manifest.model import CallableSpec, Form
from paddock.plugins.runtimes.envelopes import OutputInvalid, checked_part, envelope_for, unless_failed
from paddock.plugins.runtimes.native import handshake
from paddock.plugins.runtimes.native.wire import NativeWire
from paddock.plugins.runtimes.scopes import require_scopes
from paddock.plugins.supervision.answers import fault_words
from paddock.plugins.supervision.wire import Introduced, Message, Refusal, Refused, Talk
from paddock.rpc.faults import RpcFault

DESCRIBE = "worker.describe"
CALL = "worker.call"
ACTION = "worker.action"
_SIDES = ("input_schema", "output_schema")


class PythonWire(NativeWire):
    """See `Wire`. Code may compute its schemas and permissions: those are known, and checked, only once it runs."""

    _schemas: Mapping[str, Mapping[str, CompiledSchema]] = {}
    _permissions: Mapping[str, Sequence[str]] = {}

    async def greet(self, talk: Talk) -> Introduced:
        introduced = await super().greet(talk)
        try:
            answer = await talk.ask(Message(DESCRIBE, {}), handshake.TIMEOUT)
        except (RpcFault, TimeoutError) as error:
            raise Refusal(self._undescribed(fault_words(error))) from None
        described = self._described(answer)
        self._schemas = {name: self._schemas_in(name, about) for name, about in described.items()}
        self._permissions = {name: self._permissions_in(name, about) for name, about in described.items()}
        self._check_actions(described)
        return introduced

    def call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> Message:
        del listens
        own = self._schemas.get(spec.name, {}).get("input_schema")
        problems = own.errors(dict(payload)) if own is not None else ()
        if problems:
            raise Invalid(
                f"the parameters of {self._manifest.name} {spec.name} are not valid",
                problems,
                code="invalid_params",
                details={"plugin": self._manifest.name},
            )
        permissions = self._permissions.get(spec.of or spec.name, ())
        require_scopes(self._manifest.name, spec.name, permissions, context.principal)
        envelope = envelope_for(self._manifest, context, (*spec.required_scopes, *permissions))
        if spec.form is Form.ACTION:
            # Whoever had to say yes has: the gate lets nothing start before.
            told = {**envelope, "idempotency_key": context.idempotency_key or context.request, "approved": True}
            asked = {"callable": spec.of, "action": spec.name, "args": payload, "envelope": told}
            return self._addressed(ACTION, asked, context, token, spec.required_scopes)
        asked = {"callable": spec.name, "payload": payload, "envelope": envelope}
        return self._addressed(CALL, asked, context, token, spec.required_scopes)

    def result(self, spec: CallableSpec, raw: Any) -> Any:
        result = unless_failed(self._manifest, raw)
        if spec.form is Form.ACTION and _fields(result).get("status") == "pending_approval":
            raise PluginError(
                f"{self._manifest.name} {spec.name} wants an approval that its description does not ask for",
                code="action.undeclared_approval",
                hint="its author has to list it with requires_approval",
                details={"plugin": self._manifest.name},
            )
        own = self._schemas.get(spec.name, {}).get("output_schema")
        broken = own.errors(checked_part(self._manifest, result)) if own is not None else ()
        if broken:
            raise OutputInvalid(self._manifest.name, spec.name, broken)
        return result

    def _described(self, answer: Any) -> dict[str, dict[str, Any]]:
        """What its code says of each callable."""
        told: Any = cast("dict[str, Any]", answer).get("callables") if isinstance(answer, dict) else None
        if not isinstance(told, dict):
            raise Refusal(self._undescribed("it is no list of callables"))
        callables = cast("dict[str, Any]", told)
        names = [spec.name for spec in self._manifest.callables if spec.form is not Form.ACTION]
        for name in names:
            if not isinstance(callables.get(name), dict):
                raise Refusal(self._undescribed(f"it says nothing of {name}"))
        return {name: callables[name] for name in names}

    def _check_actions(self, described: Mapping[str, Mapping[str, Any]]) -> None:
        """See to it that the code lists each action as people have read it: who is asked first depends on that."""
        for spec in self._manifest.callables:
            if spec.form is not Form.ACTION:
                continue
            listed: Any = described.get(spec.of, {}).get("actions")
            told = cast("list[Any]", listed) if isinstance(listed, list) else []
            if not any(_same(spec, _fields(one)) for one in told):
                raise Refusal(self._undescribed(f"it lists the action {spec.name} otherwise than its files do"))

    def _schemas_in(self, name: str, about: Mapping[str, Any]) -> dict[str, CompiledSchema]:
        """The schemas that its code gives where the manifest gives none."""
        spec = next(one for one in self._manifest.callables if one.name == name)
        declared = {"input_schema": spec.input_schema, "output_schema": spec.output_schema}
        given = {side: about.get(side) for side in _SIDES if declared[side] is None}
        return {side: self._compiled(name, side, schema) for side, schema in given.items() if schema is not None}

    def _permissions_in(self, name: str, about: Mapping[str, Any]) -> tuple[str, ...]:
        told: Any = about.get("permissions") or []
        if not isinstance(told, list) or not all(isinstance(one, str) for one in cast("list[Any]", told)):
            raise Refusal(self._undescribed(f"the permissions of {name} are no list of names"))
        return tuple(cast("list[str]", told))

    def _compiled(self, name: str, side: str, schema: Any) -> CompiledSchema:
        try:
            return compile_schema(schema)
        except Invalid as error:
            raise Refusal(self._undescribed(f"{side} of {name}: {error.problems[0].message}")) from None

    def _undescribed(self, words: str) -> Refused:
        refused = handshake.malformed(self._manifest, f"what it says of its callables cannot be used: {words}")
        return Refused("schema.unusable", refused.reason, refused.event)


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _same(spec: CallableSpec, told: Mapping[str, Any]) -> bool:
    """Whether an action is the one that was read in the files."""
    return (
        told.get("name") == spec.name
        and bool(told.get("requires_approval")) is spec.requires_approval
        and (told.get("required_scopes") or []) == list(spec.required_scopes)
        and (told.get("params_schema") or None) == (spec.input_schema or None)
    )
