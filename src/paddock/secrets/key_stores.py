"""Stores of wrapping keys: a systemd credential, a keyring, a private file, or a passphrase.

None of them is in the database or its directory, so that a copy of those alone decrypts nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from paddock.core.clock import Random
from paddock.core.errors import OperatorError, PaddockError
from paddock.core.secret import Secret
from paddock.secrets.envelope import KEY_BYTES, KEY_ID, WrappingKey
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, create_private_file, sync_directory

CREDENTIAL_NAME = "paddock-kek"
_MAX_KEY_FILE_BYTES = 4_096
_SALT_BYTES = 16
_KEYRING_SERVICE = "paddock"
_MIN_KEYRING_PRIORITY = 1  # as the package keyring recommends


class WrappingKeyRecord(Struct, frozen=True):
    """The database's record of a wrapping key: enough to find it, but nothing to decrypt with."""

    id: str
    source: str
    salt: bytes | None = None


class NewWrappingKey(Struct, frozen=True):
    """A new wrapping key, and its record."""

    key: WrappingKey
    record: WrappingKeyRecord


class KeyStore(Protocol):
    """One kind of store for wrapping keys. All methods may block."""

    @property
    def name(self) -> str: ...

    def find(self, record: WrappingKeyRecord) -> WrappingKey | None:
        """Return the key of this record; None if it is not stored here.

        Raises:
            OperatorError: `secret.key`, it is stored here but unusable.
        """
        ...

    def generate(self) -> NewWrappingKey | None:
        """Generate a key without storing it; None if no key can be stored here.

        Raises:
            OperatorError: `secret.key`, what is stored here is unusable.
        """
        ...

    def save(self, new_key: NewWrappingKey) -> None:
        """Store a generated key durably.

        Raises:
            OperatorError: `secret.key`, it cannot be stored.
        """
        ...

    def destroy(self, record: WrappingKeyRecord) -> None:
        """Destroy the key, as far as this store can.

        Raises:
            OperatorError: `secret.key`, it may still exist.
        """
        ...


class SystemdCredentialStore(Struct, frozen=True):
    """Keys from systemd credentials: `paddock-kek`, and others with that prefix during a rotation."""

    folder: Path | None
    name: str = "credential"

    def find(self, record: WrappingKeyRecord) -> WrappingKey | None:
        files = sorted(self.folder.glob(f"{CREDENTIAL_NAME}*")) if self.folder is not None else []
        return next((key for file in files if (key := _read_key(file)).id == record.id), None)

    def generate(self) -> NewWrappingKey | None:
        file = self.folder / CREDENTIAL_NAME if self.folder is not None else None
        if file is None or not file.exists():
            return None
        key = _read_key(file)
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name))

    def save(self, new_key: NewWrappingKey) -> None:
        """Do nothing: systemd provides the key."""

    def destroy(self, record: WrappingKeyRecord) -> None:
        """Do nothing: the administrator removes the credential."""


class KeyringStore(Struct, frozen=True):
    """Keys in the keyring of the logged-in user, through the optional package of that name."""

    random: Random
    name: str = "keyring"

    def find(self, record: WrappingKeyRecord) -> WrappingKey | None:
        text = _call_keyring("get_password", record.id) if _keyring_priority() is not None else None
        return _decode_key(str(text).encode(), "the keyring's entry") if text else None

    def generate(self) -> NewWrappingKey | None:
        # Backends with a lower priority write to a plain file; our own key file is no worse than that.
        if (_keyring_priority() or 0) < _MIN_KEYRING_PRIORITY:
            return None
        key = WrappingKey(self.random.bytes(KEY_BYTES))
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name))

    def save(self, new_key: NewWrappingKey) -> None:
        _call_keyring("set_password", new_key.key.id, new_key.key.raw.hex())

    def destroy(self, record: WrappingKeyRecord) -> None:
        if _keyring_priority() is None:
            raise _unusable_key_error("the keyring", "it is not here", "pip install 'paddock[keyring]'")
        if _call_keyring("get_password", record.id):
            _call_keyring("delete_password", record.id)


