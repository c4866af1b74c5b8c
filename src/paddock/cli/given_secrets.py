"""Secrets for a plugin that runs from its folder, as `--secret NAME=@FILE`. A value never stands on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.core.errors import NotFound, OperatorError

if TYPE_CHECKING:
    from paddock.core.secret import Secret

GivenSecrets = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME=@FILE", help="Give it this secret, which a file holds; repeat it for more."),
]


def secrets_from(given: Sequence[str] | None) -> dict[str, Secret]:
    """The secrets by name, read from their files.

    Raises:
        NotFound: a file cannot be read.
        OperatorError: no secret can be called or be like that.
    """
    return dict(map(_read, given or ()))


def _read(given: str) -> tuple[str, Secret]:
    from paddock.core.secret import Secret
    from paddock.secrets.rows import LONGEST_VALUE, checked_name

    name, _, file = given.partition("=")
    if not file.startswith("@"):
        raise typer.BadParameter("write NAME=@FILE: everybody sees what is on a command line", param_hint="--secret")
    try:
        with Path(file[1:]).open(encoding="utf-8") as opened:
            value = opened.read(LONGEST_VALUE + 2).removesuffix("\n")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        hint = "name a file that is there and that you can read: --secret NAME=@FILE"
        raise NotFound(f"cannot read {file[1:]}: {reason}", code="params.unreadable", hint=hint) from None
    if len(value) > LONGEST_VALUE:
        raise OperatorError(
            f"the secret in {file[1:]} is longer than {LONGEST_VALUE // 1024} KiB",
            code="config.too_large",
            hint="a key or a password is shorter: was another file meant?",
        )
    return checked_name(name), Secret(value)
