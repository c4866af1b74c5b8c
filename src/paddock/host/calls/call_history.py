"""The calls of a tenant, newest first: those that run or wait now, and pages of those that ended, from the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from msgspec import Struct

from paddock.approvals.approval_parties import WaitingCall, list_waiting_calls
from paddock.approvals.store import latest_for_call
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock, format_utc
from paddock.core.events.calls import CallEnded
from paddock.core.ids import CallId, Tenant
from paddock.core.schema_annotations import DateTime
from paddock.gate.calls.handle import CallHandle, CallSummaryJson
from paddock.gate.calls.registry import CallRegistry
from paddock.host.calls.day_statistics import DayStatistics, DayStatisticsJson, last_seq_before, read_calls_of_day
from paddock.host.ledger.reader import LedgerReader
from paddock.ledger.entry import parse_object
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.failures import is_failure
from paddock.ledger.read.search import RowFilter, find_rows
from paddock.manifest.names import full_name
from paddock.principals.api_keys import list_keys
from paddock.principals.caller_text import caller_text
from paddock.principals.display_name_cache import DisplayNameCache
from paddock.store.database import Database, Transaction

OutcomeFilter: TypeAlias = Literal["", "failed", "denied", "waiting", "running"]

MAX_CURRENT_CALLS: Final = 50  # that run or wait, listed on top
_MAX_CACHED_DAYS: Final = 64


class CallRowJson(TypedDict):
    """One call in a list."""

    call_id: str
    name: str
    plugin: str
    callable: str
    outcome: Annotated[str, "As `outcome` of a call: `succeeded`, `denied`, `running`, `pending_approval`, …"]
    error_code: str | None
    at: Annotated[DateTime, "When it ended; when it began if it goes on."]
    duration_ms: float | None
    who: Annotated[str | None, "Null if it was erased."]
    who_name: str


class CallFilter(Struct, frozen=True):
    """Which calls to list; what is empty does not filter. `person` includes a person's keys and tokens."""

    outcome: OutcomeFilter = ""
    plugin: str = ""
    person: str = ""
    day: date | None = None


class CallPage(NamedTuple):
    """One page. `older` is the cursor of the next one; None if this is the last."""

    current: list[CallRowJson]
    ended: list[CallRowJson]
    older: int | None


class RecentCall(NamedTuple):
    """A call that runs, waits, or ended a short time ago; and the principal that made it."""

    summary: CallSummaryJson
    who: str


class _HistoryRows(NamedTuple):
    """What the database holds of a page."""

    ended: list[CallRowJson]
    older: int | None
    callers: Sequence[str] | None
    waiting: list[WaitingCall]


