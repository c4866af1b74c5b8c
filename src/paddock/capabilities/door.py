"""The one door back: whatever a plugin asks of the host comes through `Door.answer`.

    which method → within its kind? → granted? → record → the family's handler

No handler is reachable otherwise. Which call a request belongs to was settled before, from its token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from paddock.capabilities.asking import Asking
from paddock.capabilities.denials import Denials
from paddock.capabilities.methods import NEEDS, Method, method_named
from paddock.core.errors import Denied, HostError
from paddock.manifest.capability import covers
from paddock.manifest.kind_boundary import PASSIVE

Handler: TypeAlias = Callable[[Asking, Mapping[str, Any]], Awaitable[Any]]


class Door:
    """Answers plugins.

    Args:
        handlers: Who serves each method of `methods.NEEDS`; exactly those.
        denials: Where refusals are recorded.
    """

    def __init__(self, handlers: Mapping[str, Handler], denials: Denials) -> None:
        if handlers.keys() != NEEDS.keys():
            raise HostError(f"unserved or unlisted methods: {sorted(handlers.keys() ^ NEEDS.keys())}")
        self._handlers = handlers
        self._denials = denials

    async def answer(self, asking: Asking, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a plugin's request.

        Raises:
            NotFound: there is no such method.
            Denied: its kind must not, it was not granted, or the family refuses it; recorded.
            PaddockError: the family could not serve it, and says why.
        """
        found = method_named(asking.manifest, method)
        try:
            _require_kind(asking, found)
            _require_grant(asking, found)
            # Policy decides here, between what a person granted and what is recorded and done.
            return await self._handlers[found.name](asking, params)
        except Denied as denied:
            self._denials.record(asking, found.name, denied)
            raise


def _require_kind(asking: Asking, method: Method) -> None:
    kind = asking.manifest.kind
    if kind not in PASSIVE or not method.writes:
        return
    raise Denied(
        f"{asking.plugin} is of kind {kind} and may not ask for {method.name}, which keeps something",
        code=_code(method),
        hint="only operators act and keep anything: make it an operator, or give back what is to be kept",
        details={"capability": str(method.needs), "method": method.name},
    )


def _require_grant(asking: Asking, method: Method) -> None:
    needed = method.needs
    if needed is None or any(covers(held, needed) for held in asking.granted):
        return
    raise Denied(
        f"{asking.plugin} was not granted {needed}",
        code=_code(method),
        hint=f"declare '{needed}' in its manifest, and grant it",
        details={"capability": str(needed), "method": method.name},
    )


def _code(method: Method) -> str:
    return "storage_access_denied" if method.family == "storage" else "capability_denied"
