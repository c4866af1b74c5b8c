"""Putting every secret under another key, a few rows at a time.

    make a key → take it into use → wrap each data key with it → destroy the keys that nothing is wrapped with any more

Whoever is killed on the way leaves a store in which both keys are noted and each row names the one that opens it: all
secrets can be read, and the next rotation goes on where this one ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from paddock.core.clock import Random
from paddock.core.errors import HostError
from paddock.core.events_secrets import SecretRotated
from paddock.secrets.envelope import About, Envelope, WrappingKey, rewrap
from paddock.secrets.keys import Keys
from paddock.secrets.rows import Deed, key_in_use
from paddock.secrets.sources import KeyNote
from paddock.store.database import DirectDatabase, Transaction

AT_ONCE = 100  # rows of one unit: short enough that nobody waits long for the database

_Place = tuple[str, str, str]
_BEFORE_ALL: _Place = ("", "", "")


class _Step(NamedTuple):
    """What one unit came to."""

    moved: int
    unreadable: tuple[str, ...]
    last: _Place | None


@dataclass(frozen=True, slots=True)
class Rotated:
    """What a rotation came to. The keys of secrets that could not be opened are kept."""

    key_id: str
    moved: int
    resumed: bool
    unreadable: tuple[str, ...]


def others(tx: Transaction) -> list[KeyNote]:
    """Keys that are not in use any more and still noted: a rotation has not come to its end."""
    rows = tx.all("SELECT id, source, salt FROM secret_keys WHERE in_use = 0 ORDER BY made_at, id")
    return [KeyNote(row["id"], row["source"], row["salt"]) for row in rows]


def rotate(
    database: DirectDatabase,
    keys: Keys,
    random: Random,
    deed: Callable[[Transaction], Deed],
    *,
    preferred: str | None = None,
    progress: Callable[[int], None] = lambda _moved: None,
) -> Rotated | None:
    """Put every secret under a new key; or finish the rotation that somebody began. None where there is no secret yet.

    Args:
        database: Where secrets are.
        keys: Gives the keys.
        random: Chance.
        deed: Makes a unit of work one of whoever rotates.
        preferred: Where the new key goes, if not where the settings say.
        progress: Told how many are done so far.

    Raises:
        HostError: `secret.key_missing`, when a key is nowhere; what was done so far stays.
        OperatorError: `secret.key`, when there can be no other key.
    """
    if (now := database.read(key_in_use)) is None:
        return None
    resumed = bool(database.read(others))
    if not resumed:
        keys.find(now)  # without it nothing could be wrapped again
        note = keys.make(preferred).note
        if note.id == now.id:
            raise HostError(
                "the new key is the one in use",
                code="secret.same_key",
                hint="put the new one into the credential paddock-kek, and the old one into paddock-kek-old",
            )
        database.write(lambda tx: _take_into_use(tx, note, deed(tx).now))
        now = note
    moved, unreadable = _move_all(database, keys, now, random, progress)
    _retire(database, keys)
    database.write(lambda tx: _tell(deed(tx), now.id, moved))
    return Rotated(now.id, moved, resumed, unreadable)


def _take_into_use(tx: Transaction, note: KeyNote, at: str) -> None:
    tx.execute("UPDATE secret_keys SET in_use = 0 WHERE in_use = 1")
    tx.execute(
        "INSERT INTO secret_keys (id, source, salt, in_use, made_at) VALUES (?, ?, ?, 1, ?)",
        (note.id, note.source, note.salt, at),
    )


def _move_all(
    database: DirectDatabase, keys: Keys, note: KeyNote, random: Random, progress: Callable[[int], None]
) -> tuple[int, tuple[str, ...]]:
    new = keys.find(note)
    old = {one.id: keys.find(one) for one in database.read(_wrapping)}
    moved, unreadable, after = 0, list[str](), _BEFORE_ALL
    while True:
        step = database.write(partial(_move_some, after=after, old=old, new=new, random=random))
        moved += step.moved
        unreadable += step.unreadable
        if step.last is None:
            return moved, tuple(unreadable)
        after = step.last
        progress(moved)


def _wrapping(tx: Transaction) -> list[KeyNote]:
    """The keys out of use that something is still wrapped with."""
    used = {row["key_id"] for row in tx.all("SELECT DISTINCT key_id FROM secrets WHERE key_id IS NOT NULL")}
    return [note for note in others(tx) if note.id in used]


def _move_some(tx: Transaction, after: _Place, old: dict[str, WrappingKey], new: WrappingKey, random: Random) -> _Step:
    rows = tx.all(
        "SELECT tenant, owner, name, version, key_id, wrapped, sealed FROM secrets WHERE key_id <> ?"
        " AND (tenant, owner, name) > (?, ?, ?) ORDER BY tenant, owner, name LIMIT ?",
        (new.id, *after, AT_ONCE),
    )
    moved, unreadable = 0, list[str]()
    for row in rows:
        about = About(row["tenant"], row["owner"], row["name"], row["version"])
        try:
            key = old[row["key_id"]]
            changed = rewrap(Envelope(key.id, bytes(row["wrapped"]), bytes(row["sealed"])), about, key, new, random)
        except (HostError, KeyError):
            unreadable.append(about.name)  # one that was damaged must not keep the others under the old key
            continue
        moved += tx.execute(
            "UPDATE secrets SET key_id = ?, wrapped = ? WHERE tenant = ? AND owner = ? AND name = ? AND version = ?"
            " AND key_id = ?",
            (new.id, changed.wrapped, about.tenant, about.owner, about.name, about.version, key.id),
        )
    last = rows[-1] if rows else None
    return _Step(moved, tuple(unreadable), (last["tenant"], last["owner"], last["name"]) if last else None)


def _retire(database: DirectDatabase, keys: Keys) -> None:
    """Destroy the keys that nothing is wrapped with any more, and then forget them: never the other way round."""
    wrapping = {note.id for note in database.read(_wrapping)}
    for note in database.read(others):
        if note.id not in wrapping:
            keys.destroy(note)
            database.write(partial(_forget, key_id=note.id))
    database.empty_log()


def _forget(tx: Transaction, key_id: str) -> None:
    tx.execute("DELETE FROM secret_keys WHERE id = ? AND in_use = 0", (key_id,))


def _tell(deed: Deed, key_id: str, count: int) -> None:
    deed.publish.publish(SecretRotated(key_id=key_id, count=count, by=deed.by))
