"""Everything that is known of one call, running or long over: what its page, `GET /calls/{id}` and `call show` show.

A call of this host is in the registry until a thousand others have ended; the ledger has every call for good. What only
this host knew then (the result of a call that only read) is gone, and the record says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, NotRequired
from urllib.parse import quote

import orjson

from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock, format_utc
from paddock.core.errors import Category, HostError, NotFound, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.schema.traversal import object_or_empty
from paddock.gate.calls.call_details import CallDetails, CallDetailsStore
from paddock.gate.calls.handle import CallHandle, CallJson, CallStatus
from paddock.gate.calls.redact_inputs import redact_inputs
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.waiting_calls import WaitingCalls
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.idempotency.records import IdempotencyRecord, find_by_call
from paddock.host.explain.call_explanation import CallExplanation, CallExplanationJson
from paddock.host.explain.call_spans import CallSpanJson, build_spans
from paddock.host.explain.explain_service import ExplainService
from paddock.host.ledger.reader import LedgerReader
from paddock.host.plugins.logs.log_files import LogLineJson
from paddock.host.plugins.logs.log_reader import PluginLogReader
from paddock.ledger.entry import LedgerEntry
from paddock.manifest.names import full_name
from paddock.principals.caller_text import caller_text
from paddock.principals.display_name_cache import DisplayNameCache
from paddock.store.database import Database

MAX_LOG_LINES: Final = 200
_STATUS_OF_OUTCOME: Final[Mapping[str, CallStatus]] = {
    "succeeded": "succeeded",
    "pending_approval": "pending_approval",
    "in_doubt": "in_doubt",
    "cancelled": "cancelled",
    "withdrawn": "cancelled",
    "started": "running",
}
_NO_ANSWER: Final = {
    "denied": ("approval.denied", "a person denied it"),
    "expired": ("approval.expired", "the request was not answered in time"),
    "voided": ("approval.voided", "what the request was about has changed"),
    "withdrawn": ("approval.withdrawn", "the request was withdrawn"),
}
"""Codes and messages of calls that ended with their request: no ledger entry of the call says so."""


class CallRecordJson(CallJson):
    """One call, with everything that is known of it."""

    name: Annotated[str, "The full name of what was called."]
    version: str | None
    effects: list[str]
    outcome: Annotated[
        str,
        "As `status`, but exact: also `denied`, `refused`, `timed_out`, `expired`, `voided`, `withdrawn`, `started`.",
    ]
    duration_ms: float | None
    who: Annotated[str | None, "The principal; null if it was erased."]
    who_name: Annotated[str, "The same for people, such as `Ann’s assistant`."]
    operator: Annotated[str | None, "The operator who made it on the principal's behalf."]
    origin: Annotated[str | None, "Where it was made: `cli`, `http`, `mcp`, `console`; null if that is not known."]
    background: Annotated[bool, "Whether nobody waited for it."]
    session: str | None
    project: str | None
    agent_path: str | None
    request_id: str | None
    idempotency_key: Annotated[str | None, "The key that the caller gave."]
    other_calls: Annotated[list[str], "Other calls under that key, newest first."]
    inputs: Annotated[Any, "The inputs, without secrets; null if they are not kept."]
    inputs_kept: bool
    redacted: Annotated[list[str], "Paths in the inputs whose secrets are left out."]
    result_kept: Annotated[bool, "Whether the result of a call that succeeded is still known."]
    timeline: list[CallSpanJson]
    host_services: Annotated[dict[str, int], "Methods of the host that the plugin used, with how often."]
    decision: Annotated[CallExplanationJson | None, "Null while nothing is recorded of it yet."]
    log: Annotated[
        list[LogLineJson] | None, "The lines that its plugin wrote for it; null for callers who are not operators."
    ]
    artifacts: Annotated[list[dict[str, Any]], "What its operator reported: `type`, `path`, `hash`."]
    links: Annotated[dict[str, str], "Pages of the console: itself, its plugin, its request for approval."]
    problem: NotRequired[Annotated[str, "Why the ledger's account of it cannot be trusted."]]


class CallRecords:
    """Reads the record of a call from the registry, the ledger and what else is kept.

    Args:
        registry: The calls of this host.
        explanations: Why a call was allowed or denied.
        ledger: The entries of a call.
        details: The inputs.
        logs: The log of its plugin.
        database: Holds results of effects.
        names: What people and keys are called.
        catalogue: Returns a tenant's callables, for the secrets in the inputs of a call that runs.
        clock: The end of waits that are open.
    """

    def __init__(
        self,
        registry: CallRegistry,
        waiting: WaitingCalls,
        explanations: ExplainService,
        ledger: LedgerReader,
        details: CallDetailsStore,
        logs: PluginLogReader,
        database: Database,
        names: DisplayNameCache,
        catalogue: Callable[[Tenant], Catalogue],
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._waiting = waiting
        self._explanations = explanations
        self._ledger = ledger
        self._details = details
        self._logs = logs
        self._database = database
        self._names = names
        self._catalogue = catalogue
        self._clock = clock

    async def show(self, call_id: str, by: Principal) -> CallRecordJson:
        """Return the record of a call.

        Args:
            call_id: Its id.
            by: Who looks: an operator sees every call of the tenant, others those that they or their keys made.

        Raises:
            NotFound: there is no such call for them.
        """
        handle = await self._visible_handle(call_id, by)
        explanation, problem = await self._explanation(call_id, by)
        if handle is None and explanation is None and (not problem or OPERATOR not in by.roles):
            raise unknown_call_error(call_id)
        entries, altered = await self._entries(by.tenant, call_id)
        if handle is None and explanation is None and not any(entry.call == call_id for entry in entries):
            raise unknown_call_error(call_id)
        details = await self._details.find(by.tenant, call_id, None if OPERATOR in by.roles else by.id)
        effect = await self._database.read(lambda tx: find_by_call(tx, by.tenant, call_id))
        names = await self._names.read(by.tenant)
        call = (
            await self._registry.describe(handle)
            if handle is not None
            else _recorded_call(call_id, explanation, entries, effect)
        )
        now = format_utc(self._clock.now())
        spans = build_spans(
            entries,
            {entry.id for entry in altered},
            names,
            now,
            accepted_at=None if handle is None else handle.started_at,
            running=call["status"] in ("running", "in_progress") and handle is not None,
        )
        first = min((span.begin for span in spans), default=0.0)
        ended = next((entry for entry in reversed(entries) if _is_end(entry, call_id)), None)
        data = {} if ended is None else ended.data
        timeline = None if explanation is None else explanation.timeline
        who, owner = _caller(handle, explanation)
        inputs, redacted, kept = self._inputs(handle, details)
        request = handle.context.request if handle is not None else timeline.request if timeline else None
        record: CallRecordJson = {
            **call,
            "name": full_name(call["plugin"], call["callable"]),
            "version": timeline.version if timeline else None,
            "effects": list(timeline.effects) if timeline else [],
            "outcome": _outcome(call, explanation),
            "duration_ms": data.get("duration_ms"),
            "who": who,
            "who_name": caller_text(who, owner, names),
            "operator": handle.context.operator if handle is not None else timeline.operator if timeline else None,
            "origin": handle.context.origin if handle is not None else details.origin if details else None,
            "background": handle.context.background if handle is not None else bool(timeline and timeline.background),
            "session": handle.context.session if handle is not None else data.get("session_id"),
            "project": handle.context.project if handle is not None else data.get("project_id"),
            "agent_path": handle.context.agent_path if handle is not None else data.get("agent_path"),
            "request_id": request,
            "idempotency_key": _idempotency_key(handle, details),
            "other_calls": list(details.other_calls) if details else [],
            "inputs": inputs,
            "inputs_kept": kept,
            "redacted": redacted,
            "result_kept": call["status"] != "succeeded" or "result" in call,
            "timeline": [span.to_json(first) for span in spans],
            "host_services": _host_services(entries, call_id),
            "decision": None if explanation is None else explanation.to_value(),
            "log": await self._log_lines(call["plugin"], request, by),
            "artifacts": [dict(one) for one in data.get("artifacts") or ()],
            "links": _links(call, explanation),
        }
        if problem:
            record["problem"] = problem
        return record

    async def _visible_handle(self, call_id: str, by: Principal) -> CallHandle | None:
        handle = await self._waiting.get(call_id, by.tenant)
        if handle is None:
            return None
        made_by = handle.context.principal
        return handle if OPERATOR in by.roles or by.id in (made_by.id, made_by.owner) else None

    async def _explanation(self, call_id: str, by: Principal) -> tuple[CallExplanation | None, str]:
        """Return the explanation, or none and a message if the entries were altered."""
        try:
            found = await self._explanations.explain(call_id, by)
        except NotFound:
            return None, ""
        except HostError as error:
            return None, error.message
        of_call = (one for one in found if isinstance(one, CallExplanation) and one.timeline.call == call_id)
        return next(of_call, None), ""

    async def _entries(self, tenant: Tenant, call_id: str) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        try:
            return await self._ledger.entries_of_call(tenant, call_id)
        except (NotFound, HostError):
            return [], []

    async def _log_lines(self, plugin: str, request: str | None, by: Principal) -> list[LogLineJson] | None:
        if OPERATOR not in by.roles:
            return None  # a plugin may write there what it knows of others
        if request is None:
            return []
        try:
            return await self._logs.read_request(plugin, request, tenant=by.tenant, lines=MAX_LOG_LINES)
        except PaddockError:
            return []  # it was uninstalled, or the disk does not answer

    def _inputs(self, handle: CallHandle | None, details: CallDetails | None) -> tuple[Any, list[str], bool]:
        """Return the inputs, the paths of what is left out of them, and whether they are known."""
        if details is not None and details.inputs is not None:
            return details.inputs, list(details.redacted), True
        if handle is None or handle.params is None:
            return None, [], False
        schema: Mapping[str, Any] = {}
        with suppress(PaddockError):  # it was removed meanwhile
            target = self._catalogue(handle.context.tenant).find_callable(handle.plugin, handle.callable)
            schema = target.schemas.input
        inputs, redacted = redact_inputs(dict(handle.params), schema)
        return inputs, redacted, True


def unknown_call_error(call_id: str) -> NotFound:
    """Build the error for a call that does not exist, or not for this caller."""
    return NotFound(f"there is no call {printable(call_id, 64)!r}", code="call.not_found")


def _is_end(entry: LedgerEntry, call_id: str) -> bool:
    return entry.type == "call.ended" and entry.call == call_id and entry.facts.get("status") != "pending_approval"


def _recorded_call(
    call_id: str, explanation: CallExplanation | None, entries: Sequence[LedgerEntry], effect: IdempotencyRecord | None
) -> CallJson:
    """Build the call from what was recorded of it."""
    own = [entry for entry in entries if entry.call == call_id]
    first = own[0].data if own else {}
    ended = next((entry for entry in reversed(own) if _is_end(entry, call_id)), None)
    outcome = (
        explanation.timeline.status if explanation else str((ended.facts if ended else {}).get("status", "failed"))
    )
    call: CallJson = {
        "call_id": call_id,
        "plugin": explanation.timeline.plugin if explanation else str(first.get("name", "")),
        "callable": explanation.timeline.callable if explanation else str(first.get("method", "")),
        "status": _STATUS_OF_OUTCOME.get(outcome, "failed"),
        "started_at": explanation.timeline.at if explanation else own[0].at if own else "",
        "ended_at": ended.at if ended else None,
        "events": int(_metrics(ended).get("events", 0)) if ended else 0,
        "questions": [],
    }
    if outcome == "succeeded" and effect is not None and effect.result is not None:
        call["result"] = orjson.loads(effect.result)
    if ended is not None and (replayed := ended.facts.get("replay_of")):
        call["replay_of"] = replayed
    if explanation is not None and (undisclosed := explanation.timeline.undisclosed):
        call["undisclosed"] = list(undisclosed)
    error = dict(explanation.timeline.error) if explanation and explanation.timeline.error else None
    if outcome == "succeeded" or outcome == "started":
        error = None
    elif error is None and outcome in _NO_ANSWER:
        code, message = _NO_ANSWER[outcome]
        error = {"code": code, "message": message, "category": Category.POLICY.value}
    if error is not None:
        message = error["message"] or "the message was erased"
        call["error"] = {
            "code": error["code"],
            "message": message,
            "category": Category(error["category"]),
            "retryable": False,
            "details": {},
        }
    return call


def _outcome(call: CallJson, explanation: CallExplanation | None) -> str:
    """Return the exact outcome: the ledger's, unless this host knows that the call goes on."""
    if explanation is None or call["status"] in ("running", "in_progress", "pending_approval"):
        return call["status"]
    recorded = explanation.timeline.status
    return recorded if _STATUS_OF_OUTCOME.get(recorded, "failed") == call["status"] else call["status"]


