"""The settings of what this host keeps, where and for how long. Rows of the table in `settings.py`."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.addresses import check_directory, check_store_url
from paddock.config.setting import Kind, Tighter, row


@dataclass(frozen=True, slots=True)
class ArtifactSettings:
    """Big results that plugins hand over."""

    max_size_mb: int = row(
        50,
        "Largest artifact, in MB.",
        kind=Kind.INTEGER,
        parameters=("artifact_max_size_mb",),
        minimum=1,
        maximum=10_240,
        tighter=Tighter.LOWER,
    )


@dataclass(frozen=True, slots=True)
class EffectSettings:
    """What is kept of calls that changed something."""

    retention_days: int = row(
        30,
        "How long what came of an effect is kept for whoever comes with its key, in days. That it has happened stays "
        "known after that: it is not made again.",
        kind=Kind.INTEGER,
        minimum=1,
        maximum=3650,
    )
    settle_s: float = row(
        10.0,
        "How long what a dead process had sent may still be on its way, in seconds. A plugin that looks for an effect "
        "and does not find it is believed when it has looked again that much later.",
        kind=Kind.NUMBER,
        minimum=0,
        maximum=86_400,
    )


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """Where the key is that secrets are sealed under."""

    key: str = row(
        "auto",
        "Where a new key for secrets is kept: `credential` (systemd's), `keyring` (the desktop's), `file` (among the "
        "state, readable by you alone) or `passphrase`. `auto` takes the first of these three that there is.",
        kind=Kind.TEXT,
        choices=("auto", "credential", "keyring", "file", "passphrase"),
    )
    passphrase_file: str | None = row(
        None,
        "A file that holds the passphrase, as in `/dev/fd/3`; an absolute path. Unset: it is asked for at a terminal, "
        "and a daemon cannot open what is sealed under it.",
        kind=Kind.TEXT,
        check=check_directory,
    )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where rows live."""

    url: str | None = row(
        None,
        "A SQLite file (absolute path or `sqlite:///path`) or `postgresql://…`. Unset: `paddock.db` among the data.",
        kind=Kind.TEXT,
        sensitive=True,
        check=check_store_url,
    )
