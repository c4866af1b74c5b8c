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

from paddock.capabilities.params import wrong
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, HostError
from paddock.core.ids import CallId

TABLE = "paddock_effects"
"""Named so in the plugin's file, where no statement of its own may read or change it."""

LARGEST_RESULT = 256 << 10
MOST_OVER = 1_000  # calls that wait for their notes to go
KEPT = timedelta(days=30)  # of those that nobody let go of: their host died before it could
_FORGOTTEN = ""  # in place of a call's id: notes from before that time were let go of

Run: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]
"""Runs a statement of the host's own."""


@dataclass(slots=True)
class Doing:
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
class Done:
    """What a call has noted: that it changed the plugin's tables, and what it answers where it said so."""

    result: Any
    result_hash: str | None


def written(result: Any) -> str:
    """What a call says that it will answer, as it is kept.

    Raises:
        CallerError: it is too large, or cannot be kept.
    """
    try:
        text = orjson.dumps(result)
    except orjson.JSONEncodeError:
        raise wrong("result", "cannot be written as JSON") from None
    if len(text) > LARGEST_RESULT:
        raise wrong("result", f"is larger than {LARGEST_RESULT >> 10} KiB")
    return text.decode()


def create(run: Run) -> None:
    """Have a place for notes; within a transaction."""
    run(
        f"CREATE TABLE IF NOT EXISTS main.{TABLE} (call TEXT PRIMARY KEY, fence INTEGER NOT NULL, "
        "happened INTEGER NOT NULL, result TEXT, result_hash TEXT, noted_at TEXT NOT NULL) STRICT",
        (),
    )


def note(run: Run, doing: Doing) -> None:
    """Note that a call changes the tables, in the transaction in which it does.

    Raises:
        Conflict: it has changed them before, or was given up.
    """
    found = run(f"SELECT fence, happened FROM main.{TABLE} WHERE call = ?", (doing.call,))
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
    run(f"INSERT OR REPLACE INTO main.{TABLE} VALUES (?, ?, 1, ?, ?, ?)", values)
    for call in doing.over:
        run(f"DELETE FROM main.{TABLE} WHERE call = ? AND happened = 1", (call,))
    if doing.oldest is not None:
        _let_go(run, doing.oldest)
    doing.noted = True


def end(run: Run, call: CallId, fence: int, *, started_at: str, now: str) -> Done | None:
    """What a call has noted. One that has noted nothing cannot change anything from here on; within a transaction.

    Raises:
        HostError: notes from its time are not kept any more.
    """
    found = run(f"SELECT result, result_hash FROM main.{TABLE} WHERE call = ? AND happened = 1", (call,))
    if found:
        result, digest = found[0]
        return Done(None if result is None else orjson.loads(result), digest)
    forgotten = run(f"SELECT noted_at FROM main.{TABLE} WHERE call = ?", (_FORGOTTEN,))
    if forgotten and forgotten[0][0] >= started_at:
        raise HostError(
            "what calls of that time have changed is not known any more",
            code="effect.note_forgotten",
            details={"call_id": call},
        )
    run(f"INSERT OR REPLACE INTO main.{TABLE} VALUES (?, ?, 0, NULL, NULL, ?)", (call, fence, now))
    return None


def _let_go(run: Run, oldest: str) -> None:
    last = run(f"SELECT max(noted_at) FROM main.{TABLE} WHERE noted_at < ? AND call <> ?", (oldest, _FORGOTTEN))[0][0]
    if last is not None:
        run(f"DELETE FROM main.{TABLE} WHERE noted_at <= ? AND call <> ?", (last, _FORGOTTEN))
        run(f"INSERT OR REPLACE INTO main.{TABLE} VALUES (?, 0, 0, NULL, NULL, ?)", (_FORGOTTEN, last))


def unnamed() -> CallerError:
    """The refusal of a change that names no call, to a plugin of which some call is atomic."""
    return CallerError(
        "a plugin with an atomic callable changes its tables only in calls that it names",
        code="storage.unnamed_call",
        hint="send the call's token along (_call), as the SDKs do",
    )
