"""Builds the wrapping keys for secrets of one home, according to its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.clock import SystemRandom
from paddock.core.secret import Secret
from paddock.secrets.wrapping_keys import WrappingKeys, build_wrapping_keys


def load_secret_keys(
    directories: Directories,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    ask: Callable[[], Secret] | None = None,
    ask_new: Callable[[], Secret] | None = None,
) -> WrappingKeys:
    """Return the keys available to this process; a person is asked for a passphrase only if `ask` is given."""
    return build_wrapping_keys(
        environ,
        directories.state,
        SystemRandom(),
        preferred=settings.secrets.key,
        passphrase_file=settings.secrets.passphrase_file,
        ask=ask,
        ask_new=ask_new,
    )
