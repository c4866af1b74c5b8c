"""Where the keys that wrap data keys are kept: by systemd, in a keyring, in a private file, or in somebody's head.

None of them is in the database or the directory around it, so that a copy of those alone opens nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from paddock.core.clock import Random
from paddock.core.errors import OperatorError, PaddockError
from paddock.core.secret import Secret
from paddock.secrets.envelope import KEY_BYTES, KEY_ID, WrappingKey
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, sync_directory

CREDENTIAL_NAME = "paddock-kek"
_MAX_KEY_FILE_BYTES = 4_096
_SALT_BYTES = 16
_KEYRING_SERVICE = "paddock"
_MIN_KEYRING_PRIORITY = 1  # what the package keyring recommends


@dataclass(frozen=True, slots=True)
class WrappingKeyRecord:
    """What the database says of a key: enough to find it, and nothing to open anything with."""

    id: str
    source: str
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewWrappingKey:
    """A key that secrets can be sealed under from now on, and what to note of it."""

    key: WrappingKey
    note: WrappingKeyRecord


class KeyStore(Protocol):
    """One kind of place for keys. All of it may block."""

    @property
    def name(self) -> str: ...

    def find(self, note: WrappingKeyRecord) -> WrappingKey | None:
        """The key of this id; None where it is not kept here.

        Raises:
            OperatorError: `secret.key`, when what is there cannot be used.
        """
        ...

    def generate(self) -> NewWrappingKey | None:
        """A key to seal under from now on, which is kept nowhere yet; None where nothing can be kept here.

        Raises:
            OperatorError: `secret.key`, when what is there cannot be used.
        """
        ...

    def save(self, made: NewWrappingKey) -> None:
        """Keep it, so that it is found from now on.

        Raises:
            OperatorError: `secret.key`, when it cannot be kept.
        """
        ...

    def destroy(self, note: WrappingKeyRecord) -> None:
        """Have the key nowhere any more, as far as that is ours to do.

        Raises:
            OperatorError: `secret.key`, when it may still be there.
        """
        ...


@dataclass(frozen=True, slots=True)
class SystemdCredentialStore:
    """Keys that systemd hands to a service: `paddock-kek`, and others that begin so while one replaces another."""

    folder: Path | None
    name: str = "credential"

    def find(self, note: WrappingKeyRecord) -> WrappingKey | None:
        files = sorted(self.folder.glob(f"{CREDENTIAL_NAME}*")) if self.folder is not None else []
        return next((key for file in files if (key := _read_key(file)).id == note.id), None)

    def generate(self) -> NewWrappingKey | None:
        file = self.folder / CREDENTIAL_NAME if self.folder is not None else None
        if file is None or not file.exists():
            return None
        key = _read_key(file)
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name))

    def save(self, made: NewWrappingKey) -> None:
        """Nothing: it was given."""

    def destroy(self, note: WrappingKeyRecord) -> None:
        """Nothing: whoever gave the credential takes it away."""


@dataclass(frozen=True, slots=True)
class KeyringStore:
    """Keys in the keyring of whoever is logged in, through the optional package of that name."""

    random: Random
    name: str = "keyring"

    def find(self, note: WrappingKeyRecord) -> WrappingKey | None:
        text = _call_keyring("get_password", note.id) if _keyring_priority() is not None else None
        return _decode_key(str(text).encode(), "the keyring's entry") if text else None

    def generate(self) -> NewWrappingKey | None:
        # Those that write what they are given into a plain file have less; a file of our own is no worse than that.
        if (_keyring_priority() or 0) < _MIN_KEYRING_PRIORITY:
            return None
        key = WrappingKey(self.random.bytes(KEY_BYTES))
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name))

    def save(self, made: NewWrappingKey) -> None:
        _call_keyring("set_password", made.key.id, made.key.raw.hex())

    def destroy(self, note: WrappingKeyRecord) -> None:
        if _keyring_priority() is None:
            raise _unusable_key_error("the keyring", "it is not here", "pip install 'paddock[keyring]'")
        if _call_keyring("get_password", note.id):
            _call_keyring("delete_password", note.id)


@dataclass(frozen=True, slots=True)
class KeyFileStore:
    """Keys in files of their own, which nobody but their owner can read; made when first needed."""

    folder: Path
    random: Random
    name: str = "file"

    def find(self, note: WrappingKeyRecord) -> WrappingKey | None:
        file = self._key_path(note.id)
        return _read_key(file, private=True) if file is not None and file.exists() else None

    def generate(self) -> NewWrappingKey | None:
        key = WrappingKey(self.random.bytes(KEY_BYTES))
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name))

    def save(self, made: NewWrappingKey) -> None:
        file = self.folder / f"{made.key.id}.key"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
                opened.write(made.key.raw.hex().encode() + b"\n")
                opened.flush()
                os.fsync(opened.fileno())
            sync_directory(self.folder)
        except OSError as error:
            if error.errno in OUT_OF_SPACE_ERRNOS:
                raise
            raise _unusable_key_error(str(file), error.strerror or "it cannot be written") from error

    def destroy(self, note: WrappingKeyRecord) -> None:
        file = self._key_path(note.id)
        try:
            if file is not None and file.exists():
                file.unlink()
                sync_directory(self.folder)
        except OSError as error:
            raise _unusable_key_error(str(file), error.strerror or "it cannot be removed") from error

    def _key_path(self, key_id: str) -> Path | None:
        """The file of a key; None where no key has that id: whoever writes to the database names no file of ours."""
        return self.folder / f"{key_id}.key" if KEY_ID.fullmatch(key_id) else None


@dataclass(frozen=True, slots=True)
class PassphraseStore:
    """Keys that are made from what somebody knows; only the salt is noted.

    Args:
        random: Gives salts.
        known: The passphrase that keys were made from; None where nobody can be asked.
        new_phrase: The one to make another key from; None for the same.
    """

    random: Random
    ask: Callable[[], Secret] | None
    ask_new: Callable[[], Secret] | None = None
    name: str = "passphrase"

    def find(self, note: WrappingKeyRecord) -> WrappingKey | None:
        if note.salt is None or self.ask is None:
            return None
        key = _derive_key(self.ask(), note.salt)
        if key.id != note.id:
            raise OperatorError(
                "the passphrase is not the one that secrets are sealed under",
                code="secret.key",
                hint="type it once more, or mend what secrets.passphrase_file holds; no other opens them",
            )
        return key

    def generate(self) -> NewWrappingKey | None:
        ask = self.ask_new or self.ask
        if ask is None:
            return None
        salt = self.random.bytes(_SALT_BYTES)
        key = _derive_key(ask(), salt)
        return NewWrappingKey(key, WrappingKeyRecord(key.id, self.name, salt))

    def save(self, made: NewWrappingKey) -> None:
        """Nothing: somebody knows it."""

    def destroy(self, note: WrappingKeyRecord) -> None:
        """Nothing is kept. A passphrase opens the old rows in old copies for as long as somebody remembers it."""


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


def _decode_key(content: bytes, where: str) -> WrappingKey:
    """A key as 32 bytes, as hexadecimal or as base64."""
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
    raise _unusable_key_error(where, f"it is no key of {KEY_BYTES} bytes", "make one: openssl rand -hex 32")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _keyring_priority() -> float | None:
    """How good the keyring here thinks it is: 1 and more is one to rely on. None where there is none."""
    try:
        priority = float(import_module("keyring").get_keyring().priority)
    except Exception:
        return None
    return priority if priority > 0 else None


def _call_keyring(method: str, name: str, *more: str) -> Any:
    try:
        return getattr(import_module("keyring"), method)(_KEYRING_SERVICE, name, *more)
    except Exception as error:
        # Its words are left out, and where it came from: they may hold what it was given.
        reason = f"it answered {type(error).__name__}"
        raise _unusable_key_error("the keyring", reason, "unlock it: it is that of whoever is logged in") from None


def _unusable_key_error(where: str, reason: str, hint: str = "") -> PaddockError:
    return OperatorError(f"the key for secrets in {where} cannot be used: {reason}", code="secret.key", hint=hint)
