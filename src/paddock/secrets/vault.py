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
from paddock.secrets.envelope import WrappingKey, unseal
from paddock.secrets.key_stores import WrappingKeyRecord
from paddock.secrets.requirements import (
    LookupOrder,
    SecretScope,
    missing_names,
    missing_secrets_error,
    required_secrets,
)
from paddock.secrets.rows import (
    AuditScope,
    SealedSecret,
    SecretInfo,
    activate_first_key,
    active_key,
    delete_key_record,
    existing_secrets,
    find_secret,
    register_pending_key,
    set_secret,
)
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import Database, DirectDatabase, Transaction

UNREADABLE_CODES = frozenset({"secret.key_missing", "secret.unreadable", "secret.key"})
_MAX_WRITE_ATTEMPTS = 5


def store_secret(
    database: DirectDatabase,
    keys: WrappingKeys,
    random: Random,
    deed: Callable[[Transaction], AuditScope],
    name: str,
    owner: str,
    value: Secret,
) -> SecretInfo:
    """Give a secret a new version, sealed under the key in use; the first key is made for the first secret.

    Raises:
        HostError: `secret.key_missing`, when the key in use is nowhere: no other is made in its place.
        OperatorError: `secret.key`, when it cannot be used.
    """
    for _ in range(_MAX_WRITE_ATTEMPTS):  # more than one only where somebody rotates at the same time
        key = get_sealing_key(database, keys, deed)
        kept = database.write(
            partial(_write_version, deed=deed, name=name, owner=owner, value=value, key=key, random=random)
        )
        if kept is not None:
            return kept
    raise HostError("the key for secrets changes all the time", code="secret.key", hint="is a rotation going on?")


def get_sealing_key(
    database: DirectDatabase, keys: WrappingKeys, deed: Callable[[Transaction], AuditScope]
) -> WrappingKey:
    """The key in use, for `set_secret`; made where there is none yet.

    Raises:
        HostError: `secret.key_missing`, when it is nowhere.
        OperatorError: `secret.key`, when it cannot be used.
    """
    return keys.find(database.read(active_key) or _create_first_key(database, keys, deed))


def _create_first_key(
    database: DirectDatabase, keys: WrappingKeys, deed: Callable[[Transaction], AuditScope]
) -> WrappingKeyRecord:
    made = keys.create(lambda note: database.write(lambda tx: register_pending_key(tx, note, deed(tx).now)))
    note = database.write(lambda tx: activate_first_key(tx, made.note))
    if note.id != made.note.id:
        keys.destroy(made.note)
        database.write(lambda tx: delete_key_record(tx, made.note.id))
    return note


def _write_version(
    tx: Transaction,
    deed: Callable[[Transaction], AuditScope],
    name: str,
    owner: str,
    value: Secret,
    key: WrappingKey,
    random: Random,
) -> SecretInfo | None:
    return set_secret(deed(tx), name, owner, value, key, random)


def open_secret(keys: WrappingKeys, found: SealedSecret) -> Secret:
    """The value of a sealed secret. May block.

    Raises:
        HostError: `secret.key_missing` or `secret.unreadable`.
        OperatorError: `secret.key`, when the key cannot be used.
    """
    keys.forget_unlisted(found.known_key_ids)
    return unseal(found.envelope, found.version, keys.find(found.key))


def read_secret(
    database: DirectDatabase, keys: WrappingKeys, tenant: str, person: str | None, name: str, order: LookupOrder
) -> Secret | None:
    """The first of these that is set; None where there is none. Blocks, and raises as `opened` does."""
    for again in (True, False):
        found = database.read(lambda tx: find_secret(tx, tenant, person, name, order))
        try:
            return open_secret(keys, found) if found is not None else None
        except HostError as error:
            if not (again and may_have_rotated(error)):
                raise
    return None


def may_have_rotated(error: HostError) -> bool:
    """Whether it is worth another look: a rotation may have come to its end between the row and the key."""
    return error.error_code == "secret.key_missing"


@dataclass(frozen=True, slots=True)
class OpenedSecret:
    """A secret that was found, and whose it was."""

    value: Secret
    scope: SecretScope
    owner: str


@dataclass(frozen=True, slots=True)
class Vault:
    """Secrets for a host that goes on running."""

    database: Database
    keys: WrappingKeys

    async def get(self, tenant: str, person: str | None, name: str, order: LookupOrder) -> OpenedSecret | None:
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
                if self.keys.is_cached(found.key):
                    value = open_secret(self.keys, found)
                else:
                    value = await asyncio.to_thread(open_secret, self.keys, found)
            except HostError as error:
                if again and may_have_rotated(error):
                    continue
                raise
            return OpenedSecret(value, found.scope, found.version.owner)
        return None

    async def require(self, tenant: str, person: str | None, manifest: Manifest, operation: str | None) -> None:
        """Refuse a call to an operation some of whose secrets are nowhere to be found. Nothing is opened.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        wanted = required_secrets(manifest, operation)
        if not wanted:
            return
        found = await self.database.read(lambda tx: existing_secrets(tx, tenant, person, wanted))
        absent = missing_names(wanted, found)
        if absent:
            raise missing_secrets_error(manifest, operation or "", absent, tenant=tenant, person=person)
