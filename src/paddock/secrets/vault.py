"""Stores and opens secrets: combines rows and wrapping keys, for one command or for a running host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import Struct

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
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Database, DirectDatabase, Transaction

UNREADABLE_CODES = frozenset({"secret.key_missing", "secret.unreadable", "secret.key"})
_MAX_WRITE_ATTEMPTS = 5


def store_secret(
    database: DirectDatabase,
    keys: WrappingKeys,
    random: Random,
    audit: Callable[[Transaction], AuditedTransaction],
    name: str,
    owner: str,
    value: Secret,
) -> SecretInfo:
    """Store a new version of a secret under the active key; the first key is created for the first secret.

    Raises:
        HostError: `secret.key_missing`, the active key is unavailable: no other is created in its place.
        OperatorError: `secret.key`, it is unusable.
    """
    for _ in range(_MAX_WRITE_ATTEMPTS):  # more than one only during a concurrent rotation
        key = get_sealing_key(database, keys, audit)
        stored = database.write(
            partial(_write_version, audit=audit, name=name, owner=owner, value=value, key=key, random=random)
        )
        if stored is not None:
            return stored
    raise HostError("the key for secrets changes all the time", code="secret.key", hint="is a rotation going on?")


def get_sealing_key(
    database: DirectDatabase, keys: WrappingKeys, audit: Callable[[Transaction], AuditedTransaction]
) -> WrappingKey:
    """Return the active key, for `set_secret`; created if there is none yet.

    Raises:
        HostError: `secret.key_missing`, it is unavailable.
        OperatorError: `secret.key`, it is unusable.
    """
    return keys.find(database.read(active_key) or _create_first_key(database, keys, audit))


def _create_first_key(
    database: DirectDatabase, keys: WrappingKeys, audit: Callable[[Transaction], AuditedTransaction]
) -> WrappingKeyRecord:
    new_key = keys.create(lambda record: database.write(lambda tx: register_pending_key(tx, record, audit(tx).now)))
    active = database.write(lambda tx: activate_first_key(tx, new_key.record))
    if active.id != new_key.record.id:
        keys.destroy(new_key.record)
        database.write(lambda tx: delete_key_record(tx, new_key.record.id))
    return active


def _write_version(
    tx: Transaction,
    audit: Callable[[Transaction], AuditedTransaction],
    name: str,
    owner: str,
    value: Secret,
    key: WrappingKey,
    random: Random,
) -> SecretInfo | None:
    return set_secret(audit(tx), name, owner, value, key, random)


def open_secret(keys: WrappingKeys, sealed: SealedSecret) -> Secret:
    """Decrypt a sealed secret. May block.

    Raises:
        HostError: `secret.key_missing` or `secret.unreadable`.
        OperatorError: `secret.key`, the key is unusable.
    """
    keys.forget_unlisted(sealed.known_key_ids)
    return unseal(sealed.envelope, sealed.version, keys.find(sealed.key))


def read_secret(
    database: DirectDatabase, keys: WrappingKeys, tenant: str, person: str | None, name: str, order: LookupOrder
) -> Secret | None:
    """Decrypt the first secret in this lookup order; None if there is none. Blocking; raises as `open_secret` does."""
    for may_retry in (True, False):
        sealed = database.read(lambda tx: find_secret(tx, tenant, person, name, order))
        try:
            return open_secret(keys, sealed) if sealed is not None else None
        except HostError as error:
            if not (may_retry and may_have_rotated(error)):
                raise
    return None


def may_have_rotated(error: HostError) -> bool:
    """Return whether a retry is worthwhile: a rotation may have finished between reading the row and the key."""
    return error.error_code == "secret.key_missing"


class OpenedSecret(Struct, frozen=True):
    """A decrypted secret, with its scope and owner."""

    value: Secret
    scope: SecretScope
    owner: str


class Vault(Struct, frozen=True):
    """Access to secrets for a running host."""

    database: Database
    keys: WrappingKeys

    async def get(self, tenant: str, person: str | None, name: str, order: LookupOrder) -> OpenedSecret | None:
        """Decrypt the first secret in this lookup order for a person; None if there is none.

        Raises:
            HostError: it exists and cannot be decrypted.
            OperatorError: its key is unusable.
        """
        for may_retry in (True, False):
            sealed = await self.database.read(lambda tx: find_secret(tx, tenant, person, name, order))
            if sealed is None:
                return None
            try:
                if self.keys.is_cached(sealed.key):
                    value = open_secret(self.keys, sealed)
                else:
                    value = await asyncio.to_thread(open_secret, self.keys, sealed)
            except HostError as error:
                if may_retry and may_have_rotated(error):
                    continue
                raise
            return OpenedSecret(value, sealed.scope, sealed.version.owner)
        return None

    async def require(self, tenant: str, person: str | None, manifest: Manifest, operation: str | None) -> None:
        """Reject a call to an operation if some of its required secrets are missing. Nothing is decrypted.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        required = required_secrets(manifest, operation)
        if not required:
            return
        existing = await self.database.read(lambda tx: existing_secrets(tx, tenant, person, required))
        missing = missing_names(required, existing)
        if missing:
            raise missing_secrets_error(manifest, operation or "", missing, tenant=tenant, person=person)
