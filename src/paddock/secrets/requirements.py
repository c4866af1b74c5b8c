"""Which secrets a plugin declares, whose each may be, and which of them are missing for a call. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, cast

from paddock.core.errors import CallerError
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.secret import is_config_secret
from paddock.manifest.model import CallableForm, CallableSpec, Manifest


class SecretScope(StrEnum):
    """Whose a secret is: one person's, or the whole tenant's."""

    USER = "user"
    SYSTEM = "system"


LookupOrder = tuple[SecretScope, ...]
"""Where to look, in this order."""

_ORDERS: Mapping[str, LookupOrder] = {
    "user": (SecretScope.USER,),
    "system": (SecretScope.SYSTEM,),
    "system_or_user": (SecretScope.USER, SecretScope.SYSTEM),
}
_EITHER = _ORDERS["system_or_user"]


def called_operation(manifest: Manifest, spec: CallableSpec, payload: Mapping[str, Any]) -> str | None:
    """Which of the operations that a manifest speaks of a call runs; None where that is not known.

    It is what is called. Where that is the whole plugin, as in Shu's contract, its parameter `op` says which.
    """
    if spec.form is not CallableForm.WHOLE:
        return spec.name
    asked = payload.get("op", _default_operation(spec.input_schema))
    operation = asked if isinstance(asked, str) else spec.name
    # What nobody declares may be anything: it counts as not known, which allows less.
    return operation if any(auth.operation == operation for auth in manifest.operation_auth) else None


def _default_operation(schema: Any) -> Any:
    """The operation that is meant where none is named."""
    found: Any = schema
    for key in ("properties", "op", "default"):
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return found


def lookup_order(manifest: Manifest, name: str, operation: str | None = None) -> LookupOrder | None:
    """Whose secret of this name the plugin may have; None where it does not declare the name, or nobody can.

    Args:
        manifest: What it declares.
        name: The secret.
        operation: The operation that runs. Where that is not known, or does not say that it uses the secret, only what
            all operations allow that do.
    """
    # Whoever is configured with a key did not give it to every plugin that knows what it is called.
    if name not in manifest.secrets or is_config_secret(name):
        return None
    uses = {
        auth.operation: _parse_order(auth.secrets[name]) for auth in manifest.operation_auth if name in auth.secrets
    }
    if operation in uses:
        return uses[operation]
    return tuple(scope for scope in _EITHER if all(scope in order for order in uses.values()))


def required_secrets(manifest: Manifest, operation: str | None) -> dict[str, LookupOrder]:
    """The secrets that an operation cannot do without, and where to look for each."""
    found = next((auth for auth in manifest.operation_auth if auth.operation == operation), None)
    return {name: _parse_order(scope) for name, scope in found.secrets.items()} if found is not None else {}


def missing_names(wanted: Mapping[str, LookupOrder], have: AbstractSet[tuple[str, SecretScope]]) -> tuple[str, ...]:
    """The names of those that are nowhere to be found where they may be."""
    return tuple(sorted(name for name, order in wanted.items() if not any((name, scope) in have for scope in order)))


def missing_secrets_error(
    manifest: Manifest, operation: str, names: tuple[str, ...], *, tenant: str, person: str | None
) -> CallerError:
    """The refusal of a call that cannot succeed, with all that is missing at once."""
    wanted = required_secrets(manifest, operation)
    of_tenant = "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
    whose = {name: _owner_argument(wanted.get(name, _EITHER), person) for name in names}
    lines = [f"paddock secret set {shlex.quote(name)}{whose[name]}{of_tenant}" for name in names]
    return CallerError(
        f"{manifest.name}.{operation} needs secrets that are not set: {', '.join(names)}",
        code="missing_secrets",
        hint=" · ".join(lines),
        details={"plugin": manifest.name, "operation": operation, "missing": list(names)},
    )


def _owner_argument(order: LookupOrder, person: str | None) -> str:
    """Whose it has to be, as `--user` takes it; who calls for nobody has to find a person first."""
    named = person.removeprefix("user:") if person else "PERSON"
    return f" --user {shlex.quote(named)}" if order == (SecretScope.USER,) else ""


def _parse_order(allowed_scope: str) -> LookupOrder:
    # What nobody knows is nobody's.
    return _ORDERS.get(allowed_scope, ())
