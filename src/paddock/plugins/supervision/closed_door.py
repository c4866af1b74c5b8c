"""The way back into a host that offers plugins no services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.plugins.supervision.deployment import Asking


class ClosedDoor:
    """Knows no method."""

    async def answer(self, asking: Asking, method: str, params: Mapping[str, Any]) -> Any:
        del params
        raise NotFound(f"this host serves no {printable(method, 80)} to {asking.key.plugin}", code="method_not_found")
