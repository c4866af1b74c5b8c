"""Keeping secrets: set, removed and rotated by a command or a daemon alike. No value ever comes back out of here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.secrets import rotation, vault
from paddock.secrets.rotation import RotationResult
from paddock.secrets.rows import (
    KEY_REPLACED,
    SecretInfo,
    active_key,
    inactive_keys,
    list_secrets,
    remove_secret,
    validate_secret_name,
)
from paddock.secrets.wrapping_keys import WrappingKeys


class SecretChange(NamedTuple):
    """A secret after a change, and the store's log where that still holds what it was before."""

    secret: SecretInfo
    log: Path | None


def store_secret(store: PluginStore, keys: WrappingKeys, name: str, owner: str, value: Secret) -> SecretChange:
    """Give a secret a new version, in the name of whoever uses the store. Blocks; raises as `keep_secret` does."""
    kept = vault.store_secret(
        store.database, keys, store.random, store.audited_change, validate_secret_name(name), owner, value
    )
    return SecretChange(kept, store.database.truncate_log() if kept.version > 1 else None)


def erase_secret(store: PluginStore, name: str, owner: str) -> SecretChange:
    """Erase a secret, with the key of its own that it was sealed under. Blocks.

    Raises:
        NotFound: there is none.
    """
    gone = store.database.write(lambda tx: remove_secret(store.audited_change(tx), name, owner))
    return SecretChange(gone, store.database.truncate_log())


@dataclass(frozen=True, slots=True)
class WrappingKeyStatus:
    """The key that secrets are sealed under.

    Attributes:
        key_id: Which; empty where there is none yet.
        place: Where it is kept: file, keyring, credential or passphrase.
        replaced: How many older ones are still kept, since a rotation came to no end.
        trouble: Why it cannot be used; None where it can.
    """

    key_id: str = ""
    place: str = ""
    replaced: int = 0
    trouble: PaddockError | None = None


def read_wrapping_key_status(store: PluginStore, keys: WrappingKeys) -> WrappingKeyStatus:
    """How it is with the key of this home. Blocks."""
    in_use, before = store.database.read(lambda tx: (active_key(tx), inactive_keys(tx, KEY_REPLACED)))
    if in_use is None:
        return WrappingKeyStatus()
    try:
        place, trouble = keys.store_of(in_use), None
    except PaddockError as error:
        place, trouble = in_use.source, error
    return WrappingKeyStatus(in_use.id, place, len(before), trouble)


class SecretService:
    """Secrets of every tenant, for a host that goes on running.

    Args:
        store: Runs what blocks.
        keys: Seals them.
        changed: Has plugins whose configuration refers to a secret told of another one.
    """

    def __init__(self, store: StoreThread, keys: WrappingKeys, changed: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._keys = keys
        self._changed = changed

    async def list_secrets(self, tenant: Tenant, owner: str | None = None) -> list[SecretInfo]:
        """A tenant's secrets by name; only one person's, or with an empty owner only the tenant's own."""
        return await self._store.run(lambda store: store.database.read(lambda tx: list_secrets(tx, tenant, owner)))

    async def set_secret(self, tenant: Tenant, name: str, owner: str, value: Secret, by: PrincipalId) -> SecretInfo:
        """Set a secret; raises as `keep` does."""
        kept = await self._store.run(lambda store: store_secret(store, self._keys, name, owner, value), tenant, by=by)
        if not owner:
            await self._changed()
        return kept.secret

    async def erase(self, tenant: Tenant, name: str, owner: str, by: PrincipalId) -> SecretInfo:
        """Erase a secret; raises as `erase` does."""
        return (await self._store.run(lambda store: erase_secret(store, name, owner), tenant, by=by)).secret

    async def wrapping_key_status(self) -> WrappingKeyStatus:
        """How it is with the key of this home."""
        return await self._store.run(lambda store: read_wrapping_key_status(store, self._keys))

    async def rotate(self, by: PrincipalId) -> RotationResult | None:
        """Put the secrets of all tenants under a new key; see `rotation.rotate`. None where there is no secret yet."""

        def work(store: PluginStore) -> RotationResult | None:
            return rotation.rotate(store.database, self._keys, store.random, store.audited_change)

        return await self._store.run(work, DEFAULT_TENANT, by=by)
