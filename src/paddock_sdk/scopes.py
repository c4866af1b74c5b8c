"""The caller's permissions, looked at once more on the plugin's side: the host has checked them too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from paddock_sdk.faults import ScopeMissing

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__paddock_scopes__"


def requires_scopes(*scopes: str) -> Callable[[F], F]:
    """Call the function only where its caller has all these. For Kernel entry points, and methods of Shu classes.

    The caller's scopes stand where the kind of plugin has them: in `call["auth_context"]["scopes"]`, or in
    `context["permissions"]`. A call that names none has none.

    Raises:
        ScopeMissing: one is missing; the function was not called.
    """

    def wrap(function: F) -> F:
        import functools

        @functools.wraps(function)
        def guarded(*given: Any, **named: Any) -> Any:
            held = scopes_of([*given, *named.values()])
            missing = [scope for scope in scopes if scope not in held]
            if missing:
                raise ScopeMissing(missing)
            return function(*given, **named)

        setattr(guarded, _MARK, scopes)
        return cast("F", guarded)

    return wrap


def asks_for_scopes(function: Callable[..., Any]) -> bool:
    """Whether a function looks at its caller's scopes, and so must be told them by the host."""
    return hasattr(function, _MARK)


def scopes_of(arguments: Sequence[Any]) -> frozenset[str]:
    """The scopes of the caller, from the arguments of a handler.

    What the host says about a call is the last object among them; an object before it is the caller's own, and could
    claim anything.
    """
    objects = [cast("Mapping[str, Any]", one) for one in arguments if isinstance(one, Mapping)]
    if not objects:
        return frozenset()
    auth = objects[-1].get("auth_context")
    if isinstance(auth, Mapping):
        return _texts(cast("Mapping[str, Any]", auth).get("scopes"))
    return _texts(objects[-1].get("permissions"))


def _texts(value: Any) -> frozenset[str]:
    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return frozenset(one for one in entries if isinstance(one, str))
