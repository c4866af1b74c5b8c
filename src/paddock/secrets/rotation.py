"""Putting every secret under another key, a few rows at a time.

    note that there will be a key → make it → take it into use → wrap each data key with it → destroy the keys that
    nothing is wrapped with any more → note them no more

Whoever is killed on the way leaves a store in which every key is noted and each row names the one that opens it: all
secrets can be read, and the next rotation goes on where this one ended. Only one is under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from paddock.core.clock import Random
from paddock.core.errors import Busy, HostError, OperatorError
from paddock.core.events_secrets import SecretRotated
from paddock.secrets.envelope import About, WrappingKey, rewrap
from paddock.secrets.keys import AUTO, Keys
from paddock.secrets.rows import (
    ANNOUNCED,
    REPLACED,
    Deed,
    announce_key,
    envelope_in,
    forget_key,
    key_in_use,
    keys_out_of_use,
)
from paddock.secrets.sources import KeyNote
from paddock.store.database import DirectDatabase, Transaction

AT_ONCE = 100  # rows of one unit: short enough that nobody waits long for the database

_Place = tuple[str, str, str]
_BEFORE_ALL: _Place = ("", "", "")


@dataclass(frozen=True, slots=True)
class Left:
    """A secret that stays under the key it was under: it is damaged, or that key is not here."""

    tenant: str
    owner: str
    name: str
    key_id: str
    reason: Literal["damaged", "key_missing"]


@dataclass(frozen=True, slots=True)
class Rotated:
    """What a rotation came to. `kept` are the keys that could not be destroyed yet, and why."""

    key_id: str
    moved: int
    resumed: bool
    left: tuple[Left, ...]
    kept: dict[str, str]


class _Step(NamedTuple):
    """What one unit came to."""

    moved: int
    left: list[Left]
    last: _Place | None


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

    What cannot be opened is left, and keeps nothing else from going under the new key.

    Args:
        database: Where secrets are.
        keys: Gives the keys.
        random: Chance.
        deed: Makes a unit of work one of whoever rotates.
        preferred: Where the new key goes. Without it that is where the settings say, or else where the one in use is:
            nobody who keeps it in a keyring wants the next one in a file. A rotation that was begun with another place
            is finished first.
        progress: Told how many are done so far.

    Raises:
        Busy: `secret.rotating`, when somebody else is at it.
        HostError: `secret.key_missing`, when the key in use is nowhere; `secret.same_key`.
        OperatorError: `secret.key`, when there can be no other key.
    """
    with database.holding("rotation") as alone:
        if not alone:
            raise Busy("another rotation of the key is under way", code="secret.rotating", hint="wait until it is done")
        if (now := database.read(key_in_use)) is None:
            return None
        rotation = _Rotation(database, keys, random, deed, progress)
        rotation.clean()
        if database.read(partial(keys_out_of_use, state=REPLACED)):
            finished = rotation.finish(now, resumed=True)
            elsewhere = preferred is not None and preferred != keys.place_of(now)
            if finished is not None and not elsewhere:
                return finished
        place = preferred or (keys.preferred if keys.preferred != AUTO else keys.place_of(now))
        return rotation.finish(rotation.begin(now, place), resumed=False)


