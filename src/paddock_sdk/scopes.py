"""Scope checks on the plugin's side, in addition to those of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from paddock_sdk.call import string_items
from paddock_sdk.faults import ScopeMissing

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_MARK = "__paddock_scopes__"
# The caller's scopes in native plugins, whose handlers need not take the context that holds them.
_CALLER_SCOPES: ContextVar[frozenset[str] | None] = ContextVar("paddock_scopes", default=None)


def requires_scopes(*scopes: str) -> Callable[[F], F]:
    """Call the function only if its caller has all these scopes.

    For tools, methods, and entry points of any dialect. The caller's scopes are in `context.scopes`, in
    `call["auth_context"]["scopes"]`, or in `context["permissions"]`, depending on the dialect. A call without scopes
    has none. A tool or method must list the same scopes in its manifest: the host passes on no others.

    Raises:
        ScopeMissing: a scope is missing; the function was not called.
    """

    def wrap(function: F) -> F:
        import functools

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            known_scopes = _CALLER_SCOPES.get()
            held = caller_scopes([*args, *kwargs.values()]) if known_scopes is None else known_scopes
            missing = [scope for scope in scopes if scope not in held]
            if missing:
                raise ScopeMissing(missing)
            return function(*args, **kwargs)

        setattr(guarded, _MARK, scopes)
        return cast("F", guarded)

    return wrap


def checks_scopes(function: Callable[..., Any]) -> bool:
    """Whether a function checks its caller's scopes, so that the host must send them."""
    return hasattr(function, _MARK)


def with_caller_scopes(scopes: Iterable[str], work: Callable[[], T]) -> T:
    """Run something for a caller with these scopes, whatever its arguments claim."""
    token = _CALLER_SCOPES.set(frozenset(scopes))
    try:
        return work()
    finally:
        _CALLER_SCOPES.reset(token)


def caller_scopes(arguments: Sequence[Any]) -> frozenset[str]:
    """Return the caller's scopes, from the arguments of a handler.

    The host's data about a call is the last mapping among them. A mapping before it comes from the caller, and could
    claim anything.
    """
    mappings = [cast("Mapping[str, Any]", one) for one in arguments if isinstance(one, Mapping)]
    if not mappings:
        return frozenset()
    auth = mappings[-1].get("auth_context")
    if isinstance(auth, Mapping):
        return frozenset(string_items(cast("Mapping[str, Any]", auth).get("scopes")))
    return frozenset(string_items(mappings[-1].get("permissions")))
