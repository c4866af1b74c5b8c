"""Checks the scopes that a callable requires of its callers."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.core.action import Action
from paddock.core.call import Principal
from paddock.core.errors import Denied
from paddock.core.printable import printable


def require_scopes(plugin: str, callable_name: str, needed: Iterable[str], principal: Principal) -> None:
    """Check that the caller has the scopes that a callable requires.

    Raises:
        Denied: The caller lacks some of them.
    """
    missing = principal.missing_scopes(needed)
    if missing:
        raise Denied(
            f"{plugin} {callable_name} is kept to callers with {', '.join(printable(one, 80) for one in missing)}",
            code="permission_denied",
            hint="an operator can grant these scopes",
            action=Action.of(
                "user.scope.add",
                user=principal.person.removeprefix("user:") if principal.person.startswith("user:") else "",
                scopes=tuple(missing),
                tenant=principal.tenant,
            ),
            details={"plugin": plugin, "missing": missing},
        )
