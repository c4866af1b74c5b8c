"""One call without a daemon: a host is opened, starts the one plugin, and is closed again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from paddock.api.approvals import parse_remember
from paddock.cli.client.event_loop import run_async
from paddock.cli.output.approval_prompt import ApprovalPrompt
from paddock.cli.output.question_prompt import QuestionPrompt
from paddock.cli.output.status_line import CallEventLine
from paddock.config.directories import user_name
from paddock.config.project_file import working_directory
from paddock.core.call import CallContext, Principal
from paddock.core.elicitation import QuestionAnswer
from paddock.core.errors import NeedsApproval
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.idempotency.states import validate_idempotency_key
from paddock.host.host import Host
from paddock.host.wiring.open_host import Config, open_host

_CANCEL_TIMEOUT_S = 5.0  # seconds for a call that nobody wants any more


async def call_in_process(
    name: str,
    params: dict[str, Any],
    seconds: float | None,
    answering: QuestionPrompt,
    waiting: ApprovalPrompt,
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
    with CallEventLine() as shown:
        async with open_host(config) as host:
            operator, whose = user_name(os.geteuid()), await host.tenant(tenant)
            context = (
                host.operator_context(operator, whose)
                if acting_as is None
                else host.call_context(await host.principal(acting_as, whose), operator=operator)
            )
            if key is not None:
                context = replace(context, idempotency_key=validate_idempotency_key(key))
            async with asyncio.timeout(seconds):
                live = host.calls.start_by_name(name, params, context)
                try:
                    await _follow_call(host, live, shown, answering, waiting)
                except NeedsApproval:
                    raise  # it is for whoever answers later
                except BaseException:
                    await host.approvals.cancel(live)  # nobody wants it any more, nor an answer to what it asks
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                            await live.wait_ended()
                    if left is not None:
                        left.append(live.to_json())
                    raise
                return live.to_json()


async def _follow_call(
    host: Host, live: CallHandle, shown: CallEventLine, answering: QuestionPrompt, waiting: ApprovalPrompt
) -> None:
    async for event in live.events():
        if event.kind == "event":
            shown.show(event.data)
        elif event.kind == "approval":
            shown.clear()
            await _prompt_for_approval(host, event.data, waiting, live.context.tenant)
        elif event.data["type"] == "question":
            shown.clear()
            await answering.answer(event.data, partial(_answer_question, live, event.data["id"]))
    await live.wait()


async def _prompt_for_approval(host: Host, held: Mapping[str, Any], waiting: ApprovalPrompt, tenant: Tenant) -> None:
    by = host.operator_context(user_name(os.geteuid()), tenant).principal

    async def send(approved: bool, body: Mapping[str, Any]) -> None:
        if approved:
            await host.approvals.approve(held["approval"], by, remember=parse_remember(dict(body)))
        else:
            await host.approvals.deny(held["approval"], by)

    await waiting.answer(held, send)


def _answer_question(live: CallHandle, question: str, answer: Mapping[str, Any]) -> None:
    live.questions.answer(question, QuestionAnswer(answer["action"], answer.get("content", {})))


T = TypeVar("T")


async def run_with_host(work: Callable[[Host, Principal], Awaitable[T]], tenant: str = DEFAULT_TENANT) -> T:
    """The work's result, with a host that is open for it and whoever sits at this machine."""
    async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
        return await work(host, await _local_operator(host, tenant))


async def answer_approval_in_process(
    approval_id: str, verdict: str, body: dict[str, Any], tenant: str = DEFAULT_TENANT
) -> tuple[dict[str, Any], Any]:
    """The request after the answer, and the call as data where it was made.

    Raises:
        PaddockError: the answer was not taken.
    """
    with CallEventLine() as shown:
        async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
            by = await _local_operator(host, tenant)
            if verdict == "deny":
                return await host.approvals.deny(approval_id, by, comment=body["comment"]), None
            answered = await host.approvals.approve(
                approval_id, by, comment=body["comment"], remember=parse_remember(body), payload=body.get("params")
            )
            live = host.calls.find(answered["call_id"], by.tenant)
            if live.approval_required is not None:  # more people are needed
                return answered, None
            async for event in live.events():
                if event.kind == "event":
                    shown.show(event.data)
            return await host.approvals.find(by.tenant, answered["id"]), live.to_json()


async def _local_operator(host: Host, tenant: str) -> Principal:
    return host.operator_context(user_name(os.geteuid()), await host.tenant(tenant)).principal


ReadWithHost: TypeAlias = Callable[[Host, CallContext], Awaitable[dict[str, Any]]]


def read_in_process(read: ReadWithHost, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
    """What is read, for the person who types, in a tenant.

    Raises:
        PaddockError: it cannot be.
    """

    async def reading() -> dict[str, Any]:
        async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
            return await read(host, host.operator_context(user_name(os.geteuid()), await host.tenant(tenant)))

    return run_async(reading())
