"""One call on its way through the gate: its request, and what the ledger records of it."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import orjson

from paddock.capabilities.request import MethodCounts
from paddock.core.call import CallContext
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, Denied, Invalid, NeedsApproval, PaddockError, TimedOut
from paddock.core.events.calls import CallEnded, CallStarted
from paddock.core.ids import CallId
from paddock.gate.audit_entry import EntryTemplate
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.idempotency.records import EffectKey, IdempotencyRecord
from paddock.gate.nondeterminism import find_undisclosed
from paddock.gate.reported_metadata import NO_METADATA, ReportedMetadata, read_artifacts, read_metadata
from paddock.ledger.entry import PreEncoded, SplitEvent
from paddock.ledger.stored_row import GAP, REQUEST_GAP
from paddock.manifest.model import PluginKind
from paddock.policy.decision import Decision
from paddock.runtime.calls import AskCaller, DeliveryStatus, OnEvent

InvocationStatus: TypeAlias = Literal[
    "succeeded", "failed", "in_doubt", "denied", "refused", "timed_out", "cancelled", "pending_approval"
]

MAX_INPUT_BYTES: Final = 32 * 1024
"""Larger inputs are not kept for the page of a call."""

_CALLED = ("plugin.method_called",)
_RETURNED = ("plugin.method_returned",)
_EMPTY: Mapping[str, Any] = {}
_NULL_FIELDS: dict[str, Any] = dict.fromkeys(CallEnded.__struct_fields__)


class CallRequest(NamedTuple):
    """One call, as it is handed to `Gate.call`."""

    target: CallTarget
    payload: Mapping[str, Any]
    context: CallContext
    call_id: CallId | None = None
    """Given where the call is known under an id already; the gate makes one otherwise."""
    approval: str | None = None
    """The approved request, where the call waited for a person and now goes on."""
    on_event: OnEvent | None = None
    """Receives the events that the plugin sends while it works."""
    ask: AskCaller | None = None
    """Puts the plugin's questions to the caller; without it they are declined."""


class CallCancelled(Conflict):
    """The call was cancelled, or the host shut down."""

    code = "call.cancelled"


def _no_methods() -> MethodCounts:
    return {}


