"""One call without a daemon: a host is opened, starts the one plugin, and is closed again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from paddock.cli.answering import Answering
from paddock.cli.call_events import EventLine
from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.questions import Answer
from paddock.gate.calls import LiveCall
from paddock.host.opening import Config, open_host


async def call_once(
    name: str, params: dict[str, Any], seconds: float | None, answering: Answering, acting_as: str | None = None
) -> dict[str, Any]:
    """The call as data, with its result; `acting_as` is in whose name it is made.

    Raises:
        PaddockError: it failed.
        TimeoutError: it took longer than that; it was cancelled.
    """
    config = Config(role="command", start="nothing", cwd=working_directory())
    with EventLine() as shown:
        async with open_host(config) as host:
            operator = user_name(os.geteuid())
            context = (
                host.operator_context(operator)
                if acting_as is None
                else host.context_of(await host.principal(acting_as), operator=operator)
            )
            async with asyncio.timeout(seconds):
                live = host.calls.begin_named(name, params, context)
                try:
                    await _followed(live, shown, answering)
                finally:
                    live.cancel()
                return live.to_json()


async def _followed(live: LiveCall, shown: EventLine, answering: Answering) -> None:
    async for event in live.events():
        if event.kind == "event":
            shown.show(event.data)
        elif event.data["type"] == "question":
            shown.clear()
            await answering.answer(event.data, partial(_answered, live, event.data["id"]))
    await live.wait()


def _answered(live: LiveCall, question: str, answer: Mapping[str, Any]) -> None:
    live.questions.answer(question, Answer(answer["action"], answer.get("content", {})))
