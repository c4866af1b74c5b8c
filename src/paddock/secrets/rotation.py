"""Rotation of the wrapping key: rewraps the data key of every secret, a few rows at a time.

    register a pending key → create it → activate it → rewrap each data key with it → destroy the keys that wrap
    nothing any more → delete their records

A crash at any point leaves a store in which every key is registered and each row names the key that decrypts it: all
secrets can be read, and the next rotation continues where this one ended. Only one runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Literal, NamedTuple

from msgspec import Struct

from paddock.core.clock import Random
from paddock.core.errors import Busy, HostError, OperatorError
from paddock.core.events.secrets import SecretRotated
from paddock.secrets.envelope import SecretVersion, WrappingKey, rewrap
from paddock.secrets.key_stores import WrappingKeyRecord
from paddock.secrets.rows import (
    KEY_PENDING,
    KEY_REPLACED,
    active_key,
    delete_key_record,
    inactive_keys,
    read_envelope,
    register_pending_key,
)
from paddock.secrets.wrapping_keys import AUTO, WrappingKeys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import DirectDatabase, Transaction

ROWS_PER_BATCH = 100  # per transaction: short enough that nobody waits long for the database

_RowKey = tuple[str, str, str]
_FIRST_ROW_KEY: _RowKey = ("", "", "")


class UnrotatedSecret(Struct, frozen=True):
    """A secret that stays under its old key: it is damaged, or that key is unavailable."""

    tenant: str
    owner: str
    name: str
    key_id: str
    reason: Literal["damaged", "key_missing"]


class RotationResult(Struct, frozen=True):
    """The result of a rotation. `kept` are the keys that could not be destroyed yet, and why."""

    key_id: str
    moved: int
    resumed: bool
    left: tuple[UnrotatedSecret, ...]
    kept: dict[str, str]


class _BatchResult(NamedTuple):
    """The result of one transaction."""

    moved: int
    left: list[UnrotatedSecret]
    last: _RowKey | None


def rotate(
    database: DirectDatabase,
    keys: WrappingKeys,
    random: Random,
    audit: Callable[[Transaction], AuditedTransaction],
    *,
    preferred: str | None = None,
    progress: Callable[[int], None] = lambda _moved: None,
) -> RotationResult | None:
    """Rewrap every secret with a new key; or finish a rotation that was interrupted. None if there is no secret yet.

    What cannot be decrypted is left, and does not keep the others from being rewrapped.

    Args:
        database: Holds the secrets.
        keys: The wrapping keys.
        random: For nonces.
        audit: Makes a transaction an audited one of the principal that rotates.
        preferred: The store of the new key. By default the one in the settings, or else that of the active key: a
            user of a keyring does not want the next key in a file. An interrupted rotation to another store is
            finished first.
        progress: Called with the number of secrets done so far.

    Raises:
        Busy: `secret.rotating`, another rotation is running.
        HostError: `secret.key_missing`, the active key is unavailable; `secret.same_key`.
        OperatorError: `secret.key`, there can be no other key.
    """
    with database.try_lock("rotation") as acquired:
        if not acquired:
            raise Busy("another rotation of the key is under way", code="secret.rotating", hint="wait until it is done")
        if (active := database.read(active_key)) is None:
            return None
        rotation = _Rotation(database, keys, random, audit, progress)
        rotation.destroy_pending_keys()
        if database.read(partial(inactive_keys, state=KEY_REPLACED)):
            finished = rotation.rewrap_all(active, resumed=True)
            other_store = preferred is not None and preferred != keys.store_of(active)
            if finished is not None and not other_store:
                return finished
        store_name = preferred or (keys.preferred if keys.preferred != AUTO else keys.store_of(active))
        return rotation.rewrap_all(rotation.activate_new_key(active, store_name), resumed=False)


class _Rotation(Struct, frozen=True):
    """The dependencies of one rotation."""

    database: DirectDatabase
    keys: WrappingKeys
    random: Random
    audit: Callable[[Transaction], AuditedTransaction]
    progress: Callable[[int], None]

    def destroy_pending_keys(self) -> None:
        """Destroy keys that were never activated, because the process that created them was killed."""
        for record in self.database.read(partial(inactive_keys, state=KEY_PENDING)):
            with suppress(OperatorError):  # the next rotation tries again
                self._destroy_key(record)

    def activate_new_key(self, active: WrappingKeyRecord, store_name: str) -> WrappingKeyRecord:
        """Create a key, and activate it."""
        self.keys.find(active)  # without the active key nothing could be rewrapped
        record = self.keys.create(partial(self._register_key, active), store_name).record
        self.database.write(partial(_activate_key, old=active.id, new=record.id))
        return record

    def _register_key(self, active: WrappingKeyRecord, record: WrappingKeyRecord) -> None:
        replaced_keys = self.database.read(partial(inactive_keys, state=KEY_REPLACED))
        if record.id in (active.id, *(replaced.id for replaced in replaced_keys)):
            raise HostError(
                "the new key is the one in use, or one that was before",
                code="secret.same_key",
                hint="put the new one into the credential paddock-kek, and the old one into paddock-kek-old",
            )
        self.database.write(lambda tx: register_pending_key(tx, record, self.audit(tx).now))

    def rewrap_all(self, active: WrappingKeyRecord, *, resumed: bool) -> RotationResult | None:
        """Rewrap everything with the active key, and destroy the others.

        Returns:
            None if an interrupted rotation was to be finished and there was nothing left to do.
        """
        new, moved, left = self.keys.find(active), 0, list[UnrotatedSecret]()
        for record in self.database.read(_keys_still_wrapping):
            for batch in self._rewrap_batches(record, new):
                moved += batch.moved
                left += batch.left
                self.progress(moved)
        retired, kept = self._destroy_unused_keys()
        self.database.truncate_log()
        if resumed and not (moved or retired):
            return None
        self.database.write(lambda tx: _publish_rotation(self.audit(tx), active.id, moved))
        return RotationResult(active.id, moved, resumed, tuple(left), kept)

    def _rewrap_batches(self, record: WrappingKeyRecord, new: WrappingKey) -> Generator[_BatchResult, None, None]:
        try:
            old = self.keys.find(record)
        except HostError:
            yield _BatchResult(0, self.database.read(partial(_secrets_under_key, key_id=record.id)), None)
            return
        after: _RowKey | None = _FIRST_ROW_KEY
        while after is not None:
            batch = self.database.write(partial(_rewrap_batch, after=after, old=old, new=new, random=self.random))
            after = batch.last
            yield batch

    def _destroy_unused_keys(self) -> tuple[int, dict[str, str]]:
        """Destroy the keys that wrap nothing any more; return how many, and which are kept for what reason."""
        wrapping = {record.id for record in self.database.read(_keys_still_wrapping)}
        retired, kept = 0, dict[str, str]()
        for record in self.database.read(partial(inactive_keys, state=KEY_REPLACED)):
            if record.id in wrapping:
                kept[record.id] = "secrets are left that it may open"
                continue
            try:
                self._destroy_key(record)
                retired += 1
            except OperatorError as error:
                kept[record.id] = error.message
        return retired, kept

    def _destroy_key(self, record: WrappingKeyRecord) -> None:
        """Destroy a key, and then delete its record: never the other way round."""
        self.keys.destroy(record)
        self.database.write(partial(delete_key_record, key_id=record.id))


def _activate_key(tx: Transaction, old: str, new: str) -> None:
    tx.execute("UPDATE secret_keys SET in_use = ? WHERE id = ?", (KEY_REPLACED, old))
    tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ?", (new,))


def _keys_still_wrapping(tx: Transaction) -> list[WrappingKeyRecord]:
    """Return the replaced keys that still wrap some secret."""
    used = {row["key_id"] for row in tx.all("SELECT DISTINCT key_id FROM secrets WHERE key_id IS NOT NULL")}
    return [record for record in inactive_keys(tx, KEY_REPLACED) if record.id in used]


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
        version = SecretVersion(row["tenant"], row["owner"], row["name"], row["version"])
        try:
            envelope = rewrap(read_envelope(row), version, old, new, random)
        except HostError:
            left.append(UnrotatedSecret(version.tenant, version.owner, version.name, old.id, "damaged"))
            continue
        moved += tx.execute(
            "UPDATE secrets SET key_id = ?, wrapped = ? WHERE tenant = ? AND owner = ? AND name = ? AND version = ?"
            " AND key_id = ?",
            (new.id, envelope.wrapped, version.tenant, version.owner, version.name, version.version, old.id),
        )
    last = rows[-1] if rows else None
    return _BatchResult(moved, left, (last["tenant"], last["owner"], last["name"]) if last else None)


def _publish_rotation(audit: AuditedTransaction, key_id: str, count: int) -> None:
    audit.publish.publish(SecretRotated(key_id=key_id, count=count, by=audit.by))
