"""Keeping secrets: set, removed and rotated by a command or a daemon alike. No value ever comes back out of here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread
from paddock.secrets import rotation
from paddock.secrets.keys import Keys
from paddock.secrets.rotation import Rotated
from paddock.secrets.rows import (
    REPLACED,
    Listed,
    checked_name,
    key_in_use,
    keys_out_of_use,
    remove_secret,
    secrets,
)
from paddock.secrets.vault import keep_secret


class Kept(NamedTuple):
    """A secret after a change, and the store's log where that still holds what it was before."""

    secret: Listed
    log: Path | None


def keep(store: PluginStore, keys: Keys, name: str, owner: str, value: Secret) -> Kept:
    """Give a secret a new version, in the name of whoever uses the store. Blocks; raises as `keep_secret` does."""
    kept = keep_secret(store.database, keys, store.random, store.change, checked_name(name), owner, value)
    return Kept(kept, store.database.empty_log() if kept.version > 1 else None)


def erase(store: PluginStore, name: str, owner: str) -> Kept:
    """Erase a secret, with the key of its own that it was sealed under. Blocks.

    Raises:
        NotFound: there is none.
    """
    gone = store.database.write(lambda tx: remove_secret(store.change(tx), name, owner))
    return Kept(gone, store.database.empty_log())


@dataclass(frozen=True, slots=True)
class SealState:
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


def seal_state(store: PluginStore, keys: Keys) -> SealState:
    """How it is with the key of this home. Blocks."""
    in_use, before = store.database.read(lambda tx: (key_in_use(tx), keys_out_of_use(tx, REPLACED)))
    if in_use is None:
        return SealState()
    try:
        place, trouble = keys.place_of(in_use), None
    except PaddockError as error:
        place, trouble = in_use.source, error
    return SealState(in_use.id, place, len(before), trouble)


class SecretKeeping:
    """Secrets of every tenant, for a host that goes on running.

    Args:
        store: Runs what blocks.
        keys: Seals them.
        changed: Has plugins whose configuration refers to a secret told of another one.
    """

    def __init__(self, store: StoreThread, keys: Keys, changed: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._keys = keys
        self._changed = changed

    async def listed(self, tenant: Tenant, owner: str | None = None) -> list[Listed]:
        """A tenant's secrets by name; only one person's, or with an empty owner only the tenant's own."""
        return await self._store.run(lambda store: store.database.read(lambda tx: secrets(tx, tenant, owner)))

    async def keep(self, tenant: Tenant, name: str, owner: str, value: Secret, by: PrincipalId) -> Listed:
        """Set a secret; raises as `keep` does."""
        kept = await self._store.run(lambda store: keep(store, self._keys, name, owner, value), tenant, by=by)
        if not owner:
            await self._changed()
        return kept.secret

    async def erase(self, tenant: Tenant, name: str, owner: str, by: PrincipalId) -> Listed:
        """Erase a secret; raises as `erase` does."""
        return (await self._store.run(lambda store: erase(store, name, owner), tenant, by=by)).secret

    async def seal(self) -> SealState:
        """How it is with the key of this home."""
        return await self._store.run(lambda store: seal_state(store, self._keys))

    async def rotate(self, by: PrincipalId) -> Rotated | None:
        """Put the secrets of all tenants under a new key; see `rotation.rotate`. None where there is no secret yet."""

        def work(store: PluginStore) -> Rotated | None:
            return rotation.rotate(store.database, self._keys, store.random, store.change)

        return await self._store.run(work, DEFAULT_TENANT, by=by)
