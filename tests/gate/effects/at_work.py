"""A function of an office that is at work on its call for as long as a test wants."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.gate.test_governed_calls import Office


class AtWork:
    """Takes the place of a function of the office.

    Attributes:
        begun: Set once it is called.
        go: Lets it do its work.
    """

    def __init__(self, office: Office, name: str = "note") -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self._office, self._name = office, name
        office.functions[name] = self.work

    async def work(self, **params: Any) -> dict[str, Any]:
        self.begun.set()
        await self.go.wait()
        return self._office.do(params.get("to", self._name))
