"""Effect records: the host's record of a call's changes, kept in the plugin's own database.

A call whose recovery is `atomic` changes its tables in one transaction, and its record is part of that: it exists if
and only if the change does. Recovery reads it to find out the call's outcome. If there is none, recovery writes a
closing record, and from then on the call cannot change anything any more, whichever process still works on it.
"""

# ruff: noqa: S608 - only the host's own names are interpolated; every value is bound

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import orjson
from msgspec import Struct

from paddock.capabilities.params import invalid_param
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, HostError
from paddock.core.ids import CallId

EFFECTS_TABLE = "paddock_effects"
"""The table's name in the plugin's file. The plugin's own statements cannot read or change it."""

MAX_RESULT_BYTES = 256 << 10
MAX_PENDING_RELEASES = 1_000  # calls whose records wait for deletion
RETENTION = timedelta(days=30)  # for records that were never released because their host died
_EXPIRED_CALL = ""  # marker row in place of a call id: records from before its time were deleted

RunSql: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]
"""Runs one of the host's own statements."""


class EffectWrite(Struct):
    """A call that is about to change its plugin's tables.

    Args:
        call: Its id.
        fence: How often its key was claimed.
        result: The result it will return, as JSON; None if the plugin does not declare it.
        now: The current time.
        delete_before: Delete records from before this time; None to delete none.
        released_calls: Calls whose records are no longer needed.
        recorded: Set once recorded; a call that changes nothing is not recorded.
    """

    call: CallId
    fence: int
    result: str | None
    now: str
    delete_before: str | None = None
    released_calls: tuple[str, ...] = ()
    recorded: bool = False


class RecordedEffect(Struct, frozen=True):
    """The record of a call that changed the plugin's tables, with its result if it declared one."""

    result: Any
    result_hash: str | None


def encode_result(result: Any) -> str:
    """Encode the result that a call declares, as it is stored.

    Raises:
        CallerError: it is too large, or not JSON.
    """
    try:
        text = orjson.dumps(result)
    except orjson.JSONEncodeError:
        raise invalid_param("result", "cannot be written as JSON") from None
    if len(text) > MAX_RESULT_BYTES:
        raise invalid_param("result", f"is larger than {MAX_RESULT_BYTES >> 10} KiB")
    return text.decode()


def create_effects_table(run: RunSql) -> None:
    """Create the table for effect records; within a transaction."""
    run(
        f"CREATE TABLE IF NOT EXISTS main.{EFFECTS_TABLE} (call TEXT PRIMARY KEY, fence INTEGER NOT NULL, "
        "happened INTEGER NOT NULL, result TEXT, result_hash TEXT, noted_at TEXT NOT NULL) STRICT",
        (),
    )


def record_effect(run: RunSql, effect: EffectWrite) -> None:
    """Record that a call changes the tables, in the same transaction as the change.

    Raises:
        Conflict: it has changed them before, or was closed.
    """
    rows = run(f"SELECT fence, happened FROM main.{EFFECTS_TABLE} WHERE call = ?", (effect.call,))
    if rows and rows[0][1]:
        raise Conflict(
            "this call has changed its tables already",
            code="storage.one_transaction",
            hint="what is atomic is one transaction: put all statements that change rows into it",
        )
    if rows and rows[0][0] >= effect.fence:
        raise Conflict(
            "this call was given up: it counts as not made",
            code="storage.call_over",
            hint="nothing was changed; the caller may repeat the call",
        )
    digest = None if effect.result is None else hash_of(orjson.loads(effect.result))
    values = (effect.call, effect.fence, effect.result, digest, effect.now)
    run(f"INSERT OR REPLACE INTO main.{EFFECTS_TABLE} VALUES (?, ?, 1, ?, ?, ?)", values)
    for call in effect.released_calls:
        run(f"DELETE FROM main.{EFFECTS_TABLE} WHERE call = ? AND happened = 1", (call,))
    if effect.delete_before is not None:
        _delete_old(run, effect.delete_before)
    effect.recorded = True


def close_call(run: RunSql, call: CallId, fence: int, *, started_at: str, now: str) -> RecordedEffect | None:
    """Return a call's recorded effect; a call without one can change nothing from here on. Within a transaction.

    Raises:
        HostError: records from its time have been deleted.
    """
    rows = run(f"SELECT result, result_hash FROM main.{EFFECTS_TABLE} WHERE call = ? AND happened = 1", (call,))
    if rows:
        result, digest = rows[0]
        return RecordedEffect(None if result is None else orjson.loads(result), digest)
    expired = run(f"SELECT noted_at FROM main.{EFFECTS_TABLE} WHERE call = ?", (_EXPIRED_CALL,))
    if expired and expired[0][0] >= started_at:
        raise HostError(
            "what calls of that time have changed is not known any more",
            code="effect.note_forgotten",
            details={"call_id": call},
        )
    run(f"INSERT OR REPLACE INTO main.{EFFECTS_TABLE} VALUES (?, ?, 0, NULL, NULL, ?)", (call, fence, now))
    return None


def _delete_old(run: RunSql, oldest: str) -> None:
    last = run(
        f"SELECT max(noted_at) FROM main.{EFFECTS_TABLE} WHERE noted_at < ? AND call <> ?", (oldest, _EXPIRED_CALL)
    )[0][0]
    if last is not None:
        run(f"DELETE FROM main.{EFFECTS_TABLE} WHERE noted_at <= ? AND call <> ?", (last, _EXPIRED_CALL))
        run(f"INSERT OR REPLACE INTO main.{EFFECTS_TABLE} VALUES (?, 0, 0, NULL, NULL, ?)", (_EXPIRED_CALL, last))


def missing_call_error() -> CallerError:
    """Build the error for a change without a call, by a plugin that has an atomic callable."""
    return CallerError(
        "a plugin with an atomic callable changes its tables only in calls that it names",
        code="storage.unnamed_call",
        hint="send the call's token along (_call), as the SDKs do",
    )
