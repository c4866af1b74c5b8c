"""Secrets for a plugin that runs from its folder, as `--secret NAME=@FILE`. A value never stands on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.core.errors import NotFound, OperatorError

if TYPE_CHECKING:
    from paddock.core.secret import Secret
import os
import sys
from typing import TYPE_CHECKING

from paddock.cli.output.report import print_message
from paddock.core.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.core.secret import Secret
    from paddock.host.wiring.one_shot import OneShotHost
    from paddock.secrets.wrapping_keys import WrappingKeys


SecretFileOption = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME=@FILE", help="Give it this secret, which a file holds; repeat it for more."),
]


def read_secret_files(given: Sequence[str] | None) -> dict[str, Secret]:
    """The secrets by name, read from their files.

    Raises:
        NotFound: a file cannot be read.
        OperatorError: no secret can be called or be like that.
    """
    return dict(map(_read_secret_file, given or ()))


def _read_secret_file(given: str) -> tuple[str, Secret]:
    from paddock.core.secret import Secret
    from paddock.secrets.rows import MAX_SECRET_CHARS, validate_secret_name

    name, _, file = given.partition("=")
    if not file.startswith("@"):
        raise typer.BadParameter("write NAME=@FILE: everybody sees what is on a command line", param_hint="--secret")
    try:
        with Path(file[1:]).open(encoding="utf-8") as opened:
            value = opened.read(MAX_SECRET_CHARS + 2).removesuffix("\n")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        hint = "name a file that is there and that you can read: --secret NAME=@FILE"
        raise NotFound(f"cannot read {file[1:]}: {reason}", code="params.unreadable", hint=hint) from None
    if len(value) > MAX_SECRET_CHARS:
        raise OperatorError(
            f"the secret in {file[1:]} is longer than {MAX_SECRET_CHARS // 1024} KiB",
            code="config.too_large",
            hint="a key or a password is shorter: was another file meant?",
        )
    return validate_secret_name(name), Secret(value)


def open_wrapping_keys(host: OneShotHost) -> WrappingKeys:
    """The keys of this home. Nobody is asked before a key is needed, or without a terminal."""
    from paddock.host.secrets.keys import load_secret_keys

    settings = host.loaded.settings
    at_terminal = sys.stderr.isatty()
    return load_secret_keys(
        host.directories,
        settings,
        os.environ,
        ask=(lambda: prompt_hidden("passphrase for secrets")) if at_terminal else None,
        ask_new=_prompt_new_passphrase if at_terminal and not settings.secrets.passphrase_file else None,
    )


def warn_about_store_log(log: Path | None) -> None:
    """Say where the store's log still holds what a secret was before."""
    if log is not None:
        print_message(
            f"  {log} holds what was sealed until whoever reads there now is done; rotate, to have it open nowhere"
        )


def prompt_hidden(what: str) -> Secret:
    """What a person types at a prompt that does not show it; empty where they type nothing."""
    import getpass

    from paddock.core.secret import Secret

    try:
        return Secret(getpass.getpass(f"{printable(what, 128)} (not shown): ", sys.stderr))
    except EOFError:
        return Secret("")


def check_secret_value(text: str, forgets: str) -> str:
    """What was typed or sent, where it can be kept.

    Args:
        text: What it is.
        forgets: Words on how to forget a value, for whoever gave none.

    Raises:
        OperatorError: it is none, or too long.
    """
    from paddock.secrets import rows

    return rows.validate_secret_value(text, f"type it at the prompt, or send it on stdin; {forgets}")


def _prompt_new_passphrase() -> Secret:
    first = prompt_hidden("new passphrase for secrets")
    if not first or first != prompt_hidden("the same again"):
        raise OperatorError("the two are not the same, and nothing was changed", code="config.no_value")
    return first
