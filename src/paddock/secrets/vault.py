"""Setting and opening secrets: rows and keys brought together, for one command or for a host that goes on running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from paddock.core.clock import Random
from paddock.core.errors import HostError
from paddock.core.secret import Secret
from paddock.manifest.model import Manifest
from paddock.secrets.declared import Order, Scope, missing, missing_secrets, needed
from paddock.secrets.envelope import WrappingKey, unseal
from paddock.secrets.keys import Keys
from paddock.secrets.rows import (
    Deed,
    Found,
    Listed,
    announce_key,
    find_secret,
    first_key,
    forget_key,
    have,
    key_in_use,
    set_secret,
)
from paddock.secrets.sources import KeyNote
from paddock.store.database import Database, DirectDatabase, Transaction

CANNOT_BE_OPENED = frozenset({"secret.key_missing", "secret.unreadable", "secret.key"})
_TRIES = 5


def keep_secret(
    database: DirectDatabase,
    keys: Keys,
    random: Random,
    deed: Callable[[Transaction], Deed],
    name: str,
    owner: str,
    value: Secret,
) -> Listed:
    """Give a secret a new version, sealed under the key in use; the first key is made for the first secret.

    Raises:
        HostError: `secret.key_missing`, when the key in use is nowhere: no other is made in its place.
        OperatorError: `secret.key`, when it cannot be used.
    """
    for _ in range(_TRIES):  # more than one only where somebody rotates at the same time
        key = sealing_key(database, keys, deed)
        kept = database.write(partial(_set, deed=deed, name=name, owner=owner, value=value, key=key, random=random))
        if kept is not None:
            return kept
    raise HostError("the key for secrets changes all the time", code="secret.key", hint="is a rotation going on?")


def sealing_key(database: DirectDatabase, keys: Keys, deed: Callable[[Transaction], Deed]) -> WrappingKey:
    """The key in use, for `set_secret`; made where there is none yet.

    Raises:
        HostError: `secret.key_missing`, when it is nowhere.
        OperatorError: `secret.key`, when it cannot be used.
    """
    return keys.find(database.read(key_in_use) or _first_key(database, keys, deed))


def _first_key(database: DirectDatabase, keys: Keys, deed: Callable[[Transaction], Deed]) -> KeyNote:
    made = keys.make(lambda note: database.write(lambda tx: announce_key(tx, note, deed(tx).now)))
    note = database.write(lambda tx: first_key(tx, made.note))
    if note.id != made.note.id:
        keys.destroy(made.note)
        database.write(lambda tx: forget_key(tx, made.note.id))
    return note


def _set(
    tx: Transaction,
    deed: Callable[[Transaction], Deed],
    name: str,
    owner: str,
    value: Secret,
    key: WrappingKey,
    random: Random,
) -> Listed | None:
    return set_secret(deed(tx), name, owner, value, key, random)


def opened(keys: Keys, found: Found) -> Secret:
    """The value of a sealed secret. May block.

    Raises:
        HostError: `secret.key_missing` or `secret.unreadable`.
        OperatorError: `secret.key`, when the key cannot be used.
    """
    keys.keep_only(found.noted)
    return unseal(found.envelope, found.about, keys.find(found.key))


def look_up(
    database: DirectDatabase, keys: Keys, tenant: str, person: str | None, name: str, order: Order
) -> Secret | None:
    """The first of these that is set; None where there is none. Blocks, and raises as `opened` does."""
    for again in (True, False):
        found = database.read(lambda tx: find_secret(tx, tenant, person, name, order))
        try:
            return opened(keys, found) if found is not None else None
        except HostError as error:
            if not (again and moved_meanwhile(error)):
                raise
    return None


def moved_meanwhile(error: HostError) -> bool:
    """Whether it is worth another look: a rotation may have come to its end between the row and the key."""
    return error.error_code == "secret.key_missing"


@dataclass(frozen=True, slots=True)
class Given:
    """A secret that was found, and whose it was."""

    value: Secret
    scope: Scope
    owner: str


@dataclass(frozen=True, slots=True)
class Vault:
    """Secrets for a host that goes on running."""

    database: Database
    keys: Keys

    async def get(self, tenant: str, person: str | None, name: str, order: Order) -> Given | None:
        """The first of these that is set, for this person; None where there is none.

        Raises:
            HostError: it is there and cannot be opened.
            OperatorError: its key cannot be used.
        """
        for again in (True, False):
            found = await self.database.read(lambda tx: find_secret(tx, tenant, person, name, order))
            if found is None:
                return None
            try:
                if self.keys.remembered(found.key):
                    value = opened(self.keys, found)
                else:
                    value = await asyncio.to_thread(opened, self.keys, found)
            except HostError as error:
                if again and moved_meanwhile(error):
                    continue
                raise
            return Given(value, found.scope, found.about.owner)
        return None

    async def require(self, tenant: str, person: str | None, manifest: Manifest, operation: str | None) -> None:
        """Refuse a call to an operation some of whose secrets are nowhere to be found. Nothing is opened.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        wanted = needed(manifest, operation)
        if not wanted:
            return
        found = await self.database.read(lambda tx: have(tx, tenant, person, wanted))
        absent = missing(wanted, found)
        if absent:
            raise missing_secrets(manifest, operation or "", absent, tenant=tenant, person=person)
