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
from paddock.core.events.secrets import SecretRotated
from paddock.secrets.envelope import SecretVersion, WrappingKey, rewrap
from paddock.secrets.key_stores import WrappingKeyRecord
from paddock.secrets.rows import (
    KEY_PENDING,
    KEY_REPLACED,
    AuditScope,
    active_key,
    delete_key_record,
    inactive_keys,
    read_envelope,
    register_pending_key,
)
from paddock.secrets.wrapping_keys import AUTO, WrappingKeys
from paddock.store.database import DirectDatabase, Transaction

ROWS_PER_BATCH = 100  # rows of one unit: short enough that nobody waits long for the database

_RowKey = tuple[str, str, str]
_FIRST_ROW_KEY: _RowKey = ("", "", "")


@dataclass(frozen=True, slots=True)
class UnrotatedSecret:
    """A secret that stays under the key it was under: it is damaged, or that key is not here."""

    tenant: str
    owner: str
    name: str
    key_id: str
    reason: Literal["damaged", "key_missing"]


@dataclass(frozen=True, slots=True)
class RotationResult:
    """What a rotation came to. `kept` are the keys that could not be destroyed yet, and why."""

    key_id: str
    moved: int
    resumed: bool
    left: tuple[UnrotatedSecret, ...]
    kept: dict[str, str]


class _BatchResult(NamedTuple):
    """What one unit came to."""

    moved: int
    left: list[UnrotatedSecret]
    last: _RowKey | None


def rotate(
    database: DirectDatabase,
    keys: WrappingKeys,
    random: Random,
    deed: Callable[[Transaction], AuditScope],
    *,
    preferred: str | None = None,
    progress: Callable[[int], None] = lambda _moved: None,
) -> RotationResult | None:
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
    with database.try_lock("rotation") as alone:
        if not alone:
            raise Busy("another rotation of the key is under way", code="secret.rotating", hint="wait until it is done")
        if (now := database.read(active_key)) is None:
            return None
        rotation = _Rotation(database, keys, random, deed, progress)
        rotation.destroy_pending_keys()
        if database.read(partial(inactive_keys, state=KEY_REPLACED)):
            finished = rotation.rewrap_all(now, resumed=True)
            elsewhere = preferred is not None and preferred != keys.store_of(now)
            if finished is not None and not elsewhere:
                return finished
        place = preferred or (keys.preferred if keys.preferred != AUTO else keys.store_of(now))
        return rotation.rewrap_all(rotation.activate_new_key(now, place), resumed=False)


