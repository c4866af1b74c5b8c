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
from paddock.secrets.sources import Credentials, KeyFiles, KeyNote, Keyring, Made, Passphrase, Source

AUTO = "auto"
AUTOMATIC = ("credential", "keyring", "file")
_LONGEST_PASSPHRASE = 4_096


class _Known(NamedTuple):
    """A key, and the place where it was found."""

    key: WrappingKey
    place: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys by id. One that was found is remembered until it is noted no more.

    Args:
        sources: Every place where keys can be, by name.
        preferred: Where a new one goes; `auto` for the first of `AUTOMATIC` that takes it.
    """

    sources: Mapping[str, Source]
    preferred: str = AUTO
    _known: dict[str, _Known] = field(default_factory=dict[str, _Known], repr=False)

    def remembered(self, note: KeyNote) -> bool:
        """Whether the key was found before, so that finding it again does not block."""
        return note.id in self._known

    def find(self, note: KeyNote) -> WrappingKey:
        """The key of this id. May block.

        Raises:
            HostError: `secret.key_missing`, when it is nowhere.
            OperatorError: `secret.key`, when it is there and cannot be used.
        """
        return self._find(note).key

    def place_of(self, note: KeyNote) -> str:
        """Where the key of this id is by now. Blocks and raises as `find` does."""
        return self._find(note).place

    def _find(self, note: KeyNote) -> _Known:
        if (known := self._known.get(note.id)) is not None:
            return known
        source = self.sources.get(note.source)
        key, place = source.find(note) if source is not None else None, note.source
        if key is None:
            # It may have been moved: a file's content can be a credential by now.
            key, place = next(self._elsewhere(note), (None, ""))
        if key is None or key.id != note.id:
            raise HostError(
                f"the key {note.id} that secrets are sealed under is not here; it was made as a {note.source}",
                code="secret.key_missing",
                hint=_ways_back(note, self.sources.get("file")),
            )
        self._known[note.id] = found = _Known(key, place)
        return found

    def _elsewhere(self, note: KeyNote) -> Generator[_Known, None, None]:
        for name, source in self.sources.items():
            if name not in (note.source, "passphrase"):
                with suppress(OperatorError):  # it has no reason to be there: that it is missing says more
                    if (key := source.find(note)) is not None:
                        yield _Known(key, name)

    def make(self, announce: Callable[[KeyNote], None], place: str | None = None) -> Made:
        """A new key, kept where it was wished for.

        Args:
            announce: Notes the key before it is kept anywhere: whoever is killed leaves none that nobody knows of.
            place: Where it goes, if not where it is preferred.

        Raises:
            OperatorError: `secret.key`, when nothing can be kept there.
        """
        wished = place or self.preferred
        places = AUTOMATIC if wished == AUTO else (wished,)
        for name in places:
            made = self.sources[name].new() if name in self.sources else None
            if made is None:
                continue
            announce(made.note)
            try:
                self.sources[name].keep(made)
            except OperatorError:
                if name == places[-1]:
                    raise
                continue
            self._known[made.key.id] = _Known(made.key, name)
            return made
        raise OperatorError(
            f"no key for secrets can be kept as {wished}", code="secret.key", hint=_NEEDS.get(wished, "")
        )

    def destroy(self, note: KeyNote) -> None:
        """Have the key nowhere any more, as far as that is ours to do.

        Raises:
            OperatorError: `secret.key`, when it may still be there.
        """
        known = self._known.pop(note.id, None)
        for place in {note.source, *([known.place] if known else [])}:
            if place in self.sources:
                self.sources[place].destroy(note)

    def keep_only(self, noted: AbstractSet[str]) -> None:
        """Remember no key that is noted no more: nothing is wrapped with it, here or by anybody else."""
        for gone in self._known.keys() - noted:
            self._known.pop(gone, None)


_NEEDS = {
    "credential": "give the service LoadCredentialEncrypted=paddock-kek:…",
    "keyring": "pip install 'paddock[keyring]', and have one that does not write keys into a plain file",
    "passphrase": "set secrets.passphrase_file, or type it at a terminal",
}


def keys_from(
    environ: Mapping[str, str],
    state: Path,
    random: Random,
    *,
    preferred: str = AUTO,
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
    given = Path(folder) if folder else None
    read = (lambda: _read_passphrase(Path(passphrase_file), given)) if passphrase_file else ask
    known = _once(read) if read is not None else None
    sources: tuple[Source, ...] = (
        Credentials(given),
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
            content = opened.read(_LONGEST_PASSPHRASE + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        hint = "secrets.passphrase_file names a file of text that whoever runs Paddock can read"
        raise OperatorError(
            f"the passphrase cannot be read from {file}: {reason}", code="secret.key", hint=hint
        ) from None
    if not text or len(content) > _LONGEST_PASSPHRASE:
        raise OperatorError(f"{file} holds no passphrase", code="secret.key", hint="it is one line of text")
    return Secret(text)


def _ways_back(note: KeyNote, files: Source | None) -> str:
    match note.source:
        case "credential":
            return f"systemd gives it to the service alone: run this with CREDENTIALS_DIRECTORY that holds {note.id}"
        case "file":
            folder = files.folder if isinstance(files, KeyFiles) else "keys/secrets among the state"
            return f"put {note.id}.key back into {folder}; nothing else opens what it sealed"
        case "passphrase":
            return "run it at a terminal, or set secrets.passphrase_file"
        case _:
            return "unlock the keyring, and pip install 'paddock[keyring]'"
