"""The keys that this process can get, from wherever each is kept, and the choice of where a new one goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
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
    """A key, and the place where it was found."""

    key: WrappingKey
    store: str


@dataclass(frozen=True, slots=True)
class WrappingKeys:
    """Keys by id. One that was found is remembered until it is noted no more.

    Args:
        sources: Every place where keys can be, by name.
        preferred: Where a new one goes; `auto` for the first of `AUTOMATIC` that takes it.
    """

    stores: Mapping[str, KeyStore]
    preferred: str = AUTO
    _cached: dict[str, _CachedKey] = field(default_factory=dict[str, _CachedKey], repr=False)

    def is_cached(self, note: WrappingKeyRecord) -> bool:
        """Whether the key was found before, so that finding it again does not block."""
        return note.id in self._cached

    def find(self, note: WrappingKeyRecord) -> WrappingKey:
        """The key of this id. May block.

        Raises:
            HostError: `secret.key_missing`, when it is nowhere.
            OperatorError: `secret.key`, when it is there and cannot be used.
        """
        return self._find(note).key

    def store_of(self, note: WrappingKeyRecord) -> str:
        """Where the key of this id is by now. Blocks and raises as `find` does."""
        return self._find(note).store

    def _find(self, note: WrappingKeyRecord) -> _CachedKey:
        if (known := self._cached.get(note.id)) is not None:
            return known
        source = self.stores.get(note.source)
        key, place = source.find(note) if source is not None else None, note.source
        if key is None:
            # It may have been moved: a file's content can be a credential by now.
            key, place = next(self._search_other_stores(note), (None, ""))
        if key is None or key.id != note.id:
            raise HostError(
                f"the key {note.id} that secrets are sealed under is not here; it was made as a {note.source}",
                code="secret.key_missing",
                hint=_recovery_hint(note, self.stores.get("file")),
            )
        self._cached[note.id] = found = _CachedKey(key, place)
        return found

    def _search_other_stores(self, note: WrappingKeyRecord) -> Generator[_CachedKey, None, None]:
        for name, source in self.stores.items():
            if name not in (note.source, "passphrase"):
                with suppress(OperatorError):  # it has no reason to be there: that it is missing says more
                    if (key := source.find(note)) is not None:
                        yield _CachedKey(key, name)

    def create(self, announce: Callable[[WrappingKeyRecord], None], place: str | None = None) -> NewWrappingKey:
        """A new key, kept where it was wished for.

        Args:
            announce: Notes the key before it is kept anywhere: whoever is killed leaves none that nobody knows of.
            place: Where it goes, if not where it is preferred.

        Raises:
            OperatorError: `secret.key`, when nothing can be kept there.
        """
        wished = place or self.preferred
        places = AUTO_STORES if wished == AUTO else (wished,)
        for name in places:
            made = self.stores[name].generate() if name in self.stores else None
            if made is None:
                continue
            announce(made.note)
            try:
                self.stores[name].save(made)
            except OperatorError:
                if name == places[-1]:
                    raise
                continue
            self._cached[made.key.id] = _CachedKey(made.key, name)
            return made
        raise OperatorError(
            f"no key for secrets can be kept as {wished}", code="secret.key", hint=_STORE_HINTS.get(wished, "")
        )

    def destroy(self, note: WrappingKeyRecord) -> None:
        """Have the key nowhere any more, as far as that is ours to do.

        Raises:
            OperatorError: `secret.key`, when it may still be there.
        """
        known = self._cached.pop(note.id, None)
        for place in {note.source, *([known.store] if known else [])}:
            if place in self.stores:
                self.stores[place].destroy(note)

    def forget_unlisted(self, noted: AbstractSet[str]) -> None:
        """Remember no key that is noted no more: nothing is wrapped with it, here or by anybody else."""
        for gone in self._cached.keys() - noted:
            self._cached.pop(gone, None)


_STORE_HINTS = {
    "credential": "give the service LoadCredentialEncrypted=paddock-kek:…",
    "keyring": "pip install 'paddock[keyring]', and have one that does not write keys into a plain file",
    "passphrase": "set secrets.passphrase_file, or type it at a terminal",
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
    """The keys of this home.

    Args:
        environ: Says where systemd put credentials.
        state: The directory of this home's state, which is not the one of its data.
        random: Chance.
        preferred: The setting `secrets.key`.
        passphrase_file: The setting `secrets.passphrase_file`.
        ask: Asks a person for the passphrase, where the setting names no file.
        ask_new: Asks for the one that is to take its place.
    """
    folder = environ.get("CREDENTIALS_DIRECTORY", "")
    given = Path(folder) if folder else None
    read = (lambda: _read_passphrase(Path(passphrase_file), given)) if passphrase_file else ask
    known = _ask_once(read) if read is not None else None
    sources: tuple[KeyStore, ...] = (
        SystemdCredentialStore(given),
        KeyringStore(random),
        KeyFileStore(state / "keys" / "secrets", random),
        PassphraseStore(random, known, ask_new),
    )
    return WrappingKeys({source.name: source for source in sources}, preferred)


def _ask_once(ask: Callable[[], Secret]) -> Callable[[], Secret]:
    """Ask a single time: a descriptor can be read once, and nobody wants to type it twice."""
    answers: list[Secret] = []

    def answer() -> Secret:
        if not answers:
            answers.append(ask())
        return answers[0]

    return answer


def _read_passphrase(file: Path, credentials: Path | None) -> Secret:
    """What the file holds. Nobody else may read it; of what systemd gives the mode says nothing, for it uses lists."""
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
        hint = "secrets.passphrase_file names a file of text that whoever runs Paddock can read"
        raise OperatorError(
            f"the passphrase cannot be read from {file}: {reason}", code="secret.key", hint=hint
        ) from None
    if not text or len(content) > _MAX_PASSPHRASE_BYTES:
        raise OperatorError(f"{file} holds no passphrase", code="secret.key", hint="it is one line of text")
    return Secret(text)


def _recovery_hint(note: WrappingKeyRecord, files: KeyStore | None) -> str:
    match note.source:
        case "credential":
            return f"systemd gives it to the service alone: run this with CREDENTIALS_DIRECTORY that holds {note.id}"
        case "file":
            folder = files.folder if isinstance(files, KeyFileStore) else "keys/secrets among the state"
            return f"put {note.id}.key back into {folder}; nothing else opens what it sealed"
        case "passphrase":
            return "run it at a terminal, or set secrets.passphrase_file"
        case _:
            return "unlock the keyring, and pip install 'paddock[keyring]'"