@dataclass(frozen=True, slots=True)
class _Rotation:
    """One run: what it works with."""

    database: DirectDatabase
    keys: WrappingKeys
    random: Random
    deed: Callable[[Transaction], AuditScope]
    progress: Callable[[int], None]

    def destroy_pending_keys(self) -> None:
        """Destroy the keys that were never taken into use, since whoever made them was killed."""
        for note in self.database.read(partial(inactive_keys, state=KEY_PENDING)):
            with suppress(OperatorError):  # the next rotation tries again
                self._destroy_key(note)

    def activate_new_key(self, now: WrappingKeyRecord, place: str) -> WrappingKeyRecord:
        """Make a key, and take it into use."""
        self.keys.find(now)  # without it nothing could be wrapped again
        note = self.keys.create(partial(self._register_key, now), place).note
        self.database.write(partial(_activate_key, old=now.id, new=note.id))
        return note

    def _register_key(self, now: WrappingKeyRecord, note: WrappingKeyRecord) -> None:
        before = self.database.read(partial(inactive_keys, state=KEY_REPLACED))
        if note.id in (now.id, *(one.id for one in before)):
            raise HostError(
                "the new key is the one in use, or one that was before",
                code="secret.same_key",
                hint="put the new one into the credential paddock-kek, and the old one into paddock-kek-old",
            )
        self.database.write(lambda tx: register_pending_key(tx, note, self.deed(tx).now))

    def rewrap_all(self, now: WrappingKeyRecord, *, resumed: bool) -> RotationResult | None:
        """Wrap everything with the key in use, and destroy the others.

        Returns:
            None where somebody else's rotation was to be finished, and there was nothing to do for it any more.
        """
        new, moved, left = self.keys.find(now), 0, list[UnrotatedSecret]()
        for note in self.database.read(_keys_still_wrapping):
            for step in self._rewrap_batches(note, new):
                moved += step.moved
                left += step.left
                self.progress(moved)
        retired, kept = self._destroy_unused_keys()
        self.database.truncate_log()
        if resumed and not (moved or retired):
            return None
        self.database.write(lambda tx: _publish_rotation(self.deed(tx), now.id, moved))
        return RotationResult(now.id, moved, resumed, tuple(left), kept)

    def _rewrap_batches(self, note: WrappingKeyRecord, new: WrappingKey) -> Generator[_BatchResult, None, None]:
        try:
            old = self.keys.find(note)
        except HostError:
            yield _BatchResult(0, self.database.read(partial(_secrets_under_key, key_id=note.id)), None)
            return
        after: _RowKey | None = _FIRST_ROW_KEY
        while after is not None:
            step = self.database.write(partial(_rewrap_batch, after=after, old=old, new=new, random=self.random))
            after = step.last
            yield step

    def _destroy_unused_keys(self) -> tuple[int, dict[str, str]]:
        """Destroy the keys that nothing is wrapped with any more: how many, and which are kept for what reason."""
        wrapping = {note.id for note in self.database.read(_keys_still_wrapping)}
        retired, kept = 0, dict[str, str]()
        for note in self.database.read(partial(inactive_keys, state=KEY_REPLACED)):
            if note.id in wrapping:
                kept[note.id] = "secrets are left that it may open"
                continue
            try:
                self._destroy_key(note)
                retired += 1
            except OperatorError as error:
                kept[note.id] = error.message
        return retired, kept

    def _destroy_key(self, note: WrappingKeyRecord) -> None:
        """Destroy a key, and then note it no more: never the other way round."""
        self.keys.destroy(note)
        self.database.write(partial(delete_key_record, key_id=note.id))


def _activate_key(tx: Transaction, old: str, new: str) -> None:
    tx.execute("UPDATE secret_keys SET in_use = ? WHERE id = ?", (KEY_REPLACED, old))
    tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ?", (new,))


def _keys_still_wrapping(tx: Transaction) -> list[WrappingKeyRecord]:
    """The keys out of use that something is still wrapped with."""
    used = {row["key_id"] for row in tx.all("SELECT DISTINCT key_id FROM secrets WHERE key_id IS NOT NULL")}
    return [note for note in inactive_keys(tx, KEY_REPLACED) if note.id in used]


def _secrets_under_key(tx: Transaction, key_id: str) -> list[UnrotatedSecret]:
    rows = tx.all("SELECT tenant, owner, name FROM secrets WHERE key_id = ? ORDER BY tenant, owner, name", (key_id,))
    return [UnrotatedSecret(row["tenant"], row["owner"], row["name"], key_id, "key_missing") for row in rows]


def _rewrap_batch(tx: Transaction, after: _RowKey, old: WrappingKey, new: WrappingKey, random: Random) -> _BatchResult:
    rows = tx.all(
        "SELECT tenant, owner, name, version, key_id, wrapped, sealed FROM secrets WHERE key_id = ?"
        " AND (tenant, owner, name) > (?, ?, ?) ORDER BY tenant, owner, name LIMIT ?",
        (old.id, *after, ROWS_PER_BATCH),
    )
    moved, left = 0, list[UnrotatedSecret]()
    for row in rows:
        about = SecretVersion(row["tenant"], row["owner"], row["name"], row["version"])
        try:
            changed = rewrap(read_envelope(row), about, old, new, random)
        except HostError:
            left.append(UnrotatedSecret(about.tenant, about.owner, about.name, old.id, "damaged"))
            continue
        moved += tx.execute(
            "UPDATE secrets SET key_id = ?, wrapped = ? WHERE tenant = ? AND owner = ? AND name = ? AND version = ?"
            " AND key_id = ?",
            (new.id, changed.wrapped, about.tenant, about.owner, about.name, about.version, old.id),
        )
    last = rows[-1] if rows else None
    return _BatchResult(moved, left, (last["tenant"], last["owner"], last["name"]) if last else None)


def _publish_rotation(deed: AuditScope, key_id: str, count: int) -> None:
    deed.publish.publish(SecretRotated(key_id=key_id, count=count, by=deed.by))
