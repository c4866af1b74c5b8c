"""The keys for secrets, for a command: whoever types is asked for a passphrase where one is needed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from paddock.cli.output import say
from paddock.core.errors import OperatorError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.core.secret import Secret
    from paddock.host.command import CommandHost
    from paddock.secrets.keys import Keys


def keys_for(host: CommandHost) -> Keys:
    """The keys of this home. Nobody is asked before a key is needed, or without a terminal."""
    from paddock.host.secret_keys import secret_keys

    settings = host.loaded.settings
    at_terminal = sys.stderr.isatty()
    return secret_keys(
        host.directories,
        settings,
        os.environ,
        ask=(lambda: typed_unseen("passphrase for secrets")) if at_terminal else None,
        ask_new=_new_passphrase if at_terminal and not settings.secrets.passphrase_file else None,
    )


def tell_of_log(log: Path | None) -> None:
    """Say where the store's log still holds what a secret was before."""
    if log is not None:
        say(f"  {log} holds what was sealed until whoever reads there now is done; rotate, to have it open nowhere")


def typed_unseen(what: str) -> Secret:
    """What a person types at a prompt that does not show it; empty where they type nothing."""
    import getpass

    from paddock.core.secret import Secret

    try:
        return Secret(getpass.getpass(f"{printable(what, 128)} (not shown): ", sys.stderr))
    except EOFError:
        return Secret("")


def checked_value(text: str, forgets: str) -> str:
    """What was typed or sent, where it can be kept.

    Args:
        text: What it is.
        forgets: Words on how to forget a value, for whoever gave none.

    Raises:
        OperatorError: it is none, or too long.
    """
    from paddock.secrets import rows

    return rows.checked_value(text, f"type it at the prompt, or send it on stdin; {forgets}")


def _new_passphrase() -> Secret:
    first = typed_unseen("new passphrase for secrets")
    if not first or first != typed_unseen("the same again"):
        raise OperatorError("the two are not the same, and nothing was changed", code="config.no_value")
    return first
