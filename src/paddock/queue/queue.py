"""The seam to timed and durable work: what is to be done lies in rows, on either engine, until it is done.

Every function is part of its caller's unit of work, so what is put commits together with what it is for, and what was
done together with its end. Something is done at least once: whoever dies over it, another does it again. Who must not
do a thing twice writes down that they did, in the unit in which they end it.

Whoever takes something holds it for as long as they hold their lease; see `leases.py`. Once that is over the row is
free for others, and nothing that is done in the old name is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson

from paddock.core.errors import Busy, CallerError, HostError
from paddock.core.ids import Tenant
from paddock.queue import leases
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Row, Transaction


class Claimant(NamedTuple):
    """Who shares the places."""

    tenant: str
    kind: str


def fair_shares(waiting: Mapping[Claimant, int], held: Mapping[Claimant, int], places: int) -> dict[Claimant, int]:
    """How many more places each gets: one after the other, whoever has the fewest first.

    Args:
        waiting: How much each has to do, and by this order who comes first of those that have as many places.
        held: How many places each has.
        places: How many there are in all.
    """
    has = {one: held.get(one, 0) for one in waiting}
    given = dict.fromkeys(waiting, 0)
    for free in range(places - sum(held.values()), 0, -1):
        wants = [one for one in waiting if given[one] < waiting[one] and has[one] < free]
        if not wants:
            break
        first = min(wants, key=has.__getitem__)
        has[first] += 1
        given[first] += 1
    return {one: count for one, count in given.items() if count}


def saturated_claimants(held: Mapping[Claimant, int], places: int) -> Collection[Claimant]:
    """Those that get no further place for now."""
    free = places - sum(held.values())
    return [one for one, count in held.items() if count >= free]


MAX_JOBS_PER_TENANT = 20_000  # of one tenant
MAX_PAYLOAD_BYTES = 64 * 1024  # of one payload
_ROWS_PER_INSERT = 50  # rows of one statement
# How far the calendars of two hosts may be from each other. Whoever is further behind would bring forward what others
# put; and what was put before a calendar was set back by less waits that much longer.
_MAX_CLOCK_SKEW = timedelta(minutes=1)

# ruff: noqa: S608 - what is put together are names and marks of our own

_JOB_WHERE = "tenant = ? AND kind = ? AND key = ?"
_HELD_JOB_WHERE = f"{_JOB_WHERE} AND node = ? AND epoch = ?"


@dataclass(frozen=True, slots=True)
class Job:
    """Something that was taken, to be done now.

    Args:
        tenant: For whom.
        kind: What sort of thing, as in `approval.expire`.
        key: Which one; a kind has a key once for each tenant.
        payload: What else is needed for it. No secret: it lies there as it is.
        due: When it was to be done.
        tries: How often it was begun since it last went well, this time included.
        holder: In whose name it was taken.
    """

    tenant: Tenant
    kind: str
    key: str
    payload: Mapping[str, Any]
    due: datetime
    tries: int
    holder: NodeRun

    @property
    def claimant(self) -> Claimant:
        return Claimant(self.tenant, self.kind)

    @property
    def holder_key(self) -> tuple[str, str, str, str, int]:
        return (self.tenant, self.kind, self.key, self.holder.node, self.holder.epoch)


def enqueue(
    tx: Transaction,
    tenant: str,
    kind: str,
    key: str,
    *,
    due: datetime,
    now: datetime,
    payload: Mapping[str, Any] | None = None,
) -> bool:
    """Have something done; False where it is there already, which then stays as it is.

    Raises:
        Busy: `queue.full`, the tenant has as much waiting as it may.
        CallerError: `queue.payload`, that is more than a row takes; it belongs elsewhere, and its name here.
    """
    content = orjson.dumps(payload or {})
    if len(content) > MAX_PAYLOAD_BYTES:
        raise CallerError(
            f"no more than {MAX_PAYLOAD_BYTES:,} bytes can wait with one thing to do", code="queue.payload"
        )
    if tx.one(f"SELECT 1 AS found FROM queue WHERE {_JOB_WHERE}", (tenant, kind, key)):
        return False
    # Looked at before, for whoever can do without it goes on with its unit of work.
    if tx.one("SELECT 1 AS found FROM queue WHERE tenant = ? LIMIT 1 OFFSET ?", (tenant, MAX_JOBS_PER_TENANT - 1)):
        raise Busy(
            f"{tenant} has {MAX_JOBS_PER_TENANT:,} things waiting to be done, and that is the limit",
            code="queue.full",
            hint="wait until some of them are done",
        )
    kept = tx.execute(
        "INSERT INTO queue (tenant, kind, key, payload, put_at, due_at, tries) VALUES (?, ?, ?, ?, ?, ?, 0)"
        " ON CONFLICT DO NOTHING",
        (tenant, kind, key, content.decode(), now.isoformat(), due.isoformat()),
    )
    return bool(kept)


def enqueue_many(
    tx: Transaction, tenant: str, things: Sequence[tuple[str, str]], *, due: datetime, now: datetime
) -> int:
    """Have many things of one tenant done, each a kind and a key; as many of them as there is room for, which it gives.

    For what was lost with a host, where each thing by itself would take too long.
    """
    there = tx.one("SELECT count(*) AS count FROM queue WHERE tenant = ?", (tenant,))
    room = max(0, MAX_JOBS_PER_TENANT - (there["count"] if there else 0))
    for begin in range(0, min(room, len(things)), _ROWS_PER_INSERT):
        some = things[begin : min(begin + _ROWS_PER_INSERT, room)]
        marks = ", ".join(["(?, ?, ?, '{}', ?, ?, 0)"] * len(some))
        tx.execute(
            f"INSERT INTO queue (tenant, kind, key, payload, put_at, due_at, tries) VALUES {marks}"
            " ON CONFLICT DO NOTHING",
            [value for kind, key in some for value in (tenant, kind, key, now.isoformat(), due.isoformat())],
        )
    return min(room, len(things))


def expedite(tx: Transaction, tenant: str, kind: str, key: str, *, now: datetime) -> bool:
    """Have something done now that was to be done later; False where it is not there, or somebody has it."""
    due = now.isoformat()
    return bool(
        tx.execute(f"UPDATE queue SET due_at = ? WHERE {_JOB_WHERE} AND node IS NULL", (due, tenant, kind, key))
    )


def remove(tx: Transaction, tenant: str, kind: str, key: str) -> bool:
    """It need not be done any more. False where it is not there; whoever does it just now cannot end it."""
    return bool(tx.execute(f"DELETE FROM queue WHERE {_JOB_WHERE}", (tenant, kind, key)))


def next_due(tx: Transaction, kinds: Collection[str], *, but: Collection[Claimant] = ()) -> datetime | None:
    """When the first of what nobody holds is due; `but` names those of whom nothing is looked for."""
    if not kinds:
        return None
    others = " AND NOT (tenant = ? AND kind = ?)" * len(but)
    row = tx.one(
        f"SELECT due_at FROM queue WHERE node IS NULL AND kind IN ({_placeholders(kinds)}){others} "
        "ORDER BY due_at LIMIT 1",
        (*kinds, *(value for one in but for value in one)),
    )
    return None if row is None else datetime.fromisoformat(row["due_at"])


def find_due(tx: Transaction, tenant: str, kind: str, key: str) -> datetime | None:
    """When one thing is due, or was for whoever has it now; None where it is not there."""
    row = tx.one(f"SELECT due_at FROM queue WHERE {_JOB_WHERE}", (tenant, kind, key))
    return None if row is None else datetime.fromisoformat(row["due_at"])


def claim_due(
    tx: Transaction,
    here: NodeRun,
    kinds: Collection[str],
    *,
    now: datetime,
    places: int,
    held: Mapping[Claimant, int] | None = None,
) -> list[Job]:
    """Take some of what is due, the oldest of each claimant, as many of each as it has a share in the places.

    Args:
        tx: The unit of work.
        here: In whose name.
        kinds: What can be done.
        now: Tells what is due.
        places: How many things can be done at once in all.
        held: How many of them each claimant has.

    Raises:
        HostError: `node.lost`, this one has no lease any more.
    """
    if not kinds:
        return []
    leases.require_lease(tx, here)
    held = held or {}
    claimants = tx.all(
        "SELECT tenant, kind, COUNT(*) AS waiting, MIN(due_at) AS oldest FROM queue "
        f"WHERE node IS NULL AND due_at <= ? AND kind IN ({_placeholders(kinds)}) "
        "GROUP BY tenant, kind ORDER BY oldest, tenant, kind LIMIT ?",
        (now.isoformat(), *kinds, places + len(held)),
    )
    waiting = {Claimant(one["tenant"], one["kind"]): one["waiting"] for one in claimants}
    taken: list[Job] = []
    for claimant, share in fair_shares(waiting, held, places).items():
        rows = tx.all(
            "SELECT tenant, kind, key, payload, due_at, tries FROM queue WHERE tenant = ? AND kind = ? "
            "AND node IS NULL AND due_at <= ? ORDER BY due_at, key LIMIT ?",
            (*claimant, now.isoformat(), share),
        )
        taken += [_claim_row(tx, here, row) for row in rows]
    return taken


def claim_one(tx: Transaction, here: NodeRun, tenant: str, kind: str, key: str, *, now: datetime) -> Job | None:
    """Take one thing by name, where it is due and nobody has it, or where the calendar does not tell: see `set_back`.

    Raises:
        HostError: `node.lost`, this one has no lease any more.
    """
    leases.require_lease(tx, here)
    row = tx.one(
        f"SELECT tenant, kind, key, payload, due_at, tries FROM queue WHERE {_JOB_WHERE} AND node IS NULL "
        "AND (due_at <= ? OR put_at > ?)",
        (tenant, kind, key, now.isoformat(), (now + _MAX_CLOCK_SKEW).isoformat()),
    )
    return None if row is None else _claim_row(tx, here, row)


def _claim_row(tx: Transaction, here: NodeRun, row: Row) -> Job:
    tries = row["tries"] + 1
    tx.execute(
        f"UPDATE queue SET node = ?, epoch = ?, tries = ? WHERE {_JOB_WHERE}",
        (*here, tries, row["tenant"], row["kind"], row["key"]),
    )
    return Job(
        tenant=Tenant(row["tenant"]),
        kind=row["kind"],
        key=row["key"],
        payload=orjson.loads(row["payload"]),
        due=datetime.fromisoformat(row["due_at"]),
        tries=tries,
        holder=here,
    )


def require_held(tx: Transaction, work: Job) -> None:
    """Go on only while it is in these hands; for the units of work that are done for it.

    Raises:
        HostError: `queue.stale`, it is not.
    """
    _require_changed(len(tx.all(f"SELECT 1 AS found FROM queue WHERE {_HELD_JOB_WHERE}", work.holder_key)), work)


def complete(tx: Transaction, work: Job) -> None:
    """It is done, or given up: the row goes.

    Raises:
        HostError: `queue.stale`, it is not in these hands any more. Whatever else this unit did is undone.
    """
    _require_changed(tx.execute(f"DELETE FROM queue WHERE {_HELD_JOB_WHERE}", work.holder_key), work)


def reschedule(tx: Transaction, work: Job, due: datetime, *, now: datetime, reason: str | None = None) -> None:
    """Let go of it until later.

    Args:
        tx: The unit of work.
        work: What was taken.
        due: When it is to be done once more.
        now: When that was decided.
        reason: The code of what went wrong. Without one all went well and it is only not over: what failed before is
            forgiven.

    Raises:
        HostError: `queue.stale`, as in `done`.
    """
    tries = 0 if reason is None else work.tries
    changed = tx.execute(
        "UPDATE queue SET node = NULL, epoch = NULL, put_at = ?, due_at = ?, tries = ?, reason = ? "
        f"WHERE {_HELD_JOB_WHERE}",
        (now.isoformat(), due.isoformat(), tries, reason, *work.holder_key),
    )
    _require_changed(changed, work)


def release(tx: Transaction, work: Job) -> None:
    """Let go of it as if it had not been taken; harmless when it is in other hands."""
    tx.execute(
        f"UPDATE queue SET node = NULL, epoch = NULL, tries = ? WHERE {_HELD_JOB_WHERE}",
        (work.tries - 1, *work.holder_key),
    )


def rebase_due_times(tx: Transaction, now: datetime) -> int:
    """The calendar was set back: what was put in times to come waits anew from now on. How much that was.

    Otherwise what was to wait for a second would do so for as long as the calendar was wrong.
    """
    rows = tx.all(
        "SELECT tenant, kind, key, put_at, due_at FROM queue WHERE put_at > ?", ((now + _MAX_CLOCK_SKEW).isoformat(),)
    )
    for row in rows:
        wait = datetime.fromisoformat(row["due_at"]) - datetime.fromisoformat(row["put_at"])
        tx.execute(
            f"UPDATE queue SET put_at = ?, due_at = ? WHERE {_JOB_WHERE}",
            (now.isoformat(), (now + wait).isoformat(), row["tenant"], row["kind"], row["key"]),
        )
    return len(rows)


def release_held_by(tx: Transaction, over: NodeRun) -> int:
    """Give free what somebody held whose lease is over; for `Node.when_over`. How much that was."""
    return tx.execute("UPDATE queue SET node = NULL, epoch = NULL WHERE node = ? AND epoch = ?", over)


def _require_changed(changed: int, work: Job) -> None:
    if not changed:
        raise HostError(
            f"{work.kind} {work.key} is not in these hands any more",
            code="queue.stale",
            details={"kind": work.kind, "epoch": work.holder.epoch},
        )


def _placeholders(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
