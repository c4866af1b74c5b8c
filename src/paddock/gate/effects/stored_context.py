"""The context of a call as it is stored, to run the call later or to recover its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from paddock.core.call import CallContext, PolicySnapshot, Principal
from paddock.core.ids import (
    AgentPath,
    OperatorId,
    PrincipalId,
    ProjectId,
    RequestId,
    SessionId,
    StepId,
    Tenant,
    WorkflowId,
)
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.principals.principal_name import resolve_principal
from paddock.store.database import Database

_STORED_FIELDS: dict[str, Any] = {
    "request": RequestId,
    "tenant": Tenant,
    "operator": OperatorId,
    "project": ProjectId,
    "agent_path": AgentPath,
    "session": SessionId,
    "workflow": WorkflowId,
    "step": StepId,
    "idempotency_key": str,
    "origin": str,
}
_LOADED_FIELDS: dict[str, Any] = _STORED_FIELDS | {"trace": str}


def dump_context(context: CallContext) -> dict[str, Any]:
    """Convert the context of a call to JSON data, to run it later. The principal is looked up again then."""
    stored: dict[str, Any] = {"principal": context.principal.id}
    for name in _STORED_FIELDS:
        value = getattr(context, name)
        if value is not None:
            stored[name] = value
    return stored


def dump_waiting_context(context: CallContext) -> dict[str, Any]:
    """Convert the context of a call that waits for a person to JSON data: it is decided later as it was made.

    So the rights of its caller are in it, too: which roles and scopes a credential stands for is known only while it is
    presented.
    """
    caller = context.principal
    rights = {
        "kind": caller.kind,
        "roles": sorted(caller.roles),
        "scopes": sorted(caller.scopes),
        "groups": sorted(caller.groups),
        "interactive": caller.interactive,
        "owner": caller.owner,
    }
    trace = {} if context.trace is None else {"trace": context.trace}
    return {**dump_context(context), **trace, "background": context.background, "rights": rights}


def load_presented(stored: Mapping[str, Any], current: Principal) -> Principal:
    """Build the principal of a waiting call: as it presented itself then, without the rights that it has lost since.

    Args:
        stored: What `dump_waiting_context` returned.
        current: The same principal, or the owner of its token, looked up again.
    """
    rights: Mapping[str, Any] | None = stored.get("rights")
    if rights is None:
        return current  # an older version stored it
    owner = rights["owner"]
    presented = Principal(
        PrincipalId(str(stored["principal"])),
        frozenset(rights["scopes"]),
        frozenset(rights["roles"]),
        kind=rights["kind"],
        groups=frozenset(rights["groups"]),
        interactive=rights["interactive"],
        tenant=current.tenant,
        owner=None if owner is None else PrincipalId(owner),
    )
    return presented.restricted_to(current)


def load_context(stored: Mapping[str, Any], principal: Principal) -> CallContext:
    """Build the context of a stored call for the current principal.

    No caller waits for such a call, unless it says otherwise of itself: see `dump_waiting_context`.
    """
    fields = {name: _LOADED_FIELDS[name](value) for name, value in stored.items() if name in _LOADED_FIELDS}
    return CallContext(principal, background=bool(stored.get("background", True)), **fields)


async def restore_context(
    effect: IdempotencyRecord, database: Database, now: datetime, *, fence: int | None = None
) -> CallContext:
    """Restore the context of a recorded call. The principal is looked up again, since it may no longer exist.

    Args:
        effect: The record of the call.
        database: Holds the principals.
        now: The time at which the principal has to be valid.
        fence: The fence of a further run of the call; None for another call that is made on its behalf.
    """
    stored: dict[str, Any] = {"request": effect.call, "tenant": effect.effect_key.tenant, **(effect.context or {})}
    name = str(stored.get("principal") or "")
    principal = await database.read(lambda tx: resolve_principal(tx, name, effect.effect_key.tenant, now))
    context = replace(load_context(stored, principal), policy=_load_policy(stored.get("policy")))
    if fence is None:
        return context
    return replace(context, idempotency_key=effect.effect_key.key, fence=fence, call=effect.call)


def _load_policy(stored: Mapping[str, Any] | None) -> PolicySnapshot | None:
    if stored is None:
        return None
    return PolicySnapshot(stored["decision"], tuple(stored["policies"]), stored["version"], stored["approval"])
