"""One call without a daemon: a host is opened, starts the one plugin, and is closed again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from paddock.cli.answering import Answering
from paddock.cli.call_events import EventLine
from paddock.cli.waiting import Waiting
from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.errors import NeedsApproval
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.questions import Answer
from paddock.gate.effects.keys import checked_key
from paddock.gate.live_call import LiveCall
from paddock.host.host import Host
from paddock.host.opening import Config, open_host
from paddock.http.api.approvals import remembered

_TO_END = 5.0  # seconds for a call that nobody wants any more


async def call_once(
    name: str,
    params: dict[str, Any],
    seconds: float | None,
    answering: Answering,
    waiting: Waiting,
    acting_as: str | None = None,
    tenant: str = DEFAULT_TENANT,
    key: str | None = None,
    left: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The call as data, with its result; `acting_as` is in whose name it is made, `tenant` where, and `key` what an
    effect happens once under. `left` gets the call as it is when nobody waits for it any more.

    Raises:
        PaddockError: it failed.
        TimeoutError: it took longer than that; it was cancelled.
    """
    config = Config(role="command", start="nothing", cwd=working_directory())
    with EventLine() as shown:
        async with open_host(config) as host:
            operator, whose = user_name(os.geteuid()), await host.tenant(tenant)
            context = (
                host.operator_context(operator, whose)
                if acting_as is None
                else host.context_of(await host.principal(acting_as, whose), operator=operator)
            )
            if key is not None:
                context = replace(context, idempotency_key=checked_key(key))
            async with asyncio.timeout(seconds):
                live = host.calls.begin_named(name, params, context)
                try:
                    await _followed(host, live, shown, answering, waiting)
                except NeedsApproval:
                    raise  # it is for whoever answers later
                except BaseException:
                    await host.approving.cancel(live)  # nobody wants it any more, nor an answer to what it asks
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_TO_END):
                            await live.over()
                    if left is not None:
                        left.append(live.to_json())
                    raise
                return live.to_json()


async def _followed(host: Host, live: LiveCall, shown: EventLine, answering: Answering, waiting: Waiting) -> None:
    async for event in live.events():
        if event.kind == "event":
            shown.show(event.data)
        elif event.kind == "approval":
            shown.clear()
            await _approved(host, event.data, waiting, live.context.tenant)
        elif event.data["type"] == "question":
            shown.clear()
            await answering.answer(event.data, partial(_answered, live, event.data["id"]))
    await live.wait()


async def _approved(host: Host, held: Mapping[str, Any], waiting: Waiting, tenant: Tenant) -> None:
    by = host.operator_context(user_name(os.geteuid()), tenant).principal

    async def send(approved: bool, body: Mapping[str, Any]) -> None:
        if approved:
            await host.approving.approve(held["approval"], by, remember=remembered(dict(body)))
        else:
            await host.approving.deny(held["approval"], by)

    await waiting.answer(held, send)


def _answered(live: LiveCall, question: str, answer: Mapping[str, Any]) -> None:
    live.questions.answer(question, Answer(answer["action"], answer.get("content", {})))
