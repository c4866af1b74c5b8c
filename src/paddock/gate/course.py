"""The course of one call, as the ledger will tell it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import orjson

from paddock.capabilities.asking import Tally
from paddock.core.call import CallContext
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, Denied, Invalid, NeedsApproval, PaddockError, TimedOut
from paddock.core.events_calls import CallEnded, CallStarted
from paddock.core.ids import CallId
from paddock.gate.catalogue import Target
from paddock.plugins.supervision.flight import OnEvent
from paddock.policy.decision import Allow, Ask, Decision, Deny

Became: TypeAlias = Literal["succeeded", "failed", "denied", "refused", "timed_out", "cancelled", "pending_approval"]

LARGEST_WORD = 4096  # bytes of one object that a plugin writes into the ledger with its answer

_CALLED, _RETURNED = "plugin.method_called", "plugin.method_returned"


class CallCancelled(Conflict):
    """Somebody cancelled the call, or the host went down."""

    code = "call.cancelled"


class Course:
    """What happened so far. The gate fills it in as the call goes on; the target may change while it is looked for."""

    __slots__ = (
        "_payload_hash",
        "approval",
        "began",
        "call",
        "context",
        "decision",
        "payload",
        "proposed",
        "ran",
        "started",
        "tally",
        "target",
        "told",
    )

    def __init__(
        self, call: CallId, target: Target, payload: Mapping[str, Any], context: CallContext, began: float
    ) -> None:
        self.call = call
        self.target = target
        self.payload = payload
        self.context = context
        self.began = began
        self.decision: Decision | None = None
        self.approval: str | None = None
        self.proposed: str | None = None  # what the answer was denied for
        self.started = False  # whether `call.started` was recorded
        self.ran = False  # whether the plugin was asked
        self.told = Telling()
        self.tally: Tally = {}  # what the plugin asked of the host, and how often
        self._payload_hash: str | None = None

    @property
    def payload_hash(self) -> str:
        if self._payload_hash is None:
            self._payload_hash = hash_of(self.payload)
        return self._payload_hash

    def hears(self, on_event: OnEvent | None) -> OnEvent | None:
        """What hears the plugin on the caller's behalf, and counts."""
        if on_event is None:
            return None

        def hear(event: Mapping[str, Any]) -> None:
            self.told.note(event)
            on_event(event)

        return hear

    def start(self) -> CallStarted:
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
            decision=_word(decision) or "allow",
            policies=decision.policies if decision else (),
            policy_version=decision.version if decision else "",
            approval=self.approval,
        )

    def end(self, now: float, result: Any = None, error: BaseException | None = None) -> CallEnded:
        """What became of it."""
        target, context, decision = self.target, self.context, self.decision
        known = _known(error)
        fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        metrics: dict[str, Any] = {}
        if self.told.count:
            metrics["events"] = self.told.count
        if self.tally:
            metrics["asked"] = dict(self.tally)
        return CallEnded(
            name=target.key.plugin,
            method=target.spec.name,
            version=target.manifest.version,
            digest=target.key.digest,
            effects=target.effects,
            request_id=context.request,
            operator_id=context.operator,
            project_id=context.project,
            session_id=context.session,
            agent_path=context.agent_path,
            owner=context.principal.owner,
            payload_hash=self.payload_hash,
            result_hash=None if error is not None else hash_of(cast("object", result)),
            status=_status(error),
            success=error is None,
            duration_ms=int((now - self.began) * 1e6) / 1000,
            metrics=metrics,
            plugin_metrics=_bounded(fields.get("metrics")),
            events_hash=self.told.hash,
            error_code=None if error is None else known.error_code if known else "internal",
            error_category=None if error is None else known.category.value if known else "internal",
            error_message=None if known is None else known.message,
            nondeterminism=_bounded(fields.get("nondeterminism")),
            model=_model(fields),
            decision=_word(decision),
            policies=decision.policies if decision else (),
            policy_version=decision.version if decision else None,
            approval=self.approval,
            stands_for=((_RETURNED,) if self.started else (_CALLED, _RETURNED)) if self.ran else (),
            proposed=self.proposed,
        )


class Telling:
    """How much a plugin told while it worked: the ledger keeps the count and one hash over all of it."""

    __slots__ = ("_digest", "count")

    def __init__(self) -> None:
        self.count = 0
        self._digest: Any = None

    def note(self, event: Mapping[str, Any]) -> None:
        self.count += 1
        if self._digest is None:
            self._digest = hashlib.sha256()
        self._digest.update(hash_of(event).encode())

    @property
    def hash(self) -> str | None:
        return None if self._digest is None else f"sha256:{self._digest.hexdigest()}"


def _known(error: BaseException | None) -> PaddockError | None:
    if isinstance(error, asyncio.CancelledError):
        return CallCancelled("the call was cancelled")
    return error if isinstance(error, PaddockError) else None


def _status(error: BaseException | None) -> Became:
    match error:
        case None:
            return "succeeded"
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


def _word(decision: Decision | None) -> str | None:
    match decision:
        case Allow():
            return "allow"
        case Deny():
            return "deny"
        case Ask():
            return "ask"
        case None:
            return None


def _bounded(value: Any) -> dict[str, Any] | None:
    """An object that a plugin wrote into its answer, for the ledger; of a large one how large it is, and its hash."""
    if not isinstance(value, dict):
        return None
    written = cast("dict[str, Any]", value)
    try:
        size = len(orjson.dumps(written))
    except orjson.JSONEncodeError:
        size = None  # no JSON, from a function of the application's own
    if size is not None and size <= LARGEST_WORD:
        return written
    return {"size": size, "hash": hash_of(written)}


def _model(fields: Mapping[str, Any]) -> str | None:
    """The model that a plugin says it used, where its envelope says so."""
    model = fields.get("model")
    return model[:200] if isinstance(model, str) else None
