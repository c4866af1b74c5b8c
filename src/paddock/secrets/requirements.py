"""Secrets that a plugin declares: their scopes, lookup order, and which are missing for a call. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, cast

from paddock.core.action import Action
from paddock.core.errors import CallerError
from paddock.core.secret import is_config_secret
from paddock.manifest.model import CallableForm, CallableSpec, Manifest


class SecretScope(StrEnum):
    """The scope of a secret: one person's, or the whole tenant's."""

    USER = "user"
    SYSTEM = "system"


LookupOrder = tuple[SecretScope, ...]
"""The scopes in which to look, in order."""

_ORDERS: Mapping[str, LookupOrder] = {
    "user": (SecretScope.USER,),
    "system": (SecretScope.SYSTEM,),
    "system_or_user": (SecretScope.USER, SecretScope.SYSTEM),
}
_EITHER = _ORDERS["system_or_user"]


def called_operation(manifest: Manifest, spec: CallableSpec, payload: Mapping[str, Any]) -> str | None:
    """Return the declared operation that a call runs; None if it is not known.

    It is the callable's name. If the callable is the whole plugin, as in Shu's contract, its parameter `op` names it.
    """
    if spec.form is not CallableForm.WHOLE:
        return spec.name
    requested = payload.get("op", _default_operation(spec.input_schema))
    operation = requested if isinstance(requested, str) else spec.name
    # An undeclared operation may be anything: treat it as unknown, which allows less.
    return operation if any(auth.operation == operation for auth in manifest.operation_auth) else None


def _default_operation(schema: Any) -> Any:
    """Return the default operation of a schema."""
    value: Any = schema
    for key in ("properties", "op", "default"):
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def lookup_order(manifest: Manifest, name: str, operation: str | None = None) -> LookupOrder | None:
    """Return the scopes in which the plugin may look up a secret; None if it does not declare the name.

    Args:
        manifest: The plugin's manifest.
        name: The secret.
        operation: The operation that runs. If it is unknown, or does not declare the secret, only scopes that all
            declaring operations allow.
    """
    # A secret in one plugin's configuration was not given to every plugin that knows its name.
    if name not in manifest.secrets or is_config_secret(name):
        return None
    orders = {
        auth.operation: _parse_order(auth.secrets[name]) for auth in manifest.operation_auth if name in auth.secrets
    }
    if operation in orders:
        return orders[operation]
    return tuple(scope for scope in _EITHER if all(scope in order for order in orders.values()))


def required_secrets(manifest: Manifest, operation: str | None) -> dict[str, LookupOrder]:
    """Return the secrets that an operation requires, with the lookup order of each."""
    operation_auth = next((auth for auth in manifest.operation_auth if auth.operation == operation), None)
    return (
        {name: _parse_order(scope) for name, scope in operation_auth.secrets.items()}
        if operation_auth is not None
        else {}
    )


def missing_names(
    required: Mapping[str, LookupOrder], available: AbstractSet[tuple[str, SecretScope]]
) -> tuple[str, ...]:
    """Return the names of the required secrets that are in none of their scopes."""
    return tuple(
        sorted(name for name, order in required.items() if not any((name, scope) in available for scope in order))
    )


def missing_secrets_error(
    manifest: Manifest, operation: str, names: tuple[str, ...], *, tenant: str, person: str | None
) -> CallerError:
    """Build the error for a call that cannot succeed, with all missing secrets at once."""
    required = required_secrets(manifest, operation)
    first = next(iter(names))
    owner = _owner_argument(required.get(first, _EITHER), person)
    return CallerError(
        f"{manifest.name}.{operation} needs secrets that are not set: {', '.join(names)}",
        code="missing_secrets",
        hint="set each of them" if len(names) > 1 else "",
        action=Action.of("secret.set", name=first, user=owner, tenant=tenant),
        details={"plugin": manifest.name, "operation": operation, "missing": list(names)},
    )


def _owner_argument(order: LookupOrder, person: str | None) -> str:
    """Return the owner if the secret must be a person's; `PERSON` if the call is not for a person."""
    owner = person.removeprefix("user:") if person else "PERSON"
    return owner if order == (SecretScope.USER,) else ""


def _parse_order(allowed_scope: str) -> LookupOrder:
    # An unknown scope allows nothing.
    return _ORDERS.get(allowed_scope, ())
