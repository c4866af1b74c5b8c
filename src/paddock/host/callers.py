"""Who makes a call, and the context it gets for that: the person at this machine, or somebody else by name."""

from __future__ import annotations

from functools import lru_cache

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import NotFound
from paddock.core.ids import DEFAULT_TENANT, OperatorId, PrincipalId, RequestId


@lru_cache(maxsize=64)  # the same few people make every call
def at_this_machine(operator: str | None) -> Principal:
    """Whoever operates this host, by their login name; a program that embeds the host has none.

    It then acts as the operator all the same, and is no human who could answer.
    """
    who = PrincipalId(f"local:{operator or 'operator'}")
    return Principal(who, roles=frozenset({OPERATOR}), kind="local", interactive=operator is not None)


def context_for(principal: Principal, request: RequestId, operator: str | None) -> CallContext:
    """The context of a call that somebody makes; `operator` is who made it in their name, if anybody did.

    Raises:
        NotFound: no plugins run for their tenant. What runs here is another's, with all that it keeps.
    """
    if principal.tenant != DEFAULT_TENANT:
        raise NotFound(
            f"no plugin is enabled for the tenant {principal.tenant}",
            code="plugin.not_enabled",
            hint="this host runs the plugins of the default tenant",
        )
    return CallContext(principal, request, principal.tenant, OperatorId(operator) if operator else None)
