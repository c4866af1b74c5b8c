"""Secrets from files, prompts and stdin. A secret's value never appears on a command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.output.report import print_message
from paddock.core.errors import NotFound, OperatorError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.secrets.wrapping_keys import PassphrasePrompts


def read_secret_files(options: Sequence[str]) -> dict[str, Secret]:
    """Read the secrets of `--secret NAME=@FILE` options, by name.

    Raises:
        NotFound: a file cannot be read.
        OperatorError: a name or a value is invalid.
    """
    return dict(map(_read_secret_file, options))


def _read_secret_file(option: str) -> tuple[str, Secret]:
    from paddock.core.secret import Secret
    from paddock.secrets.rows import MAX_SECRET_CHARS, validate_secret_name

    name, _, file = option.partition("=")
    if not file.startswith("@"):
        raise click.BadParameter("write NAME=@FILE: everybody sees what is on a command line", param_hint="--secret")
    try:
        with Path(file[1:]).open(encoding="utf-8") as stream:
            value = stream.read(MAX_SECRET_CHARS + 2).removesuffix("\n")
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


def passphrase_prompts() -> PassphrasePrompts | None:
    """Return the prompts for the passphrase of the keys; None without a terminal."""
    from paddock.secrets.wrapping_keys import PassphrasePrompts

    if not sys.stderr.isatty():
        return None
    return PassphrasePrompts(lambda: prompt_hidden("passphrase for secrets"), _prompt_new_passphrase)


def warn_about_store_log(log: Path | str | None) -> None:
    """Print that the store's log still contains the old value of a secret."""
    if log is not None:
        print_message(
            f"  {log} still holds the old value, encrypted, until all readers of the database are done;"
            " to make it unreadable now: paddock secret rotate"
        )


def prompt_hidden(label: str) -> Secret:
    """Prompt for a secret without echo; empty if nothing is typed."""
    import getpass

    from paddock.core.secret import Secret

    try:
        return Secret(getpass.getpass(f"{printable(label, 128)} (not shown): ", sys.stderr))
    except EOFError:
        return Secret("")


def check_secret_value(text: str, removal_hint: str) -> str:
    """Return the value if it can be stored.

    Args:
        text: The value.
        removal_hint: How to delete a secret, for the hint if the value is empty.

    Raises:
        OperatorError: it is empty or too long, or not text.
    """
    from paddock.secrets import rows

    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that a terminal or a pipe gave as lone surrogates
        hint = "send it as UTF-8; write what is binary as text, for example as base64"
        raise OperatorError("the value is not text", code="config.not_text", hint=hint) from None
    return rows.validate_secret_value(text, f"type it at the prompt, or send it on stdin; {removal_hint}")


def _prompt_new_passphrase() -> Secret:
    first = prompt_hidden("new passphrase for secrets")
    if not first or first != prompt_hidden("the same again"):
        raise OperatorError("the two are not the same, and nothing was changed", code="config.no_value")
    return first
