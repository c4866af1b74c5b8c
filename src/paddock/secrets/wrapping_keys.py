"""The wrapping keys available to this process, from all stores, and the choice of the store for a new one."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Callable, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paddock.core.clock import Random
from paddock.core.errors import HostError, OperatorError
from paddock.core.secret import Secret
from paddock.secrets.envelope import WrappingKey
from paddock.secrets.key_stores import (
    KeyFileStore,
    KeyringStore,
    KeyStore,
    NewWrappingKey,
    PassphraseStore,
    SystemdCredentialStore,
    WrappingKeyRecord,
)

AUTO = "auto"
AUTO_STORES = ("credential", "keyring", "file")
_MAX_PASSPHRASE_BYTES = 4_096


class _CachedKey(NamedTuple):
    """A key, and the name of the store where it was found."""

    key: WrappingKey
    store: str


class PassphrasePrompts(NamedTuple):
    """Ask a person for the passphrase of existing keys, and for that of a new key. Called on any thread."""

    ask: Callable[[], Secret]
    ask_new: Callable[[], Secret]


@dataclasses.dataclass(frozen=True, slots=True)
class WrappingKeys:
    """Wrapping keys by id. A key that was found is cached until its record is deleted.

    Args:
        stores: All key stores, by name.
        preferred: The store for a new key; `auto` for the first of `AUTO_STORES` that accepts it.
    """

    stores: Mapping[str, KeyStore]
    preferred: str = AUTO
    _cached: dict[str, _CachedKey] = dataclasses.field(default_factory=dict[str, _CachedKey], repr=False)

    def is_cached(self, record: WrappingKeyRecord) -> bool:
        """Return whether the key is cached, so that finding it does not block."""
        return record.id in self._cached

    def find(self, record: WrappingKeyRecord) -> WrappingKey:
        """Return the key of this record. May block.

        Raises:
            HostError: `secret.key_missing`, it is in no store.
            OperatorError: `secret.key`, it was found and is unusable.
        """
        return self._find(record).key

    def store_of(self, record: WrappingKeyRecord) -> str:
        """Return the name of the store that has the key now. Blocks and raises as `find` does."""
        return self._find(record).store

    def _find(self, record: WrappingKeyRecord) -> _CachedKey:
        if (cached := self._cached.get(record.id)) is not None:
            return cached
        store = self.stores.get(record.source)
        key, store_name = store.find(record) if store is not None else None, record.source
        if key is None:
            # It may have been moved: a file's content can be a credential by now.
            key, store_name = next(self._search_other_stores(record), (None, ""))
        if key is None or key.id != record.id:
            raise HostError(
                f"the key {record.id} that secrets are sealed under is not here; it was made as a {record.source}",
                code="secret.key_missing",
                hint=_recovery_hint(record, self.stores.get("file")),
            )
        self._cached[record.id] = found = _CachedKey(key, store_name)
        return found

    def _search_other_stores(self, record: WrappingKeyRecord) -> Generator[_CachedKey, None, None]:
        for name, store in self.stores.items():
            if name not in (record.source, "passphrase"):
                with suppress(OperatorError):  # an error of an unrelated store says less than "missing"
                    if (key := store.find(record)) is not None:
                        yield _CachedKey(key, name)

    def create(self, register: Callable[[WrappingKeyRecord], None], store_name: str | None = None) -> NewWrappingKey:
        """Create and store a new key.

        Args:
            register: Registers the key before it is stored anywhere: a crash never leaves an unregistered key.
            store_name: The store, if not the preferred one.

        Raises:
            OperatorError: `secret.key`, no key can be stored there.
        """
        requested = store_name or self.preferred
        candidates = AUTO_STORES if requested == AUTO else (requested,)
        for name in candidates:
            new_key = self.stores[name].generate() if name in self.stores else None
            if new_key is None:
                continue
            register(new_key.record)
            try:
                self.stores[name].save(new_key)
            except OperatorError:
                if name == candidates[-1]:
                    raise
                continue
            self._cached[new_key.key.id] = _CachedKey(new_key.key, name)
            return new_key
        raise OperatorError(
            f"no key for secrets can be kept as {requested}", code="secret.key", hint=_STORE_HINTS.get(requested, "")
        )

    def destroy(self, record: WrappingKeyRecord) -> None:
        """Destroy the key, as far as its stores can.

        Raises:
            OperatorError: `secret.key`, it may still exist.
        """
        cached = self._cached.pop(record.id, None)
        for store_name in {record.source, *([cached.store] if cached else [])}:
            if store_name in self.stores:
                self.stores[store_name].destroy(record)

    def forget_unlisted(self, registered_ids: AbstractSet[str]) -> None:
        """Drop cached keys without a record: they wrap nothing any more."""
        for key_id in self._cached.keys() - registered_ids:
            self._cached.pop(key_id, None)


_STORE_HINTS = {
    "credential": "give the service LoadCredentialEncrypted=paddock-kek:…",
    "keyring": "pip install 'paddock[keyring]', and have one that does not write keys into a plain file",
    "passphrase": "set secrets.passphrase_file; without a daemon, it can be typed at a terminal",
}


def build_wrapping_keys(
    environ: Mapping[str, str],
    state: Path,
    random: Random,
    *,
    preferred: str = AUTO,
    passphrase_file: str | None = None,
    ask: Callable[[], Secret] | None = None,
    ask_new: Callable[[], Secret] | None = None,
) -> WrappingKeys:
    """Build the wrapping keys of this home.

    Args:
        environ: Names systemd's credentials directory.
        state: The state directory of this home, which is not its data directory.
        random: For new keys and salts.
        preferred: The setting `secrets.key`.
        passphrase_file: The setting `secrets.passphrase_file`.
        ask: Asks a person for the passphrase, if the setting names no file.
        ask_new: Asks for a new passphrase.
    """
    folder = environ.get("CREDENTIALS_DIRECTORY", "")
    credentials = Path(folder) if folder else None
    read_passphrase = (lambda: _read_passphrase(Path(passphrase_file), credentials)) if passphrase_file else ask
    ask_cached = _ask_once(read_passphrase) if read_passphrase is not None else None
    stores: tuple[KeyStore, ...] = (
        SystemdCredentialStore(credentials),
        KeyringStore(random),
        KeyFileStore(state / "keys" / "secrets", random),
        PassphraseStore(random, ask_cached, ask_new),
    )
    return WrappingKeys({store.name: store for store in stores}, preferred)


def _ask_once(ask: Callable[[], Secret]) -> Callable[[], Secret]:
    """Cache the answer: a descriptor can be read only once, and nobody wants to type it twice."""
    answers: list[Secret] = []

    def answer() -> Secret:
        if not answers:
            answers.append(ask())
        return answers[0]

    return answer


def _read_passphrase(file: Path, credentials: Path | None) -> Secret:
    """Read the passphrase file. It must be private; a systemd credential is exempt: it uses ACLs, not the mode."""
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077 and file.parent != credentials:
                raise OperatorError(
                    f"the passphrase in {file} cannot be used: others can read it",
                    code="secret.key",
                    hint=f"chmod 600 {file}",
                )
            content = opened.read(_MAX_PASSPHRASE_BYTES + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        hint = "secrets.passphrase_file has to name a text file that the user of Paddock can read"
        raise OperatorError(
            f"the passphrase cannot be read from {file}: {reason}", code="secret.key", hint=hint
        ) from None
    if not text or len(content) > _MAX_PASSPHRASE_BYTES:
        raise OperatorError(f"{file} holds no passphrase", code="secret.key", hint="it is one line of text")
    return Secret(text)


def _recovery_hint(record: WrappingKeyRecord, file_store: KeyStore | None) -> str:
    match record.source:
        case "credential":
            return f"systemd gives it to the service alone: run this with CREDENTIALS_DIRECTORY that holds {record.id}"
        case "file":
            folder = file_store.folder if isinstance(file_store, KeyFileStore) else "keys/secrets among the state"
            return f"put {record.id}.key back into {folder}; nothing else opens what it sealed"
        case "passphrase":
            return "set secrets.passphrase_file; without a daemon, it can be typed at a terminal"
        case _:
            return "unlock the keyring, and pip install 'paddock[keyring]'"
