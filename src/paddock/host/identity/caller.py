"""Callers of the host: the local operator, and the call context of any principal."""

from __future__ import annotations

from functools import lru_cache

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import Denied
from paddock.core.ids import DEFAULT_TENANT, OperatorId, PrincipalId, RequestId, Tenant


@lru_cache(maxsize=64)  # a few operators make all calls
def local_principal(operator: str | None, tenant: Tenant = DEFAULT_TENANT) -> Principal:
    """Return the principal of this host's operator, by login name; an embedding program has none.

    Without a name it still acts as the operator, but is not a person who could answer approvals. The operator may act
    in any tenant, one at a time.
    """
    principal_id = PrincipalId(f"local:{operator or 'operator'}")
    return Principal(
        principal_id, roles=frozenset({OPERATOR}), kind="local", interactive=operator is not None, tenant=tenant
    )


def build_call_context(
    principal: Principal,
    request: RequestId,
    operator: str | None,
    *,
    trace: str | None = None,
    idempotency_key: str | None = None,
    origin: str | None = None,
) -> CallContext:
    """Build the context of a call; `operator` is the operator who made it on the principal's behalf, if any."""
    operator_id = OperatorId(operator) if operator else None
    return CallContext(
        principal,
        request,
        principal.tenant,
        operator_id,
        trace=trace,
        idempotency_key=idempotency_key,
        origin=origin,
    )


def impersonating_operator(context: CallContext) -> str | None:
    """Return the operator who acts for another principal, as in `local:root`; None if they act for themselves."""
    operator = f"local:{context.operator}"
    return None if context.operator is None or operator == context.principal.id else operator


def require_interactive_person(principal: Principal) -> Principal:
    """Return the principal if it is a person: signed in, or at the host's machine.

    Raises:
        Denied: `auth.person_needed`, it is a program with a key.
    """
    if not principal.interactive:
        raise Denied(
            f"{principal.id} is not a signed-in person, and this needs one",
            code="auth.person_needed",
            hint="sign in at the console, or use the command line or the Unix socket on the machine of the host",
        )
    return principal
