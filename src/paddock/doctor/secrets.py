"""Secrets: whether the key that they are sealed under is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import PaddockError
from paddock.doctor.check import STORE_WAIT, Check, Status

if TYPE_CHECKING:
    from paddock.secrets.sources import KeyNote

_WHY = "Without its key nobody opens a secret, and no other key is made in its place."


def check_secrets(directories: Directories, settings: Settings | None, environ: Mapping[str, str]) -> Check:
    """Find the keys that secrets are sealed under, as a call would. Nobody is asked for a passphrase."""
    # Imported here: only a home with secrets needs it.
    from paddock.core.clock import SystemRandom
    from paddock.secrets.keys import keys_from
    from paddock.secrets.rows import REPLACED, key_in_use, keys_out_of_use
    from paddock.store.database import embedded_path, open_direct

    if settings is None:
        return _unknown("the settings have to be mended first")
    where = settings.store.url or directories.database_file
    try:
        path = embedded_path(where)
        if path is not None and not path.is_file():
            return Check("secrets", Status.OK, "none are kept yet")
        with open_direct(where, wait=STORE_WAIT) as database:
            in_use, before = database.read(lambda tx: (key_in_use(tx), keys_out_of_use(tx, REPLACED)))
    except PaddockError as error:
        return _unknown(error.message)
    if in_use is None:
        return Check("secrets", Status.OK, "none are kept yet")
    keys = keys_from(
        environ,
        directories.state,
        SystemRandom(),
        preferred=settings.secrets.key,
        passphrase_file=settings.secrets.passphrase_file,
    )
    for note in (in_use, *before):
        if _elsewhere(note, settings, environ):
            continue
        try:
            keys.find(note)
        except PaddockError as error:
            return Check("secrets", Status.FAIL, error.message, _WHY, error.hint, error.error_code)
    if _elsewhere(in_use, settings, environ):
        found = f"sealed under the key {in_use.id}, a {in_use.source} that is not given here"
    else:
        found = f"sealed under the key {in_use.id}, which is here ({in_use.source})"
    return Check("secrets", Status.OK, found)


def _elsewhere(note: KeyNote, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether others than whoever types this are meant to have the key: a service of systemd, or a person's head."""
    if note.source == "credential":
        return not environ.get("CREDENTIALS_DIRECTORY")
    return note.source == "passphrase" and not settings.secrets.passphrase_file


def _unknown(reason: str) -> Check:
    return Check("secrets", Status.WARN, f"could not be looked at: {reason}", _WHY)
