"""The course of one call, as the ledger will tell it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import orjson

from paddock.capabilities.artifacts.address import is_address
from paddock.capabilities.request import MethodCounts
from paddock.core.call import CallContext
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, Denied, Invalid, NeedsApproval, PaddockError, TimedOut
from paddock.core.events.calls import CallEnded, CallStarted
from paddock.core.events.event import field_names
from paddock.core.ids import CallId
from paddock.gate.audit_entry import EntryTemplate
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.disclosure import find_undisclosed
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.ledger.entry import PreEncoded, SplitEvent
from paddock.manifest.model import PluginKind
from paddock.policy.decision import Decision
from paddock.runtime.calls import DeliveryStatus, OnEvent

InvocationStatus: TypeAlias = Literal[
    "succeeded", "failed", "in_doubt", "denied", "refused", "timed_out", "cancelled", "pending_approval"
]

MAX_METADATA_BYTES = 4096  # bytes of one object that a plugin writes into the ledger with its answer
_MAX_MODEL_CHARS = 200

_RETURNED = ("plugin.method_returned",)
_CALLED_AND_RETURNED = ("plugin.method_called", *_RETURNED)
_EMPTY: Mapping[str, Any] = {}
_NULL_FIELDS: dict[str, Any] = dict.fromkeys(field_names(CallEnded))


class CallCancelled(Conflict):
    """Somebody cancelled the call, or the host went down."""

    code = "call.cancelled"


class _ReportedMetadata(NamedTuple):
    """What a plugin wrote into its answer for the ledger."""

    metrics: dict[str, Any] | None = None
    nondeterminism: dict[str, Any] | None = None
    model: str | None = None
    artifacts: tuple[dict[str, Any], ...] | None = None


_NO_METADATA = _ReportedMetadata()


class Invocation:
    """What happened so far. The gate fills it in as the call goes on; the target may change while it is looked for."""

    __slots__ = (
        "_effects",
        "_error_category",
        "_error_message",
        "_metadata",
        "_payload_hash",
        "_result",
        "_result_hash",
        "approval",
        "began",
        "call_id",
        "context",
        "decision",
        "delivery",
        "duration_ms",
        "effect",
        "error_code",
        "event_digest",
        "parked",
        "payload",
        "proposed",
        "ran",
        "replay_of",
        "resumed",
        "started",
        "status",
        "tally",
        "target",
        "undisclosed",
    )

    def __init__(
        self, call: CallId, target: CallTarget, payload: Mapping[str, Any], context: CallContext, began: float
    ) -> None:
        self.call_id = call
        self.target = target
        self.payload = payload
        self.context = context
        self.began = began
        self.decision: Decision | None = None
        self.approval: str | None = None
        self.proposed: str | None = None  # what the answer was denied for
        self.started = False  # whether `call.started` was recorded
        self.ran = False  # whether the plugin was asked
        self.resumed = False  # whether it goes on, having waited for a person
        self.parked = False  # whether its operator is still at work, and it is followed whoever waits
        self.replay_of: CallId | None = None  # the call whose answer it got
        self.effect: IdempotencyRecord | None = None  # the record of what it does
        self.delivery = DeliveryStatus()
        self.event_digest: EventDigest | None = (
            None  # what the plugin told meanwhile, where it did and somebody hears it
        )
        self.tally: MethodCounts = {}  # what the plugin asked of the host, and how often
        self.status: InvocationStatus = "succeeded"  # from here on: once it has ended
        self.duration_ms = 0.0
        self._payload_hash: str | None = None
        self._result_hash: str | None = None
        self._result: Any = _EMPTY  # until it is hashed
        self.error_code: str | None = None  # why it failed
        self._error_category: str | None = None
        self._error_message: str | None = None
        self._effects: tuple[str, ...] = ()
        self._metadata = _NO_METADATA
        self.undisclosed: tuple[str, ...] | None = None  # what it used without saying so

    @property
    def payload_hash(self) -> str:
        return self._payload_hash or self.hash_payload()

    def hash_payload(self) -> str:
        """Take the hash of what it is made with, for which somebody may ask soon."""
        if self._payload_hash is None:
            self._payload_hash = hash_of(self.payload)
        return self._payload_hash

    def wrap_listener(self, on_event: OnEvent | None) -> OnEvent | None:
        """What hears the plugin on the caller's behalf, and counts."""
        if on_event is None:
            return None

        def hear(event: Mapping[str, Any]) -> None:
            if self.event_digest is None:
                self.event_digest = EventDigest()
            self.event_digest.add(event)
            on_event(event)

        return hear

    def started_event(self) -> CallStarted:
        """That it is about to reach its plugin."""
        target, context, decision = self.target, self.context, self.decision
        self.started = True
        return CallStarted(
            name=target.key.plugin,
            method=target.spec.name,
            version=target.manifest.version,
            digest=target.key.digest,
            effects=target.effects,
            request_id=context.request,
            operator_id=context.operator,
            project_id=context.project,
            owner=context.principal.owner,
            payload_hash=self.payload_hash,
            decision=decision.word if decision else "allow",
            policies=decision.policies if decision else (),
            policy_version=decision.version if decision else "",
            approval=self.approval,
        )

    def finish(self, now: float, result: Any, error: BaseException | None, *, kept: bool = False) -> None:
        """Note what became of it, and let go of the rest: it may wait a while for the disk, and what it was made with,
        what it gave and where it failed are large. `kept`: nobody changes what it gave, which is hashed a moment later.
        """
        self.duration_ms = int((now - self.began) * 1e6) / 1000
        self.hash_payload()  # here at the latest
        self.payload = _EMPTY
        self._effects = self.target.effects
        if error is None:
            self.status = "succeeded"
            if kept:
                self._result = result
            else:
                self._result_hash = hash_of(result)
            if isinstance(result, dict):
                self._metadata = _read_metadata(cast("dict[str, Any]", result))
                if "artifacts" in result and self.target.manifest.kind is PluginKind.OPERATOR:
                    self._metadata = self._metadata._replace(artifacts=_read_artifacts(result["artifacts"]))
            if self.ran and (self.tally or self._metadata.metrics):
                self.undisclosed = find_undisclosed(self.target.manifest, self._effects, self.tally, result)
        else:
            self.status, known = _status_of_error(error), _as_paddock_error(error)
            self.error_code = known.error_code if known else "internal"
            self._error_category = known.category.value if known else "internal"
            self._error_message = known.message if known else None

    def hash_result(self) -> None:
        """Take the hash of what it gave, where that was left for later."""
        if self._result is not _EMPTY:
            self._result_hash, self._result = hash_of(self._result), _EMPTY

    def ended_event(self) -> CallEnded:
        """What became of it, as an event."""
        return CallEnded(**{**_NULL_FIELDS, **self._facts(), **self._personal_fields()})

    def split_event(self) -> SplitEvent:
        """What the ledger keeps of it once it has ended. Made in the ledger's own time, for many calls at once.

        What is about people, or was written by a plugin, stands apart; see `ledger/entry.py`.
        """
        return SplitEvent(CallEnded, self._pre_encoded_facts() or self._facts(), self._personal_fields())

    def _facts(self) -> dict[str, Any]:
        target, context, decision, told = self.target, self.context, self.decision, self.event_digest
        metrics: dict[str, Any] = {}
        if told is not None and told.count:
            metrics["events"] = told.count
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
            "stands_for": () if not self.ran else _RETURNED if self.started else _CALLED_AND_RETURNED,
        }
        if decision is not None:
            facts["decision"] = decision.word
            facts["policies"] = decision.policies
            facts["policy_version"] = decision.version
        more = {
            "approval": self.approval,
            "error_code": self.error_code,
            "error_category": self._error_category,
            "replay_of": self.replay_of,
            "undisclosed": self.undisclosed,
        }
        return facts | {name: value for name, value in more.items() if value is not None}

    def _pre_encoded_facts(self) -> PreEncoded | None:
        """The same as they stand in the ledger, of a call of which there is nothing more to tell than of the one before
        it; these are nearly all of them."""
        target, decision = self.target, self.decision
        if (
            decision is None
            or self.status != "succeeded"
            or not self.ran
            or self.started
            or self.tally
            or self.event_digest is not None
            or self.approval is not None
            or self.replay_of is not None
            or self.undisclosed is not None
        ):
            return None
        phrase = target.entry_template
        if phrase is None or phrase.decision is not decision:
            phrase = target.entry_template = EntryTemplate.from_facts(decision, self._facts())
        return phrase.render(self.duration_ms, self.context.request, target.key.plugin)

    def _personal_fields(self) -> dict[str, Any]:
        context, told, said = self.context, self.event_digest, self._metadata
        personal: dict[str, Any] = {
            "payload_hash": self._payload_hash,
            "result_hash": self._result_hash,
            "operator_id": context.operator,
            "project_id": context.project,
            "session_id": context.session,
            "agent_path": context.agent_path,
            "owner": context.principal.owner,
        }
        if told is not None or self._error_message is not None or self.proposed is not None or said != _NO_METADATA:
            personal |= {
                "events_hash": None if told is None else told.hash,
                "error_message": self._error_message,
                "plugin_metrics": said.metrics,
                "nondeterminism": said.nondeterminism,
                "model": said.model,
                "artifacts": said.artifacts,
                "proposed": self.proposed,
            }
        return {name: value for name, value in personal.items() if value is not None}


