"""The settings of the rules. Rows of the table in `settings.py`."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.addresses import check_directory, check_tags
from paddock.config.setting import Kind, row


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The rules about what may happen."""

    directory: str | None = row(
        None,
        "Folder of your own rules, files named `*.cedar`; an absolute path. Unset: `policies` beside `config.toml`, "
        "if it is there.",
        kind=Kind.TEXT,
        check=check_directory,
    )
    tags: tuple[str, ...] = row(
        (),
        "Policy tags that your rules may name beside the shipped ones. Any other tag in a rule is taken for a typing "
        "mistake.",
        kind=Kind.NAMES,
        check=check_tags,
    )
