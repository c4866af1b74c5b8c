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
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from paddock.core.clock import Random
from paddock.core.errors import OperatorError, PaddockError
from paddock.core.secret import Secret
from paddock.secrets.envelope import KEY_BYTES, WrappingKey
from paddock.store.durable import sync_directory
from paddock.store.space import OUT_OF_SPACE

CREDENTIAL = "paddock-kek"
_LONGEST = 4_096
_SALT_BYTES = 16
_SERVICE = "paddock"


@dataclass(frozen=True, slots=True)
class KeyNote:
    """What the database says of a key: enough to find it, and nothing to open anything with."""

    id: str
    source: str
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A key that secrets can be sealed under from now on, and what to note of it."""

    key: WrappingKey
    note: KeyNote


class Source(Protocol):
    """One kind of place for keys. All of it may block."""

    @property
    def name(self) -> str: ...

    def find(self, note: KeyNote) -> WrappingKey | None:
        """The key of this id; None where it is not kept here.

        Raises:
            OperatorError: `secret.key`, when what is there cannot be used.
        """
        ...

    def make(self) -> Made | None:
        """A key to seal under from now on; None where nothing can be kept here."""
        ...

    def destroy(self, note: KeyNote) -> None:
        """Have the key nowhere any more, as far as that is ours to do."""
        ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that systemd hands to a service: `paddock-kek`, and others that begin so while one replaces another."""

    folder: Path | None
    name: str = "credential"

    def find(self, note: KeyNote) -> WrappingKey | None:
        files = sorted(self.folder.glob(f"{CREDENTIAL}*")) if self.folder is not None else []
        return next((key for file in files if (key := _read_key(file)).id == note.id), None)

    def make(self) -> Made | None:
        file = self.folder / CREDENTIAL if self.folder is not None else None
        if file is None or not file.exists():
            return None
        key = _read_key(file)
        return Made(key, KeyNote(key.id, self.name))

    def destroy(self, note: KeyNote) -> None:
        """Nothing: whoever gave the credential takes it away."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """Keys in the keyring of whoever is logged in, through the optional package of that name."""

    random: Random
    name: str = "keyring"

    def find(self, note: KeyNote) -> WrappingKey | None:
        keyring = _keyring()
        text = keyring.get_password(_SERVICE, note.id) if keyring is not None else None
        return _decoded(str(text).encode(), "the keyring's entry") if text else None

    def make(self) -> Made | None:
        keyring = _keyring()
        if keyring is None:
            return None
        key = WrappingKey(self.random.bytes(KEY_BYTES))
        try:
            keyring.set_password(_SERVICE, key.id, key.raw.hex())
        except Exception:
            return None
        return Made(key, KeyNote(key.id, self.name))

    def destroy(self, note: KeyNote) -> None:
        keyring = _keyring()
        if keyring is not None and keyring.get_password(_SERVICE, note.id):
            keyring.delete_password(_SERVICE, note.id)


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Keys in files of their own, which nobody but their owner can read; made when first needed."""

    folder: Path
    random: Random
    name: str = "file"

    def find(self, note: KeyNote) -> WrappingKey | None:
        file = self._file(note.id)
        return _read_key(file, private=True) if file.exists() else None

    def make(self) -> Made | None:
        key = WrappingKey(self.random.bytes(KEY_BYTES))
        file = self._file(key.id)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
                opened.write(key.raw.hex().encode() + b"\n")
                opened.flush()
                os.fsync(opened.fileno())
            sync_directory(self.folder)
        except OSError as error:
            if error.errno in OUT_OF_SPACE:
                raise
            raise _unusable(str(file), error.strerror or "it cannot be written") from error
        return Made(key, KeyNote(key.id, self.name))

    def destroy(self, note: KeyNote) -> None:
        file = self._file(note.id)
        if file.exists():
            file.unlink()
            sync_directory(self.folder)

    def _file(self, key_id: str) -> Path:
        return self.folder / f"{key_id}.key"


@dataclass(frozen=True, slots=True)
class Passphrase:
    """Keys that are made from what somebody knows; only the salt is noted.

    Args:
        random: Gives salts.
        known: The passphrase that keys were made from; None where nobody can be asked.
        new: The one to make another key from; None for the same.
    """

    random: Random
    known: Callable[[], Secret] | None
    new: Callable[[], Secret] | None = None
    name: str = "passphrase"
    _made: dict[bytes, WrappingKey] = field(default_factory=dict[bytes, WrappingKey], repr=False)

    def find(self, note: KeyNote) -> WrappingKey | None:
        if note.salt is None or self.known is None:
            return None
        if note.salt not in self._made:
            key = _stretched(self.known(), note.salt)
            if key.id != note.id:
                raise OperatorError("the passphrase is not the one that secrets are sealed under", code="secret.key")
            self._made[note.salt] = key
        return self._made[note.salt]

    def make(self) -> Made | None:
        ask = self.new or self.known
        if ask is None:
            return None
        salt = self.random.bytes(_SALT_BYTES)
        key = _stretched(ask(), salt)
        self._made[salt] = key
        return Made(key, KeyNote(key.id, self.name, salt))

    def destroy(self, note: KeyNote) -> None:
        """Nothing is kept. A passphrase opens the old rows in old copies for as long as somebody remembers it."""


def _stretched(passphrase: Secret, salt: bytes) -> WrappingKey:
    raw = hashlib.scrypt(
        passphrase.reveal().encode(), salt=salt, n=1 << 16, r=8, p=1, maxmem=128 << 20, dklen=KEY_BYTES
    )
    return WrappingKey(raw)


def _read_key(file: Path, *, private: bool = False) -> WrappingKey:
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if private and stat.S_IMODE(mode) & 0o077:
                raise _unusable(str(file), "others can read it", f"chmod 600 {file}")
            content = opened.read(_LONGEST)
    except OSError as error:
        raise _unusable(str(file), error.strerror or "it cannot be read") from error
    return _decoded(content, str(file))


def _decoded(content: bytes, where: str) -> WrappingKey:
    """A key as 32 bytes, as hexadecimal or as base64."""
    if len(content) == KEY_BYTES:
        return WrappingKey(content)
    text = content.strip()
    for decode in (bytes.fromhex, _base64):
        try:
            raw = decode(text.decode("ascii"))
        except ValueError:
            continue
        if len(raw) == KEY_BYTES:
            return WrappingKey(raw)
    raise _unusable(where, f"it is no key of {KEY_BYTES} bytes", "make one: openssl rand -hex 32")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _keyring() -> Any:
    """The keyring package with a backend that works; None where there is none."""
    try:
        keyring = import_module("keyring")
        return keyring if keyring.get_keyring().priority > 0 else None
    except Exception:
        return None


def _unusable(where: str, reason: str, hint: str = "") -> PaddockError:
    return OperatorError(f"the key for secrets in {where} cannot be used: {reason}", code="secret.key", hint=hint)
