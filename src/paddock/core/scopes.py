"""Callables that are kept to callers with certain scopes."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.core.call import Principal
from paddock.core.errors import Denied
from paddock.core.printable import printable


def require_scopes(plugin: str, callable_name: str, needed: Iterable[str], principal: Principal) -> None:
    """See to it that the caller has what a callable is kept to.

    Raises:
        Denied: they lack some of it.
    """
    missing = principal.missing_scopes(needed)
    if missing:
        raise Denied(
            f"{plugin} {callable_name} is kept to callers with {', '.join(printable(one, 80) for one in missing)}",
            code="permission_denied",
            hint="whoever gives out scopes can give you these",
            details={"plugin": plugin, "missing": missing},
        )