class CallHistory:
    """Lists calls. Operators see those of their tenant, others those that they, their keys or their access tokens made.

    Args:
        registry: The calls that run or wait.
        ledger: Flushed before each read.
        database: Holds the ledger.
        names: What callers are called.
        clock: Says what day it is.
    """

    def __init__(
        self, registry: CallRegistry, ledger: LedgerReader, database: Database, names: DisplayNameCache, clock: Clock
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._database = database
        self._names = names
        self._clock = clock
        self._days: dict[tuple[Tenant, str], DayStatistics] = {}

    async def page(self, by: Principal, wanted: CallFilter, *, before: int | None = None, limit: int = 50) -> CallPage:
        """Return a page of calls: the newest, or those before a cursor."""
        await self._ledger.flush()
        names = await self._names.read(by.tenant)
        is_today = wanted.day is None or wanted.day == self._clock.now().astimezone(UTC).date()
        shows_current = before is None and wanted.outcome in ("", "waiting", "running") and is_today

        def read(tx: Transaction) -> _HistoryRows:
            callers = _visible_callers(tx, by, wanted)
            waiting: list[WaitingCall] = []
            if shows_current and wanted.outcome != "running":
                now, requesters, plugin = self._clock.now().isoformat(), callers, wanted.plugin
                waiting = list_waiting_calls(
                    tx, by.tenant, now, requesters=requesters, plugin=plugin, limit=MAX_CURRENT_CALLS
                )
            if wanted.outcome in ("waiting", "running"):
                return _HistoryRows([], None, callers, waiting)
            rows, older = _ended_rows(tx, by.tenant, wanted, callers, before, limit)
            listed = (_row_json(tx, by.tenant, row, names) for row in rows)
            return _HistoryRows([one for one in listed if one is not None], older, callers, waiting)

        ended, older, callers, waiting = await self._database.read(read)
        current = self._current(by, wanted, callers, names, waiting) if shows_current else []
        shown = {one["call_id"] for one in current}
        return CallPage(current, [one for one in ended if one["call_id"] not in shown], older)

    async def recent(self, by: Principal, limit: int) -> list[RecentCall]:
        """Return the newest calls that run here, wait on any host, or ended here."""
        now = self._clock.now().isoformat()

        def read(tx: Transaction) -> list[WaitingCall]:
            callers = _visible_callers(tx, by, CallFilter())
            return list_waiting_calls(tx, by.tenant, now, requesters=callers, plugin="", limit=limit)

        waiting = await self._database.read(read)
        operates = OPERATOR in by.roles
        handles = self._registry.recent(
            limit,
            by.tenant,
            lambda call: operates or by.id in (call.context.principal.id, call.context.principal.owner),
        )
        listed = [RecentCall(one.summary(), one.context.principal.id) for one in handles]
        here = {one.id for one in handles}
        listed += [RecentCall(_waiting_summary(one), one.requester) for one in waiting if one.call not in here]
        return sorted(listed, key=lambda one: one.summary["started_at"], reverse=True)[:limit]

    async def day(self, tenant: Tenant, day: date | None = None) -> DayStatisticsJson:
        """Return how the calls of a day went, today by default; UTC."""
        today = self._clock.now().astimezone(UTC).date()
        chosen = day or today
        key, known = (tenant, chosen.isoformat()), self._days.get((tenant, chosen.isoformat()))
        begin = format_utc(datetime.combine(chosen, time(), UTC))
        end = format_utc(datetime.combine(chosen + timedelta(days=1), time(), UTC))
        await self._ledger.flush()

        def read(tx: Transaction) -> tuple[int, int, list[dict[str, Any]], bool]:
            after = known.last_seq if known else last_seq_before(tx, tenant, begin)
            until = last_seq_before(tx, tenant, end)
            return after, until, *read_calls_of_day(tx, tenant, after, until)

        after, until, facts, complete = await self._database.read(read)
        statistics = known or DayStatistics(key[1], after)
        if statistics.last_seq == after:  # no other request counted these meanwhile
            statistics.add(facts)
            statistics.last_seq = max(after, until)
            statistics.complete = statistics.complete and complete
        self._days.pop(key, None)
        self._days[key] = statistics
        while len(self._days) > _MAX_CACHED_DAYS:
            del self._days[next(iter(self._days))]
        return statistics.to_json()

    def _current(
        self,
        by: Principal,
        wanted: CallFilter,
        callers: Sequence[str] | None,
        names: Mapping[str, str],
        waiting: Sequence[WaitingCall],
    ) -> list[CallRowJson]:
        """Return the calls that run on this host or wait on any, newest first."""
        listed = [
            _handle_json(handle, names)
            for handle in self._registry.list_current(by.tenant)
            if _is_wanted(handle, wanted, callers)
        ]
        here = {one["call_id"] for one in listed}
        listed += [_waiting_json(one, names) for one in waiting if one.call not in here]
        return sorted(listed, key=lambda one: one["call_id"], reverse=True)[:MAX_CURRENT_CALLS]


def _visible_callers(tx: Transaction, by: Principal, wanted: CallFilter) -> list[str] | None:
    """Return whose calls to list; None for everybody's."""
    own = None if OPERATOR in by.roles else _with_keys(tx, by.tenant, by.id)
    if not wanted.person:
        return own
    chosen = _with_keys(tx, by.tenant, wanted.person)
    return chosen if own is None else [one for one in chosen if one in own]


def _with_keys(tx: Transaction, tenant: str, principal: str) -> list[str]:
    kind, _, name = principal.partition(":")
    if kind != "user":
        return [principal]
    return [principal, f"token:{name}", *(f"key:{one.id}" for one in list_keys(tx, tenant, name))]


def _ended_rows(
    tx: Transaction, tenant: str, wanted: CallFilter, callers: Sequence[str] | None, before: int | None, limit: int
) -> tuple[list[SealedEntry], int | None]:
    """Return the newest rows that fit, and where the next page begins."""
    since = until = None
    if wanted.day is not None:
        begin = datetime.combine(wanted.day, time(), UTC)
        since, until = format_utc(begin), format_utc(begin + timedelta(days=1))
    rows = find_rows(
        tx,
        tenant,
        RowFilter(
            kind=lambda kind, listed: kind == CallEnded.type and _ended_as_wanted(wanted, listed),
            plugin=wanted.plugin or None,
            principals=None if callers is None else tuple(callers),
            since=since,
            until=until,
        ),
        before=before,
        limit=limit + 1,
    )
    page = rows[:limit]
    return page, page[-1].seq if len(rows) > limit else None


def _ended_as_wanted(wanted: CallFilter, listed: Mapping[str, Any]) -> bool:
    denied = listed.get("status") == "denied"
    match wanted.outcome:
        case "failed":
            return is_failure(CallEnded.type, listed) and not denied
        case "denied":
            return denied
        case _:
            return True


def _row_json(tx: Transaction, tenant: str, row: SealedEntry, names: Mapping[str, str]) -> CallRowJson | None:
    """Return a call that ended; None for one that went on after a person approved it."""
    facts = parse_object(row.facts)
    personal = {} if row.personal is None else parse_object(row.personal)
    outcome, code = str(facts.get("status") or "failed"), facts.get("error_code")
    if outcome == "pending_approval":
        approval = latest_for_call(tx, tenant, row.call or "")
        if approval is not None and approval.state.value in ("approved", "consumed"):
            return None
        outcome, code = approval.state.value if approval else outcome, None
        outcome = "pending_approval" if outcome == "pending" else outcome
    plugin, method = str(row.plugin or facts.get("name") or ""), str(facts.get("method") or "")
    owner = personal.get("owner")
    return {
        "call_id": row.call or "",
        "name": full_name(plugin, method),
        "plugin": plugin,
        "callable": method,
        "outcome": outcome,
        "error_code": None if outcome in ("succeeded", "pending_approval") else code,
        "at": row.at,
        "duration_ms": facts.get("duration_ms"),
        "who": row.principal,
        "who_name": caller_text(row.principal, owner if isinstance(owner, str) else None, names),
    }


def _is_wanted(handle: CallHandle, wanted: CallFilter, callers: Iterable[str] | None) -> bool:
    waits = handle.status == "pending_approval"
    return (
        not (wanted.outcome == "waiting" and not waits)
        and not (wanted.outcome == "running" and waits)
        and (not wanted.plugin or handle.plugin == wanted.plugin)
        and (callers is None or handle.context.principal.id in callers)
    )


def _handle_json(handle: CallHandle, names: Mapping[str, str]) -> CallRowJson:
    principal = handle.context.principal
    return {
        "call_id": handle.id,
        "name": full_name(handle.plugin, handle.callable),
        "plugin": handle.plugin,
        "callable": handle.callable,
        "outcome": handle.status,
        "error_code": None,
        "at": handle.started_at,
        "duration_ms": None,
        "who": principal.id,
        "who_name": caller_text(principal.id, principal.owner, names),
    }


def _waiting_summary(waiting: WaitingCall) -> CallSummaryJson:
    return {
        "call_id": CallId(waiting.call),
        "plugin": waiting.plugin,
        "callable": waiting.callable,
        "status": "pending_approval",
        "started_at": format_utc(datetime.fromisoformat(waiting.created_at)),
        "ended_at": None,
        "events": 1,
        "questions": [],
    }


def _waiting_json(waiting: WaitingCall, names: Mapping[str, str]) -> CallRowJson:
    """Return a call that nobody follows here; its answer lets it go on."""
    return {
        "call_id": waiting.call,
        "name": full_name(waiting.plugin, waiting.callable),
        "plugin": waiting.plugin,
        "callable": waiting.callable,
        "outcome": "pending_approval",
        "error_code": None,
        "at": waiting.created_at,
        "duration_ms": None,
        "who": waiting.requester,
        "who_name": caller_text(waiting.requester, waiting.for_person, names),
    }