class EventDigest:
    """How much a plugin told while it worked: the ledger keeps the count and one hash over all of it."""

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


def _read_metadata(answer: Mapping[str, Any]) -> _ReportedMetadata:
    if "metrics" not in answer and "nondeterminism" not in answer and "model" not in answer:
        return _NO_METADATA
    model = answer.get("model")
    return _ReportedMetadata(
        _bounded_object(answer.get("metrics")),
        _bounded_object(answer.get("nondeterminism")),
        model[:_MAX_MODEL_CHARS] if isinstance(model, str) else None,
    )


def _read_artifacts(value: Any) -> tuple[dict[str, Any], ...] | None:
    """What an operator says to have made, for the ledger. `verified` is what the host keeps itself, under its hash."""
    if not isinstance(value, list) or not value:
        return None
    given = [cast("dict[str, Any]", one) for one in cast("list[Any]", value) if isinstance(one, dict)]
    named = [{name: one.get(name) for name in ("type", "path", "hash")} for one in given]
    told = tuple(one | {"verified": is_address(one["path"])} for one in named)
    size = len(orjson.dumps(told))
    return told if size <= MAX_METADATA_BYTES else ({"count": len(told), "size": size, "hash": hash_of(told)},)


def _bounded_object(value: Any) -> dict[str, Any] | None:
    """An object that a plugin wrote into its answer, for the ledger; of a large one how large it is, and its hash."""
    if not isinstance(value, dict):
        return None
    written = cast("dict[str, Any]", value)
    try:
        whole = orjson.dumps(written)
    except orjson.JSONEncodeError:
        return {"size": None, "hash": hash_of(written)}  # no JSON, from a function of the application's own
    if len(whole) <= MAX_METADATA_BYTES:
        return cast("dict[str, Any]", orjson.loads(whole))  # a copy: the caller may change theirs
    return {"size": len(whole), "hash": hash_of(written)}
