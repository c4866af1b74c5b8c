"""In whose name a request acts, and in which tenant: both come from the credential.

Only the operator on the local socket may name somebody else in `Paddock-As`, and a tenant as `tenant` in the address:
naming somebody is no proof of being them, and the operator may act for anybody. For everybody else the name of another
tenant is as unknown as one that nobody has.
"""

from __future__ import annotations

from starlette.requests import Request

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import CallerError, Denied, Invalid, Problem
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.idempotency.states import validate_idempotency_key
from paddock.host.host import Host
from paddock.host.identity.caller import local_principal
from paddock.principals.tenants import unknown_tenant_error
from paddock.web.request_headers import request_headers
from paddock.web.routing.route import API_PREFIX, IDEMPOTENCY_HEADER, IMPERSONATE_HEADER, MAX_NAME_CHARS
from paddock.web.security.authenticate import Caller, caller_of

_MAX_TRACEPARENT_CHARS = 64  # a traceparent has 55 characters
_TRACEPARENT_HEADER = b"traceparent"
_CONTEXT_HEADERS = frozenset({IMPERSONATE_HEADER, IDEMPOTENCY_HEADER, _TRACEPARENT_HEADER})  # than who calls


async def call_context(host: Host, request: Request) -> CallContext:
    """The context of whatever this request calls or reads.

    Raises:
        CallerError: several are named.
        Denied: somebody is named by who may not.
        Invalid: the idempotency key is none, or there are several.
        PaddockError: nobody has that name, or they may not act; see `Host.principal`.
    """
    caller, scope = caller_of(request), request.scope
    head = request_headers(scope)
    if not scope["query_string"] and _CONTEXT_HEADERS.isdisjoint(head):
        return host.call_context(caller.principal, operator=caller.operator)  # as most do; looking closer takes a while
    named, tenant = head.text(IMPERSONATE_HEADER), await request_tenant(host, request)
    if named is not None:
        acting = await _impersonated_principal(host, caller, named, tenant, several=IMPERSONATE_HEADER in head.repeated)
    else:
        # The operator acts in one tenant at a time, all others in their own.
        acting = caller.principal if caller.operator is None else local_principal(caller.operator, tenant)
    trace, key = (
        None if _TRACEPARENT_HEADER in head.repeated else head.text(_TRACEPARENT_HEADER),
        head.text(IDEMPOTENCY_HEADER),
    )
    if IDEMPOTENCY_HEADER in head.repeated:  # whoever repeats one of them would have it happen again
        wrong = Problem("header Idempotency-Key", "is given more than once", "give it once", "duplicate")
        raise Invalid("the request is not valid", [wrong], code="invalid_params")
    return host.call_context(
        acting,
        operator=caller.operator,
        trace=(trace or "")[:_MAX_TRACEPARENT_CHARS] or None,
        idempotency_key=None if key is None else validate_idempotency_key(key),
    )


async def _impersonated_principal(
    host: Host, caller: Caller, named: str, tenant: Tenant, *, several: bool
) -> Principal:
    if caller.operator is None:
        raise Denied(
            "only the operator at this machine acts as somebody else",
            code="principal.not_yours",
            hint="leave Paddock-As out: you act as whom your credential proves",
        )
    if several:
        raise CallerError("Paddock-As names more than one", code="principal.unclear", hint="give it once")
    return await host.principal(named, tenant)


def call_location(live: CallHandle) -> str:
    """Where a call is looked at: within the tenant that made it, and nowhere else."""
    tenant = live.context.tenant
    return f"{API_PREFIX}/calls/{live.id}" + ("" if tenant == DEFAULT_TENANT else f"?tenant={tenant}")


async def request_tenant(host: Host, request: Request) -> Tenant:
    """The tenant that a request is about: the caller's own; the operator may name another.

    Raises:
        NotFound: there is none of that name, or it is not theirs.
    """
    caller, named = caller_of(request), request.query_params.get("tenant")
    if named is None or named == caller.principal.tenant:
        return caller.principal.tenant
    if caller.operator is None:
        raise unknown_tenant_error(named[:MAX_NAME_CHARS])
    return await host.tenant(named[:MAX_NAME_CHARS])


def is_tenant_operator(principal: Principal) -> bool:
    """Whether somebody sees everything of their tenant, and not only what is theirs."""
    return OPERATOR in principal.roles


def is_owner(principal: Principal, made_by: Principal) -> bool:
    """Whether something that was made belongs to whoever asks: they made it, or a key of theirs did.

    A key sees what it made itself and nothing of its owner's: it may have less than they have.
    """
    return principal.id in (made_by.id, made_by.owner)
