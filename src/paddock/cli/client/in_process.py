"""Calls, approvals and reads without a daemon: a host is opened in this process for the one command."""

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

T = TypeVar("T")
ReadWithHost: TypeAlias = Callable[[Host, CallContext], Awaitable[dict[str, Any]]]

_CANCEL_TIMEOUT_S = 5.0  # for an abandoned call to end


async def call_in_process(
    name: str,
    params: dict[str, Any],
    timeout_s: float | None,
    questions: QuestionPrompt,
    approvals: ApprovalPrompt,
    acting_as: str | None = None,
    tenant: str = DEFAULT_TENANT,
    key: str | None = None,
    abandoned: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Make a call and return it as JSON data, with its result.

    Args:
        name: The callable.
        params: Its parameters.
        timeout_s: After how many seconds the call is cancelled.
        questions: Answers the plugin's questions.
        approvals: Handles a required approval.
        acting_as: The principal to call as; the local operator by default.
        tenant: The tenant to call in.
        key: The idempotency key of an effect.
        abandoned: Receives the state of a call that is no longer waited for.

    Raises:
        PaddockError: it failed.
        TimeoutError: it timed out and was cancelled.
    """
    config = Config(role="command", start="nothing", cwd=working_directory())
    with CallEventLine() as event_line:
        async with open_host(config) as host:
            operator, tenant_name = user_name(os.geteuid()), await host.tenant(tenant)
            context = (
                host.operator_context(operator, tenant_name)
                if acting_as is None
                else host.call_context(await host.principal(acting_as, tenant_name), operator=operator)
            )
            if key is not None:
                context = replace(context, idempotency_key=validate_idempotency_key(key))
            async with asyncio.timeout(timeout_s):
                handle = host.calls.start_by_name(name, params, context)
                try:
                    await _follow_call(host, handle, event_line, questions, approvals)
                except NeedsApproval:
                    raise  # the call stays for whoever answers later
                except BaseException:
                    await host.approvals.cancel(handle)  # the call and its approval request are abandoned
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                            await handle.wait_ended()
                    if abandoned is not None:
                        abandoned.append(handle.to_json())
                    raise
                return handle.to_json()


async def _follow_call(
    host: Host, handle: CallHandle, event_line: CallEventLine, questions: QuestionPrompt, approvals: ApprovalPrompt
) -> None:
    async for event in handle.events():
        if event.kind == "event":
            event_line.show(event.data)
        elif event.kind == "approval":
            event_line.clear()
            await _prompt_for_approval(host, event.data, approvals, handle.context.tenant)
        elif event.data["type"] == "question":
            event_line.clear()
            await questions.answer(event.data, partial(_answer_question, handle, event.data["id"]))
    await handle.wait()


async def _prompt_for_approval(
    host: Host, request: Mapping[str, Any], approvals: ApprovalPrompt, tenant: Tenant
) -> None:
    operator = host.operator_context(user_name(os.geteuid()), tenant).principal

    async def send(approved: bool, body: Mapping[str, Any]) -> None:
        if approved:
            await host.approvals.approve(request["approval"], operator, remember=parse_remember(dict(body)))
        else:
            await host.approvals.deny(request["approval"], operator)

    await approvals.answer(request, send)


def _answer_question(handle: CallHandle, question: str, answer: Mapping[str, Any]) -> None:
    handle.questions.answer(question, QuestionAnswer(answer["action"], answer.get("content", {})))


async def run_with_host(work: Callable[[Host, Principal], Awaitable[T]], tenant: str = DEFAULT_TENANT) -> T:
    """Open a host, run the work with it as the local operator, and return its result."""
    async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
        return await work(host, await _local_operator(host, tenant))


async def answer_approval_in_process(
    approval_id: str, verdict: str, body: dict[str, Any], tenant: str = DEFAULT_TENANT
) -> tuple[dict[str, Any], Any]:
    """Answer an approval request; return the request, and the call as JSON data if it was made.

    Raises:
        PaddockError: the answer was rejected.
    """
    with CallEventLine() as event_line:
        async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
            operator = await _local_operator(host, tenant)
            if verdict == "deny":
                return await host.approvals.deny(approval_id, operator, comment=body["comment"]), None
            request = await host.approvals.approve(
                approval_id,
                operator,
                comment=body["comment"],
                remember=parse_remember(body),
                payload=body.get("params"),
            )
            handle = host.calls.find(request["call_id"], operator.tenant)
            if handle.approval_required is not None:  # more people are needed
                return request, None
            async for event in handle.events():
                if event.kind == "event":
                    event_line.show(event.data)
            return await host.approvals.find(operator.tenant, request["id"]), handle.to_json()


async def _local_operator(host: Host, tenant: str) -> Principal:
    return host.operator_context(user_name(os.geteuid()), await host.tenant(tenant)).principal


def read_in_process(read: ReadWithHost, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
    """Read something with a host as the local operator, in a tenant.

    Raises:
        PaddockError: it cannot be read.
    """

    async def run() -> dict[str, Any]:
        async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
            return await read(host, host.operator_context(user_name(os.geteuid()), await host.tenant(tenant)))

    return run_async(run())
