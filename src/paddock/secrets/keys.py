"""The keys that this process can get, from wherever each is kept, and the choice of where a new one goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paddock.core.clock import Random
from paddock.core.errors import HostError, OperatorError
from paddock.core.secret import Secret
from paddock.secrets.envelope import WrappingKey
from paddock.secrets.sources import Credentials, KeyFiles, KeyNote, Keyring, Made, Passphrase, Source

AUTOMATIC = ("credential", "keyring", "file")
_LONGEST_PASSPHRASE = 4_096


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys by id. One that was found is remembered for as long as the process runs.

    Args:
        sources: Every place where keys can be, by name.
        preferred: Where a new one goes; `auto` for the first of `AUTOMATIC` that takes it.
    """

    sources: Mapping[str, Source]
    preferred: str = "auto"
    _found: dict[str, WrappingKey] = field(default_factory=dict[str, WrappingKey], repr=False)

    def remembered(self, note: KeyNote) -> WrappingKey | None:
        """The key, where it was found before. Never blocks."""
        return self._found.get(note.id)

    def find(self, note: KeyNote) -> WrappingKey:
        """The key of this id. May block.

        Raises:
            HostError: `secret.key_missing`, when it is nowhere.
            OperatorError: `secret.key`, when it is there and cannot be used.
        """
        if (known := self._found.get(note.id)) is not None:
            return known
        source = self.sources.get(note.source)
        found = source.find(note) if source is not None else None
        # It may have been moved: a file's content can be a credential by now.
        others = (one for name, one in self.sources.items() if name != note.source and name != "passphrase")
        found = found or next((key for one in others if (key := one.find(note)) is not None), None)
        if found is None or found.id != note.id:
            raise HostError(
                f"the key {note.id} that secrets are sealed under is not here; it was made as a {note.source}",
                code="secret.key_missing",
                hint=_ways_back(note),
            )
        self._found[note.id] = found
        return found

    def make(self, preferred: str | None = None) -> Made:
        """A new key, kept where it was wished for; not yet noted anywhere.

        Raises:
            OperatorError: `secret.key`, when nothing can be kept there.
        """
        wished = preferred or self.preferred
        for name in AUTOMATIC if wished == "auto" else (wished,):
            made = self.sources[name].make() if name in self.sources else None
            if made is not None:
                self._found[made.key.id] = made.key
                return made
        raise OperatorError(
            f"no key for secrets can be kept as {wished}", code="secret.key", hint=_NEEDS.get(wished, "")
        )

    def destroy(self, note: KeyNote) -> None:
        """Have the key nowhere any more, as far as that is ours to do."""
        source = self.sources.get(note.source)
        if source is not None:
            source.destroy(note)
        self._found.pop(note.id, None)


_NEEDS = {
    "credential": "give the service LoadCredentialEncrypted=paddock-kek:…",
    "keyring": "pip install 'paddock[keyring]', and unlock the keyring",
    "passphrase": "set secrets.passphrase_file, or type it at a terminal",
}


def keys_from(
    environ: Mapping[str, str],
    state: Path,
    random: Random,
    *,
    preferred: str = "auto",
    passphrase_file: str | None = None,
    ask: Callable[[], Secret] | None = None,
    ask_new: Callable[[], Secret] | None = None,
) -> Keys:
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
    known = _once(lambda: _read_passphrase(Path(passphrase_file))) if passphrase_file else _once(ask) if ask else None
    sources: tuple[Source, ...] = (
        Credentials(Path(folder) if folder else None),
        Keyring(random),
        KeyFiles(state / "keys" / "secrets", random),
        Passphrase(random, known, ask_new),
    )
    return Keys({source.name: source for source in sources}, preferred)


def _once(ask: Callable[[], Secret]) -> Callable[[], Secret]:
    """Ask a single time: a descriptor can be read once, and nobody wants to type it twice."""
    answers: list[Secret] = []

    def answer() -> Secret:
        if not answers:
            answers.append(ask())
        return answers[0]

    return answer


def _read_passphrase(file: Path) -> Secret:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LONGEST_PASSPHRASE + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise OperatorError(f"the passphrase cannot be read from {file}: {reason}", code="secret.key") from None
    if not text or len(content) > _LONGEST_PASSPHRASE:
        raise OperatorError(f"{file} holds no passphrase", code="secret.key", hint="it is one line of text")
    return Secret(text)


def _ways_back(note: KeyNote) -> str:
    match note.source:
        case "credential":
            return f"systemd gives it to the service alone: run this with CREDENTIALS_DIRECTORY that holds {note.id}"
        case "file":
            return f"put {note.id}.key back into keys/secrets among the state; nothing else opens what it sealed"
        case "passphrase":
            return "run it at a terminal, or set secrets.passphrase_file"
        case _:
            return "unlock the keyring, and pip install 'paddock[keyring]'"