@dataclasses.dataclass(slots=True, eq=False)
class Invocation:
    """The state of one call. The gate fills it in as the call proceeds.

    The target is replaced where a server describes it differently once it runs.
    """

    call_id: CallId
    target: CallTarget
    payload: Mapping[str, Any]
    context: CallContext
    began: float
    resumed_approval: str | None = None  # the approved request with which it goes on
    decision: Decision | None = None
    approval: str | None = None  # the request that it waits for, or the approval that it is made with
    proposed: str | None = None  # the proposal for which the answer was denied
    started: bool = False  # whether `call.started` was recorded
    ran: bool = False  # whether the plugin was called
    parked: bool = False  # whether its operator is still at work; the outcome is then recorded by the poller
    replay_of: CallId | None = None  # the earlier call whose result it got
    effect: IdempotencyRecord | None = None
    _effect_key: EffectKey | None = dataclasses.field(default=None, init=False)
    delivery: DeliveryStatus = dataclasses.field(default_factory=DeliveryStatus)
    event_digest: EventDigest | None = None  # of the plugin's events, where there are any and somebody listens
    tally: MethodCounts = dataclasses.field(
        default_factory=_no_methods
    )  # host methods that the plugin used, with counts
    result: Any = None  # until the end of the call is recorded
    finished: bool = False
    status: InvocationStatus = "succeeded"  # this and all below: valid once it is finished
    duration_ms: float = 0.0
    inputs: bytes | None = None  # the payload as JSON; None if it is too large to keep, or cannot be written
    _payload_hash: str | None = dataclasses.field(default=None, init=False)
    _result_hash: str | None = dataclasses.field(default=None, init=False)
    error_code: str | None = None
    _error_category: str | None = dataclasses.field(default=None, init=False)
    _error_message: str | None = dataclasses.field(default=None, init=False)
    _effects: tuple[str, ...] = dataclasses.field(default=(), init=False)
    _metadata: ReportedMetadata = dataclasses.field(default=NO_METADATA, init=False)
    undisclosed: tuple[str, ...] | None = None  # sources of nondeterminism that it used and did not disclose

    @property
    def only_reads(self) -> bool:
        """Whether the callable declares no effect."""
        return self.target.read_only

    @property
    def effect_key(self) -> EffectKey:
        """The key of its effect. A call that was given none stands for itself, with its id."""
        if self._effect_key is None:
            context, target = self.context, self.target
            self._effect_key = EffectKey(
                context.tenant, target.key.plugin, target.spec.name, context.idempotency_key or self.call_id
            )
        return self._effect_key

    @property
    def payload_hash(self) -> str:
        return self._payload_hash or self.hash_payload()

    def hash_payload(self) -> str:
        """Hash the payload, once."""
        if self._payload_hash is None:
            self._payload_hash = hash_of(self.payload)
        return self._payload_hash

    def wrap_listener(self, on_event: OnEvent | None) -> OnEvent | None:
        """A listener that also counts and hashes the plugin's events; None where the caller does not listen."""
        if on_event is None:
            return None

        def digest_and_forward(event: Mapping[str, Any]) -> None:
            if self.event_digest is None:
                self.event_digest = EventDigest()
            self.event_digest.add(event)
            on_event(event)

        return digest_and_forward

    def split_start(self) -> SplitEvent:
        """The `call.started` event in two parts, for the ledger. Built by its writer, for many calls at once."""
        context = self.context
        personal: dict[str, Any] = {
            "operator_id": context.operator,
            "project_id": context.project,
            "owner": context.principal.owner,
            "payload_hash": self.payload_hash,
        }
        return SplitEvent(
            CallStarted,
            self._pre_encoded_start() or self._start_facts(),
            {name: value for name, value in personal.items() if value is not None},
        )

    def _start_facts(self) -> dict[str, Any]:
        target, context, decision = self.target, self.context, self.decision
        facts: dict[str, Any] = {
            "name": target.key.plugin,
            "method": target.spec.name,
            "version": target.manifest.version,
            "digest": target.key.digest,
            "effects": target.effects,
            "request_id": context.request,
            "decision": decision.word if decision else "allow",
            "policies": decision.policies if decision else (),
            "policy_version": decision.version if decision else "",
            "stands_for": _CALLED,
        }
        optional = {"approval": self.approval, "background": context.background or None}
        return facts | {name: value for name, value in optional.items() if value is not None}

    def _pre_encoded_start(self) -> PreEncoded | None:
        """The facts as canonical JSON from the target's template; None where this call has more to say."""
        target, decision = self.target, self.decision
        if decision is None or self.approval is not None or self.context.background:
            return None
        template = target.start_template
        if template is None or template.decision is not decision:
            template = EntryTemplate.from_facts(decision, self._start_facts(), {"request_id": REQUEST_GAP})
            target.start_template = template
        return template.render_start(self.context.request, target.key.plugin)

    def finish(self, now: float, result: Any, error: BaseException | None, *, retained: bool = False) -> None:
        """Note the outcome and drop the payload, which is large and would wait with the entry for the disk.

        `retained` says that nobody changes the result, so that `hash_result` may hash it a moment later.
        """
        self.finished = True
        self.duration_ms = int((now - self.began) * 1e6) / 1000
        self.hash_payload()  # here at the latest
        self.inputs = _encode_inputs(self.payload)
        self.payload = _EMPTY
        self._effects = self.target.effects
        if error is None:
            self.status = "succeeded"
            if not retained:
                self._result_hash = hash_of(result)
            if isinstance(result, dict):
                self._metadata = read_metadata(cast("dict[str, Any]", result))
                if "artifacts" in result and self.target.manifest.kind is PluginKind.OPERATOR:
                    self._metadata = self._metadata._replace(artifacts=read_artifacts(result["artifacts"]))
            if self.ran and (self.tally or self._metadata.metrics):
                self.undisclosed = find_undisclosed(self.target.manifest, self._effects, self.tally, result)
        else:
            self.status, known = _status_of_error(error), _as_paddock_error(error)
            self.error_code = known.error_code if known else "internal"
            self._error_category = known.category.value if known else "internal"
            self._error_message = known.message if known else None

    def hash_result(self) -> None:
        """Hash the result of a successful call, unless `finish` did, and drop it."""
        if self._result_hash is None:
            self._result_hash = hash_of(self.result)
        self.result = None

    def ended_event(self) -> CallEnded:
        """The `call.ended` event."""
        return CallEnded(**{**_NULL_FIELDS, **self._facts(), **self._personal_fields()})

    def split_event(self) -> SplitEvent:
        """The `call.ended` event in two parts, for the ledger. Built by the ledger's writer, for many calls at once.

        Personal data and text that a plugin wrote stand apart, so that they can be erased; see `ledger/entry.py`.
        """
        return SplitEvent(CallEnded, self._pre_encoded_facts() or self._facts(), self._personal_fields())

    def _facts(self) -> dict[str, Any]:
        target, context, decision, events = self.target, self.context, self.decision, self.event_digest
        metrics: dict[str, Any] = {}
        if events is not None and events.count:
            metrics["events"] = events.count
        if self.tally:
            metrics["asked"] = dict(self.tally)
        facts: dict[str, Any] = {
            "name": target.key.plugin,
            "method": target.spec.name,
            "version": target.manifest.version,
            "digest": target.key.digest,
            "effects": self._effects,
            "request_id": context.request,
            "status": self.status,
            "success": self.status == "succeeded",
            "duration_ms": self.duration_ms,
            "metrics": metrics,
            "policies": (),
            "stands_for": () if not self.ran else _RETURNED if self.started else _CALLED + _RETURNED,
        }
        if decision is not None:
            facts["decision"] = decision.word
            facts["policies"] = decision.policies
            facts["policy_version"] = decision.version
        optional = {
            "approval": self.approval,
            "error_code": self.error_code,
            "error_category": self._error_category,
            "replay_of": self.replay_of,
            "undisclosed": self.undisclosed,
            "background": context.background or None,
        }
        return facts | {name: value for name, value in optional.items() if value is not None}

    def _pre_encoded_facts(self) -> PreEncoded | None:
        """The facts as canonical JSON from the target's template; None where this call has more to say.

        Nearly all calls fit the template: they succeeded, and nothing about them is special.
        """
        target, decision = self.target, self.decision
        if (
            decision is None
            or self.status != "succeeded"
            or not self.ran
            or self.started is self.only_reads
            or self.tally
            or self.event_digest is not None
            or self.approval is not None
            or self.replay_of is not None
            or self.undisclosed is not None
            or self.context.background
        ):
            return None
        template = target.end_template
        if template is None or template.decision is not decision:
            template = EntryTemplate.from_facts(
                decision, self._facts(), {"duration_ms": GAP, "request_id": REQUEST_GAP}
            )
            target.end_template = template
        return template.render_end(self.duration_ms, self.context.request, target.key.plugin)

    def _personal_fields(self) -> dict[str, Any]:
        context, events, metadata = self.context, self.event_digest, self._metadata
        personal: dict[str, Any] = {
            "payload_hash": self._payload_hash,
            "result_hash": self._result_hash,
            "operator_id": context.operator,
            "project_id": context.project,
            "session_id": context.session,
            "agent_path": context.agent_path,
            "owner": context.principal.owner,
        }
        if (
            events is not None
            or self._error_message is not None
            or self.proposed is not None
            or metadata != NO_METADATA
        ):
            personal |= {
                "events_hash": None if events is None else events.hash,
                "error_message": self._error_message,
                "plugin_metrics": metadata.metrics,
                "nondeterminism": metadata.nondeterminism,
                "model": metadata.model,
                "artifacts": metadata.artifacts,
                "proposed": self.proposed,
            }
        return {name: value for name, value in personal.items() if value is not None}


