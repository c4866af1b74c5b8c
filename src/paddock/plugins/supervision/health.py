"""Asking a plugin from time to time whether it is well."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from paddock.core.event import Publish
from paddock.core.events_host import PluginHealthFail
from paddock.plugins.supervision import wire_names
from paddock.plugins.supervision.conversation import Conversation
from paddock.plugins.supervision.deployment import Deployment
from paddock.rpc.faults import RpcFault

TIMEOUT = 5.0
MOST_FAILURES = 3


class Unwell(Exception):
    """It failed to say that it is well, several times in a row."""


class Health:
    """The watch over one process."""

    def __init__(self, deployment: Deployment, conversation: Conversation, publish: Publish) -> None:
        self._deployment = deployment
        self._conversation = conversation
        self._publish = publish

    async def watch(self) -> None:
        """Ask again and again; ends only when the plugin is unwell.

        Raises:
            Unwell: three questions in a row went wrong.
            PeerLost: it is gone.
        """
        failures = 0
        while True:
            await asyncio.sleep(self._deployment.manifest.timing.health_interval)
            if await self._well():
                failures = 0
                continue
            failures += 1
            self._publish.publish(PluginHealthFail(name=self._deployment.name, consecutive_failures=failures))
            if failures >= MOST_FAILURES:
                raise Unwell

    async def _well(self) -> bool:
        try:
            answer = await self._conversation.ask(wire_names.PING, {}, TIMEOUT)
        except RpcFault:
            return False
        except TimeoutError:
            # A plugin that does one thing at a time is busy with a call, and that call has a time limit of its own.
            return self._conversation.in_flight > 0
        return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("status") == "ok"
