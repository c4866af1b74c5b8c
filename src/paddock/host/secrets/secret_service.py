"""Sets, erases and rotates secrets, for commands and daemons alike. No value is ever returned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

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
    require_secret,
    validate_secret_name,
)
from paddock.secrets.wrapping_keys import WrappingKeys


class SecretChange(NamedTuple):
    """A secret after a change, and the store's write-ahead log if that still contains the previous value."""

    secret: SecretInfo
    log: Path | None


def store_secret(store: PluginStore, keys: WrappingKeys, name: str, owner: str, value: Secret) -> SecretChange:
    """Store a new version of a secret, on behalf of the store's principal. Blocking; raises as `vault.store_secret`."""
    stored = vault.store_secret(
        store.database, keys, store.random, store.audited_change, validate_secret_name(name), owner, value
    )
    return SecretChange(stored, store.database.truncate_log() if stored.version > 1 else None)


def erase_secret(store: PluginStore, name: str, owner: str) -> SecretChange:
    """Erase a secret together with its data key. Blocking.

    Raises:
        NotFound: there is none.
    """
    erased = store.database.write(lambda tx: remove_secret(store.audited_change(tx), name, owner))
    return SecretChange(erased, store.database.truncate_log())


class WrappingKeyStatus(Struct, frozen=True):
    """The status of the wrapping key that secrets are sealed under.

    Attributes:
        key_id: Its id; empty if there is none yet.
        place: Where it is stored: file, keyring, credential or passphrase.
        replaced: Number of older keys still stored, because a rotation did not finish.
        trouble: Why it is unavailable; None if it is available.
    """

    key_id: str = ""
    place: str = ""
    replaced: int = 0
    trouble: PaddockError | None = None


def read_wrapping_key_status(store: PluginStore, keys: WrappingKeys) -> WrappingKeyStatus:
    """Return the status of this home's wrapping key. Blocking."""
    active, replaced = store.database.read(lambda tx: (active_key(tx), inactive_keys(tx, KEY_REPLACED)))
    if active is None:
        return WrappingKeyStatus()
    try:
        place, trouble = keys.store_of(active), None
    except PaddockError as error:
        place, trouble = active.source, error
    return WrappingKeyStatus(active.id, place, len(replaced), trouble)


class SecretService:
    """Manages the secrets of every tenant in a running host.

    Args:
        store: Runs blocking work.
        keys: Seal secrets.
        on_change: Applies new and erased values to plugins whose configuration refers to a secret.
    """

    def __init__(self, store: StoreThread, keys: WrappingKeys, on_change: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._keys = keys
        self._on_change = on_change

    async def list_secrets(self, tenant: Tenant, owner: str | None = None) -> list[SecretInfo]:
        """List a tenant's secrets by name; only one person's, or, with an empty owner, only the tenant's own."""
        return await self._store.run(lambda store: store.database.read(lambda tx: list_secrets(tx, tenant, owner)))

    async def find(self, tenant: Tenant, name: str, owner: str) -> SecretInfo:
        """Return the metadata of a secret; raises NotFound."""
        return await self._store.run(
            lambda store: store.database.read(lambda tx: require_secret(tx, tenant, name, owner))
        )

    async def set_secret(self, tenant: Tenant, name: str, owner: str, value: Secret, by: PrincipalId) -> SecretChange:
        """Set a secret; raises as `store_secret` does."""
        change = await self._store.run(lambda store: store_secret(store, self._keys, name, owner, value), tenant, by=by)
        if not owner:
            await self._on_change()
        return change

    async def erase(self, tenant: Tenant, name: str, owner: str, by: PrincipalId) -> SecretChange:
        """Erase a secret; raises as `erase_secret` does."""
        change = await self._store.run(lambda store: erase_secret(store, name, owner), tenant, by=by)
        if not owner:
            await self._on_change()
        return change

    async def wrapping_key_status(self) -> WrappingKeyStatus:
        """Return the status of this home's wrapping key."""
        return await self._store.run(lambda store: read_wrapping_key_status(store, self._keys))

    async def rotate(self, by: PrincipalId, preferred: str | None = None) -> RotationResult | None:
        """Re-encrypt the secrets of all tenants under a new key; see `rotation.rotate`. None if there is no secret."""

        def run(store: PluginStore) -> RotationResult | None:
            return rotation.rotate(store.database, self._keys, store.random, store.audited_change, preferred=preferred)

        return await self._store.run(run, DEFAULT_TENANT, by=by)