@dataclass(frozen=True, slots=True)
class _Rotation:
    """One run: what it works with."""

    database: DirectDatabase
    keys: Keys
    random: Random
    deed: Callable[[Transaction], Deed]
    progress: Callable[[int], None]

    def clean(self) -> None:
        """Destroy the keys that were never taken into use, since whoever made them was killed."""
        for note in self.database.read(partial(keys_out_of_use, state=ANNOUNCED)):
            with suppress(OperatorError):  # the next rotation tries again
                self._destroy(note)

    def begin(self, now: KeyNote, place: str) -> KeyNote:
        """Make a key, and take it into use."""
        self.keys.find(now)  # without it nothing could be wrapped again
        note = self.keys.make(partial(self._announce, now), place).note
        self.database.write(partial(_take_into_use, old=now.id, new=note.id))
        return note

    def _announce(self, now: KeyNote, note: KeyNote) -> None:
        before = self.database.read(partial(keys_out_of_use, state=REPLACED))
        if note.id in (now.id, *(one.id for one in before)):
            raise HostError(
                "the new key is the one in use, or one that was before",
                code="secret.same_key",
                hint="put the new one into the credential paddock-kek, and the old one into paddock-kek-old",
            )
        self.database.write(lambda tx: announce_key(tx, note, self.deed(tx).now))

    def finish(self, now: KeyNote, *, resumed: bool) -> Rotated | None:
        """Wrap everything with the key in use, and destroy the others.

        Returns:
            None where somebody else's rotation was to be finished, and there was nothing to do for it any more.
        """
        new, moved, left = self.keys.find(now), 0, list[Left]()
        for note in self.database.read(_wrapping):
            for step in self._move(note, new):
                moved += step.moved
                left += step.left
                self.progress(moved)
        retired, kept = self._retire()
        self.database.empty_log()
        if resumed and not (moved or retired):
            return None
        self.database.write(lambda tx: _tell(self.deed(tx), now.id, moved))
        return Rotated(now.id, moved, resumed, tuple(left), kept)

    def _move(self, note: KeyNote, new: WrappingKey) -> Generator[_Step, None, None]:
        try:
            old = self.keys.find(note)
        except HostError:
            yield _Step(0, self.database.read(partial(_under, key_id=note.id)), None)
            return
        after: _Place | None = _BEFORE_ALL
        while after is not None:
            step = self.database.write(partial(_move_some, after=after, old=old, new=new, random=self.random))
            after = step.last
            yield step

    def _retire(self) -> tuple[int, dict[str, str]]:
        """Destroy the keys that nothing is wrapped with any more: how many, and which are kept for what reason."""
        wrapping = {note.id for note in self.database.read(_wrapping)}
        retired, kept = 0, dict[str, str]()
        for note in self.database.read(partial(keys_out_of_use, state=REPLACED)):
            if note.id in wrapping:
                kept[note.id] = "secrets are left that it may open"
                continue
            try:
                self._destroy(note)
                retired += 1
            except OperatorError as error:
                kept[note.id] = error.message
        return retired, kept

    def _destroy(self, note: KeyNote) -> None:
        """Destroy a key, and then note it no more: never the other way round."""
        self.keys.destroy(note)
        self.database.write(partial(forget_key, key_id=note.id))


def _take_into_use(tx: Transaction, old: str, new: str) -> None:
    tx.execute("UPDATE secret_keys SET in_use = ? WHERE id = ?", (REPLACED, old))
    tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ?", (new,))


def _wrapping(tx: Transaction) -> list[KeyNote]:
    """The keys out of use that something is still wrapped with."""
    used = {row["key_id"] for row in tx.all("SELECT DISTINCT key_id FROM secrets WHERE key_id IS NOT NULL")}
    return [note for note in keys_out_of_use(tx, REPLACED) if note.id in used]


def _under(tx: Transaction, key_id: str) -> list[Left]:
    rows = tx.all("SELECT tenant, owner, name FROM secrets WHERE key_id = ? ORDER BY tenant, owner, name", (key_id,))
    return [Left(row["tenant"], row["owner"], row["name"], key_id, "key_missing") for row in rows]


def _move_some(tx: Transaction, after: _Place, old: WrappingKey, new: WrappingKey, random: Random) -> _Step:
    rows = tx.all(
        "SELECT tenant, owner, name, version, key_id, wrapped, sealed FROM secrets WHERE key_id = ?"
        " AND (tenant, owner, name) > (?, ?, ?) ORDER BY tenant, owner, name LIMIT ?",
        (old.id, *after, AT_ONCE),
    )
    moved, left = 0, list[Left]()
    for row in rows:
        about = About(row["tenant"], row["owner"], row["name"], row["version"])
        try:
            changed = rewrap(envelope_in(row), about, old, new, random)
        except HostError:
            left.append(Left(about.tenant, about.owner, about.name, old.id, "damaged"))
            continue
        moved += tx.execute(
            "UPDATE secrets SET key_id = ?, wrapped = ? WHERE tenant = ? AND owner = ? AND name = ? AND version = ?"
            " AND key_id = ?",
            (new.id, changed.wrapped, about.tenant, about.owner, about.name, about.version, old.id),
        )
    last = rows[-1] if rows else None
    return _Step(moved, left, (last["tenant"], last["owner"], last["name"]) if last else None)


def _tell(deed: Deed, key_id: str, count: int) -> None:
    deed.publish.publish(SecretRotated(key_id=key_id, count=count, by=deed.by))
