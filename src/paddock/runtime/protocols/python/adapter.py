"""A worker's wire: our own protocol, with the plugin's callables behind one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from paddock.core.call import CallContext
from paddock.core.errors import Invalid, PluginError
from paddock.core.schema.compile import CompiledSchema, compile_schema
from paddock.core.scopes import require_scopes
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.plugins.dialects.envelope import OutputInvalid, raise_if_failed, request_envelope, result_value
from paddock.rpc.errors import RpcError
from paddock.runtime.errors import describe_error
from paddock.runtime.protocol_adapter import (
    HandshakeRejected,
    HandshakeRejection,
    HandshakeResult,
    OutgoingMessage,
    RequestSender,
)
from paddock.runtime.protocols.native import handshake
from paddock.runtime.protocols.native.adapter import NativeAdapter

DESCRIBE_METHOD = "worker.describe"
CALL_METHOD = "worker.call"
ACTION_METHOD = "worker.action"
_SCHEMA_KEYS = ("input_schema", "output_schema")


class PythonAdapter(NativeAdapter):
    """See `Wire`. Code may compute its schemas and permissions: those are known, and checked, only once it runs."""

    _schemas: Mapping[str, Mapping[str, CompiledSchema]] = {}
    _permissions: Mapping[str, Sequence[str]] = {}

    async def handshake(self, talk: RequestSender) -> HandshakeResult:
        introduced = await super().handshake(talk)
        try:
            answer = await talk.request(OutgoingMessage(DESCRIBE_METHOD, {}), handshake.HANDSHAKE_TIMEOUT_S)
        except (RpcError, TimeoutError) as error:
            raise HandshakeRejected(self._description_rejection(describe_error(error))) from None
        described = self._parse_description(answer)
        self._schemas = {name: self._schemas_in(name, about) for name, about in described.items()}
        self._permissions = {name: self._permissions_in(name, about) for name, about in described.items()}
        self._check_actions(described)
        return introduced

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
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
        envelope = request_envelope(self._manifest, context, (*spec.required_scopes, *permissions))
        if spec.form is CallableForm.ACTION:
            # Whoever had to say yes has: the gate lets nothing start before.
            told = {**envelope, "idempotency_key": context.idempotency_key or context.request, "approved": True}
            asked = {"callable": spec.of, "action": spec.name, "args": payload, "envelope": told}
            return self._build_request(ACTION_METHOD, asked, context, token, spec.required_scopes)
        asked = {"callable": spec.name, "payload": payload, "envelope": envelope}
        return self._build_request(CALL_METHOD, asked, context, token, spec.required_scopes)

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        result = raise_if_failed(self._manifest, raw)
        if spec.form is CallableForm.ACTION and _as_mapping(result).get("status") == "pending_approval":
            raise PluginError(
                f"{self._manifest.name} {spec.name} wants an approval that its description does not ask for",
                code="action.undeclared_approval",
                hint="its author has to list it with requires_approval",
                details={"plugin": self._manifest.name},
            )
        own = self._schemas.get(spec.name, {}).get("output_schema")
        broken = own.errors(result_value(self._manifest, result)) if own is not None else ()
        if broken:
            raise OutputInvalid(self._manifest.name, spec.name, broken)
        return result

    def _parse_description(self, answer: Any) -> dict[str, dict[str, Any]]:
        """What its code says of each callable."""
        told: Any = cast("dict[str, Any]", answer).get("callables") if isinstance(answer, dict) else None
        if not isinstance(told, dict):
            raise HandshakeRejected(self._description_rejection("it is no list of callables"))
        callables = cast("dict[str, Any]", told)
        names = [spec.name for spec in self._manifest.callables if spec.form is not CallableForm.ACTION]
        for name in names:
            if not isinstance(callables.get(name), dict):
                raise HandshakeRejected(self._description_rejection(f"it says nothing of {name}"))
        return {name: callables[name] for name in names}

    def _check_actions(self, described: Mapping[str, Mapping[str, Any]]) -> None:
        """See to it that the code lists each action as people have read it: who is asked first depends on that."""
        for spec in self._manifest.callables:
            if spec.form is not CallableForm.ACTION:
                continue
            listed: Any = described.get(spec.of, {}).get("actions")
            told = cast("list[Any]", listed) if isinstance(listed, list) else []
            if not any(_same_action(spec, _as_mapping(one)) for one in told):
                raise HandshakeRejected(
                    self._description_rejection(f"it lists the action {spec.name} otherwise than its files do")
                )

    def _schemas_in(self, name: str, about: Mapping[str, Any]) -> dict[str, CompiledSchema]:
        """The schemas that its code gives where the manifest gives none."""
        spec = next(one for one in self._manifest.callables if one.name == name)
        declared = {"input_schema": spec.input_schema, "output_schema": spec.output_schema}
        given = {side: about.get(side) for side in _SCHEMA_KEYS if declared[side] is None}
        return {side: self._compile_schema(name, side, schema) for side, schema in given.items() if schema is not None}

    def _permissions_in(self, name: str, about: Mapping[str, Any]) -> tuple[str, ...]:
        told: Any = about.get("permissions") or []
        if not isinstance(told, list) or not all(isinstance(one, str) for one in cast("list[Any]", told)):
            raise HandshakeRejected(self._description_rejection(f"the permissions of {name} are no list of names"))
        return tuple(cast("list[str]", told))

    def _compile_schema(self, name: str, side: str, schema: Any) -> CompiledSchema:
        try:
            return compile_schema(schema)
        except Invalid as error:
            raise HandshakeRejected(
                self._description_rejection(f"{side} of {name}: {error.problems[0].message}")
            ) from None

    def _description_rejection(self, words: str) -> HandshakeRejection:
        refused = handshake.malformed_rejection(
            self._manifest, f"what it says of its callables cannot be used: {words}"
        )
        return HandshakeRejection("schema.unusable", refused.reason, refused.event)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _same_action(spec: CallableSpec, told: Mapping[str, Any]) -> bool:
    """Whether an action is the one that was read in the files."""
    return (
        told.get("name") == spec.name
        and bool(told.get("requires_approval")) is spec.requires_approval
        and (told.get("required_scopes") or []) == list(spec.required_scopes)
        and (told.get("params_schema") or None) == (spec.input_schema or None)
    )
