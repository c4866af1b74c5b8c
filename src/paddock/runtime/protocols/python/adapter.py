"""The `ProtocolAdapter` of a Python worker: the native protocol, with all callables behind one method."""

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
    """See `ProtocolAdapter`. Code may compute its schemas and permissions, so they are checked only once it runs."""

    _schemas: Mapping[str, Mapping[str, CompiledSchema]] = {}
    _permissions: Mapping[str, Sequence[str]] = {}

    async def handshake(self, sender: RequestSender) -> HandshakeResult:
        result = await super().handshake(sender)
        try:
            answer = await sender.request(OutgoingMessage(DESCRIBE_METHOD, {}), handshake.HANDSHAKE_TIMEOUT_S)
        except (RpcError, TimeoutError) as error:
            raise HandshakeRejected(self._description_rejection(describe_error(error))) from None
        descriptions = self._parse_description(answer)
        self._schemas = {name: self._schemas_in(name, description) for name, description in descriptions.items()}
        self._permissions = {
            name: self._permissions_in(name, description) for name, description in descriptions.items()
        }
        self._check_actions(descriptions)
        return result

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        del listens
        input_schema = self._schemas.get(spec.name, {}).get("input_schema")
        problems = input_schema.errors(dict(payload)) if input_schema is not None else ()
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
            # Approved: the gate starts no action before its approval.
            action_envelope = {
                **envelope,
                "idempotency_key": context.idempotency_key or context.request,
                "approved": True,
            }
            params = {"callable": spec.of, "action": spec.name, "args": payload, "envelope": action_envelope}
            return self._build_request(ACTION_METHOD, params, context, token, spec.required_scopes)
        params = {"callable": spec.name, "payload": payload, "envelope": envelope}
        return self._build_request(CALL_METHOD, params, context, token, spec.required_scopes)

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        result = raise_if_failed(self._manifest, raw)
        if spec.form is CallableForm.ACTION and _as_mapping(result).get("status") == "pending_approval":
            raise PluginError(
                f"{self._manifest.name} {spec.name} wants an approval that its description does not ask for",
                code="action.undeclared_approval",
                hint="its author has to list it with requires_approval",
                details={"plugin": self._manifest.name},
            )
        output_schema = self._schemas.get(spec.name, {}).get("output_schema")
        problems = output_schema.errors(result_value(self._manifest, result)) if output_schema is not None else ()
        if problems:
            raise OutputInvalid(self._manifest.name, spec.name, problems)
        return result

    def _parse_description(self, answer: Any) -> dict[str, dict[str, Any]]:
        """Parse the worker's description of each callable."""
        described: Any = cast("dict[str, Any]", answer).get("callables") if isinstance(answer, dict) else None
        if not isinstance(described, dict):
            raise HandshakeRejected(self._description_rejection("it is no list of callables"))
        callables = cast("dict[str, Any]", described)
        names = [spec.name for spec in self._manifest.callables if spec.form is not CallableForm.ACTION]
        for name in names:
            if not isinstance(callables.get(name), dict):
                raise HandshakeRejected(self._description_rejection(f"it says nothing of {name}"))
        return {name: callables[name] for name in names}

    def _check_actions(self, descriptions: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that the code lists each action as declared in the files: the approval requirement depends on that."""
        for spec in self._manifest.callables:
            if spec.form is not CallableForm.ACTION:
                continue
            raw_actions: Any = descriptions.get(spec.of, {}).get("actions")
            actions = cast("list[Any]", raw_actions) if isinstance(raw_actions, list) else []
            if not any(_same_action(spec, _as_mapping(action)) for action in actions):
                raise HandshakeRejected(
                    self._description_rejection(f"it lists the action {spec.name} otherwise than its files do")
                )

    def _schemas_in(self, name: str, description: Mapping[str, Any]) -> dict[str, CompiledSchema]:
        """Compile the schemas that the code provides where the manifest has none."""
        spec = next(candidate for candidate in self._manifest.callables if candidate.name == name)
        declared = {"input_schema": spec.input_schema, "output_schema": spec.output_schema}
        provided = {side: description.get(side) for side in _SCHEMA_KEYS if declared[side] is None}
        return {
            side: self._compile_schema(name, side, schema) for side, schema in provided.items() if schema is not None
        }

    def _permissions_in(self, name: str, description: Mapping[str, Any]) -> tuple[str, ...]:
        permissions: Any = description.get("permissions") or []
        if not isinstance(permissions, list) or not all(
            isinstance(permission, str) for permission in cast("list[Any]", permissions)
        ):
            raise HandshakeRejected(self._description_rejection(f"the permissions of {name} are no list of names"))
        return tuple(cast("list[str]", permissions))

    def _compile_schema(self, name: str, side: str, schema: Any) -> CompiledSchema:
        try:
            return compile_schema(schema)
        except Invalid as error:
            raise HandshakeRejected(
                self._description_rejection(f"{side} of {name}: {error.problems[0].message}")
            ) from None

    def _description_rejection(self, detail: str) -> HandshakeRejection:
        rejection = handshake.malformed_rejection(
            self._manifest, f"what it says of its callables cannot be used: {detail}"
        )
        return HandshakeRejection("schema.unusable", rejection.reason, rejection.event)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _same_action(spec: CallableSpec, described: Mapping[str, Any]) -> bool:
    """Whether a described action matches its declaration in the files."""
    return (
        described.get("name") == spec.name
        and bool(described.get("requires_approval")) is spec.requires_approval
        and (described.get("required_scopes") or []) == list(spec.required_scopes)
        and (described.get("params_schema") or None) == (spec.input_schema or None)
    )