class KeyFileStore(Struct, frozen=True):
    """Keys in files that only their owner can read; created when first needed."""

    folder: Path
    random: Random
    name: str = "file"

    def find(self, record: WrappingKeyRecord) -> WrappingKey | None:
        file = self._key_path(record.id)
        return _read_key(file, private=True) if file is not None and file.exists() else None

    def generate(self) -> NewWrappingKey | None:
        key = WrappingKey(self.random.bytes(KEY_BYTES))
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name))

    def save(self, new_key: NewWrappingKey) -> None:
        file = self.folder / f"{new_key.key.id}.key"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_private_file(file, new_key.key.raw.hex().encode() + b"\n")
            sync_directory(self.folder)
        except OSError as error:
            if error.errno in OUT_OF_SPACE_ERRNOS:
                raise
            raise _unusable_key_error(str(file), error.strerror or "it cannot be written") from error

    def destroy(self, record: WrappingKeyRecord) -> None:
        file = self._key_path(record.id)
        try:
            if file is not None and file.exists():
                file.unlink()
                sync_directory(self.folder)
        except OSError as error:
            raise _unusable_key_error(str(file), error.strerror or "it cannot be removed") from error

    def _key_path(self, key_id: str) -> Path | None:
        """Return the file of a key; None for an invalid id: the database must not be able to name arbitrary files."""
        return self.folder / f"{key_id}.key" if KEY_ID.fullmatch(key_id) else None


class PassphraseStore(Struct, frozen=True):
    """Keys derived from a passphrase; only the salt is stored.

    Args:
        random: Generates salts.
        ask: Returns the passphrase of existing keys; None if nobody can be asked.
        ask_new: Returns the passphrase for a new key; None for the same.
    """

    random: Random
    ask: Callable[[], Secret] | None
    ask_new: Callable[[], Secret] | None = None
    name: str = "passphrase"

    def find(self, record: WrappingKeyRecord) -> WrappingKey | None:
        if record.salt is None or self.ask is None:
            return None
        key = _derive_key(self.ask(), record.salt)
        if key.id != record.id:
            raise OperatorError(
                "the passphrase is not the one that secrets are sealed under",
                code="secret.key",
                hint="type it again, or correct the file of secrets.passphrase_file; no other passphrase opens them",
            )
        return key

    def generate(self) -> NewWrappingKey | None:
        ask = self.ask_new or self.ask
        if ask is None:
            return None
        salt = self.random.bytes(_SALT_BYTES)
        key = _derive_key(ask(), salt)
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name, salt))

    def save(self, new_key: NewWrappingKey) -> None:
        """Do nothing: the key is derived from the passphrase."""

    def destroy(self, record: WrappingKeyRecord) -> None:
        """Do nothing. The passphrase decrypts old copies of the database for as long as it is remembered."""


def _derive_key(passphrase: Secret, salt: bytes) -> WrappingKey:
    raw = hashlib.scrypt(
        passphrase.reveal().encode(), salt=salt, n=1 << 16, r=8, p=1, maxmem=128 << 20, dklen=KEY_BYTES
    )
    return WrappingKey(raw)


def _read_key(file: Path, *, private: bool = False) -> WrappingKey:
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if private and stat.S_IMODE(mode) & 0o077:
                raise _unusable_key_error(str(file), "others can read it", f"chmod 600 {file}")
            content = opened.read(_MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise _unusable_key_error(str(file), error.strerror or "it cannot be read") from error
    return _decode_key(content, str(file))


def _decode_key(content: bytes, source: str) -> WrappingKey:
    """Decode a key from 32 raw bytes, hexadecimal or base64."""
    if len(content) == KEY_BYTES:
        return WrappingKey(content)
    text = content.strip()
    for decode in (bytes.fromhex, _decode_base64):
        try:
            raw = decode(text.decode("ascii"))
        except ValueError:
            continue
        if len(raw) == KEY_BYTES:
            return WrappingKey(raw)
    raise _unusable_key_error(source, f"it is no key of {KEY_BYTES} bytes", "make one: openssl rand -hex 32")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _keyring_priority() -> float | None:
    """Return the priority of the keyring backend: 1 and more is reliable. None if there is no backend."""
    try:
        priority = float(import_module("keyring").get_keyring().priority)
    except Exception:
        return None
    return priority if priority > 0 else None


def _call_keyring(method: str, name: str, *arguments: str) -> Any:
    try:
        return getattr(import_module("keyring"), method)(_KEYRING_SERVICE, name, *arguments)
    except Exception as error:
        # Without its message and cause: they may contain the secret.
        reason = f"it answered {type(error).__name__}"
        raise _unusable_key_error("the keyring", reason, "unlock it: it belongs to the logged-in user") from None


def _unusable_key_error(source: str, reason: str, hint: str = "") -> PaddockError:
    return OperatorError(f"the key for secrets in {source} cannot be used: {reason}", code="secret.key", hint=hint)