def _caller(handle: CallHandle | None, explanation: CallExplanation | None) -> tuple[str | None, str | None]:
    if handle is not None:
        return handle.context.principal.id, handle.context.principal.owner
    return (explanation.timeline.who, explanation.timeline.owner) if explanation else (None, None)


def _idempotency_key(handle: CallHandle | None, details: CallDetails | None) -> str | None:
    return handle.context.idempotency_key if handle is not None else details.idempotency_key if details else None


def _host_services(entries: Sequence[LedgerEntry], call_id: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in entries:
        if entry.type == "call.ended" and entry.call == call_id:
            for method, count in object_or_empty(_metrics(entry).get("asked")).items():
                counts[method] = counts.get(method, 0) + int(count)
    return dict(sorted(counts.items()))


def _metrics(entry: LedgerEntry) -> dict[str, Any]:
    return object_or_empty(entry.facts.get("metrics"))


def _links(call: CallJson, explanation: CallExplanation | None) -> dict[str, str]:
    links = {
        "page": f"/calls/{quote(call['call_id'], safe='')}",
        "plugin": f"/plugins/{quote(call['plugin'], safe='')}",
    }
    held = call.get("approval")
    approval = held["approval"] if held else explanation.timeline.approval if explanation else None
    if approval and not str(approval).startswith("sta_"):
        links["approval"] = f"/approvals/{quote(str(approval), safe='')}"
    if call["status"] == "in_doubt":
        links["unknown_outcome"] = f"/unknown-outcomes/{quote(call['call_id'], safe='')}"
    return links