class EventDigest:
    """Count and running hash of the events that a plugin sent during a call, for the ledger."""

    __slots__ = ("_digest", "count")

    def __init__(self) -> None:
        self.count = 0
        self._digest: Any = None

    def add(self, event: Mapping[str, Any]) -> None:
        self.count += 1
        if self._digest is None:
            self._digest = hashlib.sha256()
        self._digest.update(hash_of(event).encode())

    @property
    def hash(self) -> str | None:
        return None if self._digest is None else f"sha256:{self._digest.hexdigest()}"


def _encode_inputs(payload: Mapping[str, Any]) -> bytes | None:
    try:
        encoded = orjson.dumps(payload)
    except TypeError:  # a lone surrogate, or a value of an embedding program
        return None
    return encoded if len(encoded) <= MAX_INPUT_BYTES else None


def _as_paddock_error(error: BaseException) -> PaddockError | None:
    if isinstance(error, asyncio.CancelledError):
        return CallCancelled("the call was cancelled")
    return error if isinstance(error, PaddockError) else None


def _status_of_error(error: BaseException) -> InvocationStatus:
    match error:
        case NeedsApproval():
            return "pending_approval"
        case Denied():
            return "denied"
        case TimedOut():
            return "timed_out"
        case CallerError() | Invalid():
            return "refused"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "failed"
