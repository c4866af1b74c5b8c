"""Makes a call and follows it to its end: shows its events, answers its questions, and asks for approvals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from paddock.cli.client.api_client import ApiClient, ServerEvents, path_segment
from paddock.cli.output.outcome_text import call_timeout_error, daemon_lost_error
from paddock.cli.output.report import InterruptedCommand
from paddock.cli.output.status_line import CallEventLine
from paddock.core.error_formats import error_from_problem
from paddock.core.errors import HostError, NotFound, PaddockError, TimedOut

if TYPE_CHECKING:
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt

_CANCEL_TIMEOUT_S = 5.0  # for an abandoned call to end


def make_call(
    client: ApiClient,
    body: dict[str, Any],
    timeout_s: float | None,
    questions: QuestionPrompt,
    approvals: ApprovalPrompt,
    acting_as: str | None = None,
) -> dict[str, Any]:
    """Make a call, follow it, and return it with its result. A call that is abandoned is cancelled.

    Args:
        client: Makes it.
        body: The name, the parameters, and the idempotency key if there is one.
        timeout_s: After how many seconds it is cancelled.
        questions: Answers the plugin's questions.
        approvals: Handles a required approval.
        acting_as: The principal to call as; the local operator by default.

    Raises:
        PaddockError: it failed, timed out, waits for approval, or the daemon went away.
        InterruptedCommand: Ctrl-C; says what became of the call.
    """
    call_id, pending_approvals = "", list[str]()
    try:
        with client.stream_call(body, timeout_s, acting_as) as (call_id, events):
            return follow_call(client, _record_pending_approvals(events, pending_approvals), questions, approvals)
    except TimedOut as error:
        if error.error_code != "call.timeout":
            raise  # it is the plugin that took too long
        call = _cancelled_call(client, call_id)
        if call is not None and call["status"] == "succeeded":
            return call
        raise call_timeout_error(timeout_s, call, approvals.tenant) from None
    except KeyboardInterrupt:
        call = None
        with suppress(KeyboardInterrupt):  # interrupted again: do not wait for the outcome
            call = _cancelled_call(client, call_id)
        raise InterruptedCommand(call_timeout_error(timeout_s, call, approvals.tenant)) from None
    except HostError as error:
        if error.error_code != "daemon.lost":
            raise
        raise daemon_lost_error(
            error,
            call_id,
            body.get("idempotency_key"),
            approvals.tenant,
            pending_approvals[-1] if pending_approvals else None,
        ) from error


def follow_call(
    client: ApiClient, events: ServerEvents, questions: QuestionPrompt, approvals: ApprovalPrompt
) -> dict[str, Any]:
    """Follow a call to its end and return it: show its events, and answer its questions.

    Raises:
        NeedsApproval: it waits for approval, and was left pending.
        PaddockError: it failed, or the daemon went away.
    """
    also_approved = list[str]()
    with CallEventLine() as event_line:
        for kind, data in events:
            if kind in ("event", "question"):
                _show_or_answer(client, kind, data, event_line, questions)
            elif kind == "approval":
                event_line.clear()
                also_approved += _answer_approval(client, data, approvals)
            else:
                follow_approved_calls(client, also_approved, questions)
                if data["status"] == "succeeded":
                    return data
                raise error_from_problem(data.get("error"))
    raise HostError("the daemon went away before the call ended", code="daemon.lost")


def _record_pending_approvals(events: ServerEvents, pending_approvals: list[str]) -> ServerEvents:
    """Pass events on, and keep track of the approval that the call waits for."""
    for kind, data in events:
        if kind == "approval":
            pending_approvals.append(data["approval"])
        elif kind == "event":
            pending_approvals.clear()  # approved
        yield kind, data


def _cancelled_call(client: ApiClient, call_id: str) -> dict[str, Any] | None:
    """Cancel an abandoned call and return its state; None if it is unknown.

    A call that its operator is still working on (`in_progress`) is left alone if a daemon follows it.
    """
    address = f"/calls/{path_segment(call_id)}"
    with suppress(PaddockError):
        call = client.get(address, timeout_s=_CANCEL_TIMEOUT_S) if call_id else None
        if call is None or (call["status"] == "in_progress" and client.has_daemon):
            return call
        client.post(f"{address}/cancel", timeout_s=_CANCEL_TIMEOUT_S)
        with suppress(PaddockError), client.stream_events(f"{address}/events", timeout_s=_CANCEL_TIMEOUT_S) as events:
            return next((data for kind, data in events if kind == "end"), None)
        return client.get(address, timeout_s=_CANCEL_TIMEOUT_S)
    return None


def follow_approved_calls(client: ApiClient, call_ids: Iterable[str], questions: QuestionPrompt) -> None:
    """Follow calls that an answer released to their end, if they run in this process: they would end with it."""
    if client.has_daemon:
        return
    for call_id in call_ids:
        with (
            suppress(NotFound),  # one that could not go on is not known here
            client.stream_events(f"/calls/{path_segment(call_id)}/events") as events,
            CallEventLine() as event_line,
        ):
            for kind, data in events:
                _show_or_answer(client, kind, data, event_line, questions)


def _answer_approval(client: ApiClient, request: dict[str, Any], approvals: ApprovalPrompt) -> list[str]:
    """Ask for an answer, and return the calls that it released beside the one it is about."""
    also_approved = list[str]()

    def send(approved: bool, body: Mapping[str, Any]) -> Mapping[str, Any]:
        answered = client.post(f"/approvals/{request['approval']}/{'approve' if approved else 'deny'}", dict(body))
        also_approved.extend(covered["call_id"] for covered in answered["also_approved"])
        return answered

    approvals.answer(request, send, client.run)
    return also_approved


def _show_or_answer(
    client: ApiClient, kind: str, data: dict[str, Any], event_line: CallEventLine, questions: QuestionPrompt
) -> None:
    if kind == "event":
        event_line.show(data)
    elif kind == "question" and data["type"] == "question":
        event_line.clear()
        _answer_question(client, data, questions)


def _answer_question(client: ApiClient, question: dict[str, Any], questions: QuestionPrompt) -> None:
    address = f"/calls/{question['call_id']}/questions/{question['id']}"
    questions.answer(question, lambda answer: client.post(address, answer), client.run)
