"""The call context of a request: principal and tenant, both taken from the credential.

Only the operator on the local socket may impersonate a principal (`Paddock-As`) and choose a tenant (`?tenant=`): a
name proves nothing, and the operator may act for anybody. For all other callers a foreign tenant is reported exactly
like one that does not exist.
"""

from __future__ import annotations

from starlette.requests import Request

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import CallerError, Denied, Invalid, Problem
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.idempotency.key_verdict import validate_idempotency_key
from paddock.host.host import Host
from paddock.host.identity.caller import local_principal
from paddock.principals.tenants import unknown_tenant_error
from paddock.web.oidc.protected_resource import MCP_RESOURCE_PATH
from paddock.web.request_headers import request_headers
from paddock.web.routing.route import API_PREFIX, IDEMPOTENCY_HEADER, IMPERSONATE_HEADER, MAX_NAME_CHARS
from paddock.web.security.authenticate import Caller, caller_of

_MAX_TRACEPARENT_CHARS = 64  # a traceparent has 55 characters
_TRACEPARENT_HEADER = b"traceparent"
_CONTEXT_HEADERS = frozenset({IMPERSONATE_HEADER, IDEMPOTENCY_HEADER, _TRACEPARENT_HEADER})


async def call_context(host: Host, request: Request) -> CallContext:
    """Return the call context for a request.

    Raises:
        CallerError: the impersonation header is repeated.
        Denied: a caller other than the operator impersonates a principal.
        Invalid: the idempotency key is malformed or repeated.
        PaddockError: the principal does not exist or may not act; see `Host.principal`.
    """
    caller, scope = caller_of(request), request.scope
    headers = request_headers(scope)
    if not scope["query_string"] and _CONTEXT_HEADERS.isdisjoint(headers):
        # The fast path of most requests.
        return host.call_context(caller.principal, operator=caller.operator, origin=_origin(caller, scope["path"]))
    impersonated, tenant = headers.text(IMPERSONATE_HEADER), await request_tenant(host, request)
    if impersonated is not None:
        principal = await _impersonated_principal(
            host, caller, impersonated, tenant, repeated=IMPERSONATE_HEADER in headers.repeated
        )
    else:
        # The operator acts in one tenant at a time, all others in their own.
        principal = caller.principal if caller.operator is None else local_principal(caller.operator, tenant)
    traceparent, key = (
        None if _TRACEPARENT_HEADER in headers.repeated else headers.text(_TRACEPARENT_HEADER),
        headers.text(IDEMPOTENCY_HEADER),
    )
    if IDEMPOTENCY_HEADER in headers.repeated:  # a retry with only one of them would run twice
        problem = Problem("header Idempotency-Key", "is given more than once", "give it once", "duplicate")
        raise Invalid("the request is not valid", [problem], code="invalid_params")
    return host.call_context(
        principal,
        operator=caller.operator,
        trace=(traceparent or "")[:_MAX_TRACEPARENT_CHARS] or None,
        idempotency_key=None if key is None else validate_idempotency_key(key),
        origin=_origin(caller, scope["path"]),
    )


def _origin(caller: Caller, path: str) -> str:
    """Return where a request comes from, see `CallContext.origin`."""
    if path.startswith(MCP_RESOURCE_PATH):
        return "mcp"
    if not path.startswith("/api/"):
        return "console"
    return "cli" if caller.via == "socket" else "http"


async def _impersonated_principal(
    host: Host, caller: Caller, name: str, tenant: Tenant, *, repeated: bool
) -> Principal:
    if caller.operator is None:
        raise Denied(
            "only the operator at this machine may act as another principal",
            code="principal.not_yours",
            hint="leave Paddock-As out: you act as whom your credential proves",
        )
    if repeated:
        raise CallerError("Paddock-As names more than one", code="principal.unclear", hint="give it once")
    return await host.principal(name, tenant)


def call_location(call: CallHandle) -> str:
    """Return the URL path of a call, with its tenant."""
    tenant = call.context.tenant
    return f"{API_PREFIX}/calls/{call.id}" + ("" if tenant == DEFAULT_TENANT else f"?tenant={tenant}")


async def request_tenant(host: Host, request: Request) -> Tenant:
    """Return the tenant of a request: the caller's own; the operator may name another.

    Raises:
        NotFound: it does not exist, or is not the caller's.
    """
    caller, name = caller_of(request), request.query_params.get("tenant")
    if name is None or name == caller.principal.tenant:
        return caller.principal.tenant
    if caller.operator is None:
        raise unknown_tenant_error(name[:MAX_NAME_CHARS])
    return await host.tenant(name[:MAX_NAME_CHARS])


def is_tenant_operator(principal: Principal) -> bool:
    """Return whether a principal sees everything in its tenant, not only its own records."""
    return OPERATOR in principal.roles


def is_owner(principal: Principal, made_by: Principal) -> bool:
    """Return whether a principal owns a record: it made it, or one of its API keys did.

    An API key sees only what it made itself and not what its owner made: it may have fewer rights.
    """
    return principal.id in (made_by.id, made_by.owner)
