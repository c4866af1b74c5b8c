"""Builds the wrapping keys for secrets of one home, according to its settings."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.clock import SystemRandom
from paddock.secrets.wrapping_keys import PassphrasePrompts, WrappingKeys, build_wrapping_keys


def load_secret_keys(
    directories: Directories,
    settings: Settings,
    environ: Mapping[str, str],
    passphrase: PassphrasePrompts | None = None,
) -> WrappingKeys:
    """Return the keys available to this process; a person is asked for a passphrase that no setting gives."""
    file = settings.secrets.passphrase_file
    return build_wrapping_keys(
        environ,
        directories.state,
        SystemRandom(),
        preferred=settings.secrets.key,
        passphrase_file=file,
        ask=passphrase.ask if passphrase else None,
        ask_new=passphrase.ask_new if passphrase and not file else None,
    )
