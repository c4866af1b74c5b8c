"""Asking a plugin from time to time whether it is well."""

from __future__ import annotations

from paddock.core.event import Publish
from paddock.core.events_host import PluginHealthFail
from paddock.plugins.supervision.conversation import Conversation
from paddock.plugins.supervision.deployment import Deployment

MOST_FAILURES = 3


class Unwell(Exception):
    """It failed to say that it is well, several times in a row."""


class Health:
    """The watch over one process."""

    def __init__(self, deployment: Deployment, conversation: Conversation, publish: Publish) -> None:
        self._deployment = deployment
        self._conversation = conversation
        self._publish = publish
        self._failures = 0

    async def look(self) -> None:
        """Ask once.

        Raises:
            Unwell: three questions in a row went wrong.
            PeerLost: it is gone.
        """
        if await self._well():
            self._failures = 0
            return
        self._failures += 1
        self._publish.publish(PluginHealthFail(name=self._deployment.name, consecutive_failures=self._failures))
        if self._failures >= MOST_FAILURES:
            raise Unwell

    async def _well(self) -> bool:
        try:
            return await self._conversation.wire.well(self._conversation)
        except TimeoutError:
            # A plugin that does one thing at a time is busy with a call, and that call has a time limit of its own.
            return self._conversation.in_flight > 0
