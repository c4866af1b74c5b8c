"""Who makes a call, and the context it gets for that: the person at this machine, or somebody else by name."""

from __future__ import annotations

from functools import lru_cache

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import Denied
from paddock.core.ids import DEFAULT_TENANT, OperatorId, PrincipalId, RequestId, Tenant


@lru_cache(maxsize=64)  # the same few people make every call
def local_principal(operator: str | None, tenant: Tenant = DEFAULT_TENANT) -> Principal:
    """Whoever operates this host, by their login name; a program that embeds the host has none.

    It then acts as the operator all the same, and is no human who could answer. The operator may act in any tenant, in
    one at a time.
    """
    who = PrincipalId(f"local:{operator or 'operator'}")
    return Principal(who, roles=frozenset({OPERATOR}), kind="local", interactive=operator is not None, tenant=tenant)


def build_call_context(
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


def impersonating_operator(context: CallContext) -> str | None:
    """The operator who speaks for somebody else here, as in `local:root`; None where they speak for themselves."""
    operator = f"local:{context.operator}"
    return None if context.operator is None or operator == context.principal.id else operator


def require_interactive_person(by: Principal) -> Principal:
    """Whoever asks, where they are a person who is signed in, or at the machine of the host.

    Raises:
        Denied: `auth.person_needed`, it is a program with a key.
    """
    if not by.interactive:
        raise Denied(
            f"{by.id} is nobody who is signed in, and only people do this",
            code="auth.person_needed",
            hint="sign in at the console, or use the command line on the machine of the host",
        )
    return by
