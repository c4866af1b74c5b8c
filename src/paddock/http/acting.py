"""In whose name a request acts: the caller's own, or that of somebody whom the operator names in `Paddock-As`.

Naming somebody is no proof of being them. It is taken because every `Caller` is the operator of this daemon, who may
act for anybody. Whoever is let in by another credential must be refused it.

In which tenant it acts is the same question: theirs, or the one that the operator names as `tenant` in the address.
"""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request

from paddock.core.call import CallContext
from paddock.core.errors import CallerError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.effects.keys import checked_key
from paddock.gate.live_call import LiveCall
from paddock.host.host import Host
from paddock.http.auth import caller_of
from paddock.http.endpoint import AS, KEY, LONGEST_NAME, PREFIX

_LONGEST_TRACE = 64  # a traceparent has 55 characters


async def context_of(host: Host, request: Request) -> CallContext:
    """The context of whatever this request calls or reads.

    Raises:
        CallerError: several are named.
        Invalid: the idempotency key is none.
        PaddockError: nobody has that name, or they may not act; see `Host.principal`.
    """
    operator, named, tenant = caller_of(request).operator, request.headers.getlist(AS), await tenant_of(host, request)
    trace = request.headers.get("traceparent", "")[:_LONGEST_TRACE] or None
    key = request.headers.get(KEY)
    key = None if key is None else checked_key(key)
    if not named:
        return replace(host.operator_context(operator, tenant), trace=trace, idempotency_key=key)
    if len(named) > 1:
        raise CallerError("Paddock-As names more than one", code="principal.unclear", hint="give it once")
    acting = host.context_of(await host.principal(named[0], tenant), operator=operator)
    return replace(acting, trace=trace, idempotency_key=key)


def address_of(live: LiveCall) -> str:
    """Where a call is looked at: within the tenant that made it, and nowhere else."""
    tenant = live.context.tenant
    return f"{PREFIX}/calls/{live.id}" + ("" if tenant == DEFAULT_TENANT else f"?tenant={tenant}")


def passed_on_by(context: CallContext) -> str | None:
    """The operator who speaks for somebody else here, as in `local:root`; None where they speak for themselves."""
    operator = f"local:{context.operator}"
    return None if context.operator is None or operator == context.principal.id else operator


async def tenant_of(host: Host, request: Request) -> Tenant:
    """The tenant that a request is about; the default one where it names none.

    Raises:
        NotFound: there is none of that name.
    """
    named = request.query_params.get("tenant")
    return DEFAULT_TENANT if named is None else await host.tenant(named[:LONGEST_NAME])
