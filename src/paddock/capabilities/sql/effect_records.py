"""Notes of what calls have done, which the host keeps beside a plugin's tables.

A call whose recovery is `atomic` changes its tables in one transaction, and the note of it is part of that: it is there
if and only if the change is. Whoever finds out later what became of the call reads it. Where there is none they leave
one that says so, and from then on the call cannot change anything any more, whoever still works on it.
"""

# ruff: noqa: S608 - what is put together are names of our own; every value is bound

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

import orjson

from paddock.capabilities.params import invalid_param
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, HostError
from paddock.core.ids import CallId

EFFECTS_TABLE = "paddock_effects"
"""Named so in the plugin's file, where no statement of its own may read or change it."""

MAX_RESULT_BYTES = 256 << 10
MAX_PENDING_RELEASES = 1_000  # calls that wait for their notes to go
RETENTION = timedelta(days=30)  # of those that nobody let go of: their host died before it could
_EXPIRED_CALL = ""  # in place of a call's id: notes from before that time were let go of

RunSql: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]
"""Runs a statement of the host's own."""


@dataclass(slots=True)
class EffectWrite:
    """A call that is about to change its plugin's tables.

    Args:
        call: Its id.
        fence: How often its key was claimed.
        result: What it will answer, as JSON; None where the plugin does not say.
        now: The time.
        oldest: Until when notes are let go of; None to let go of none.
        over: Calls of which nobody will ask any more.
        noted: Whether it was: what changes nothing is not.
    """

    call: CallId
    fence: int
    result: str | None
    now: str
    oldest: str | None = None
    over: tuple[str, ...] = ()
    noted: bool = False


@dataclass(frozen=True, slots=True)
class RecordedEffect:
    """What a call has noted: that it changed the plugin's tables, and what it answers where it said so."""

    result: Any
    result_hash: str | None


def encode_result(result: Any) -> str:
    """What a call says that it will answer, as it is kept.

    Raises:
        CallerError: it is too large, or cannot be kept.
    """
    try:
        text = orjson.dumps(result)
    except orjson.JSONEncodeError:
        raise invalid_param("result", "cannot be written as JSON") from None
    if len(text) > MAX_RESULT_BYTES:
        raise invalid_param("result", f"is larger than {MAX_RESULT_BYTES >> 10} KiB")
    return text.decode()


def create_effects_table(run: RunSql) -> None:
    """Have a place for notes; within a transaction."""
    run(
        f"CREATE TABLE IF NOT EXISTS main.{EFFECTS_TABLE} (call TEXT PRIMARY KEY, fence INTEGER NOT NULL, "
        "happened INTEGER NOT NULL, result TEXT, result_hash TEXT, noted_at TEXT NOT NULL) STRICT",
        (),
    )


def record_effect(run: RunSql, doing: EffectWrite) -> None:
    """Note that a call changes the tables, in the transaction in which it does.

    Raises:
        Conflict: it has changed them before, or was given up.
    """
    found = run(f"SELECT fence, happened FROM main.{EFFECTS_TABLE} WHERE call = ?", (doing.call,))
    if found and found[0][1]:
        raise Conflict(
            "this call has changed its tables already",
            code="storage.one_transaction",
            hint="what is atomic is one transaction: put all statements that change rows into it",
        )
    if found and found[0][0] >= doing.fence:
        raise Conflict(
            "this call was given up: it counts as not made",
            code="storage.call_over",
            hint="nothing was changed; whoever made the call may make it again",
        )
    digest = None if doing.result is None else hash_of(orjson.loads(doing.result))
    values = (doing.call, doing.fence, doing.result, digest, doing.now)
    run(f"INSERT OR REPLACE INTO main.{EFFECTS_TABLE} VALUES (?, ?, 1, ?, ?, ?)", values)
    for call in doing.over:
        run(f"DELETE FROM main.{EFFECTS_TABLE} WHERE call = ? AND happened = 1", (call,))
    if doing.oldest is not None:
        _delete_old(run, doing.oldest)
    doing.noted = True


def close_call(run: RunSql, call: CallId, fence: int, *, started_at: str, now: str) -> RecordedEffect | None:
    """What a call has noted. One that has noted nothing cannot change anything from here on; within a transaction.

    Raises:
        HostError: notes from its time are not kept any more.
    """
    found = run(f"SELECT result, result_hash FROM main.{EFFECTS_TABLE} WHERE call = ? AND happened = 1", (call,))
    if found:
        result, digest = found[0]
        return RecordedEffect(None if result is None else orjson.loads(result), digest)
    forgotten = run(f"SELECT noted_at FROM main.{EFFECTS_TABLE} WHERE call = ?", (_EXPIRED_CALL,))
    if forgotten and forgotten[0][0] >= started_at:
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
    """The refusal of a change that names no call, to a plugin of which some call is atomic."""
    return CallerError(
        "a plugin with an atomic callable changes its tables only in calls that it names",
        code="storage.unnamed_call",
        hint="send the call's token along (_call), as the SDKs do",
    )
