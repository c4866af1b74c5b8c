"""The caller's permissions, looked at once more on the plugin's side: the host has checked them too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from paddock_sdk.call import string_items
from paddock_sdk.faults import ScopeMissing

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_MARK = "__paddock_scopes__"
# The scopes of the caller of a plugin of ours, whose handlers need not take the context that says them.
_CALLER_SCOPES: ContextVar[frozenset[str] | None] = ContextVar("paddock_scopes", default=None)


def requires_scopes(*scopes: str) -> Callable[[F], F]:
    """Call the function only where its caller has all these. For tools, methods, and entry points of any dialect.

    The caller's scopes stand where the kind of plugin has them: in `context.scopes`, in
    `call["auth_context"]["scopes"]`, or in `context["permissions"]`. A call that names none has none. A tool or method
    names the same scopes in its manifest: it is told of no others.

    Raises:
        ScopeMissing: one is missing; the function was not called.
    """

    def wrap(function: F) -> F:
        import functools

        @functools.wraps(function)
        def guarded(*given: Any, **named: Any) -> Any:
            told = _CALLER_SCOPES.get()
            held = caller_scopes([*given, *named.values()]) if told is None else told
            missing = [scope for scope in scopes if scope not in held]
            if missing:
                raise ScopeMissing(missing)
            return function(*given, **named)

        setattr(guarded, _MARK, scopes)
        return cast("F", guarded)

    return wrap


def checks_scopes(function: Callable[..., Any]) -> bool:
    """Whether a function looks at its caller's scopes, and so must be told them by the host."""
    return hasattr(function, _MARK)


def with_caller_scopes(scopes: Iterable[str], work: Callable[[], T]) -> T:
    """Do something for a caller who has these scopes, whatever else its arguments claim."""
    before = _CALLER_SCOPES.set(frozenset(scopes))
    try:
        return work()
    finally:
        _CALLER_SCOPES.reset(before)


def caller_scopes(arguments: Sequence[Any]) -> frozenset[str]:
    """The scopes of the caller, from the arguments of a handler.

    What the host says about a call is the last object among them; an object before it is the caller's own, and could
    claim anything.
    """
    objects = [cast("Mapping[str, Any]", one) for one in arguments if isinstance(one, Mapping)]
    if not objects:
        return frozenset()
    auth = objects[-1].get("auth_context")
    if isinstance(auth, Mapping):
        return frozenset(string_items(cast("Mapping[str, Any]", auth).get("scopes")))
    return frozenset(string_items(objects[-1].get("permissions")))
