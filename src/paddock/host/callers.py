"""Who makes a call, and the context it gets for that: the person at this machine, or somebody else by name."""

from __future__ import annotations

from functools import lru_cache

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.ids import DEFAULT_TENANT, OperatorId, PrincipalId, RequestId, Tenant


@lru_cache(maxsize=64)  # the same few people make every call
def at_this_machine(operator: str | None, tenant: Tenant = DEFAULT_TENANT) -> Principal:
    """Whoever operates this host, by their login name; a program that embeds the host has none.

    It then acts as the operator all the same, and is no human who could answer. The operator may act in any tenant, in
    one at a time.
    """
    who = PrincipalId(f"local:{operator or 'operator'}")
    return Principal(who, roles=frozenset({OPERATOR}), kind="local", interactive=operator is not None, tenant=tenant)


def context_for(
    principal: Principal,
    request: RequestId,
    operator: str | None,
    *,
    trace: str | None = None,
    idempotency_key: str | None = None,
) -> CallContext:
    """The context of a call that somebody makes; `operator` is who made it in their name, if anybody did."""
    named = OperatorId(operator) if operator else None
    return CallContext(principal, request, principal.tenant, named, trace=trace, idempotency_key=idempotency_key)


def passed_on_by(context: CallContext) -> str | None:
    """The operator who speaks for somebody else here, as in `local:root`; None where they speak for themselves."""
    operator = f"local:{context.operator}"
    return None if context.operator is None or operator == context.principal.id else operator
