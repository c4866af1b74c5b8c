"""The settings of the console. Rows of the table in `settings.py`."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.setting import Kind, row


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The pages of the console."""

    tour: bool = row(
        False,
        "Whether the console's first page shows whoever operates the host around, step by step. `paddock demo` turns"
        " it on.",
        kind=Kind.BOOLEAN,
    )
