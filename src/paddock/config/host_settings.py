"""Settings of the host's own data: artifacts, effects, secrets, store, policy, events, ledger, log, telemetry."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.setting_spec import SettingKind, Tightening, setting
from paddock.config.validators import (
    check_directory,
    check_private_networks,
    check_store_url,
    check_tags,
    check_uri,
    check_web_address,
)
from paddock.net.anchor_address import check_anchor_addresses


@dataclass(frozen=True, slots=True)
class ArtifactSettings:
    """Artifacts of plugins."""

    max_size_mb: int = setting(
        50,
        "Largest artifact, in MB.",
        kind=SettingKind.INTEGER,
        parameters=("artifact_max_size_mb",),
        minimum=1,
        maximum=10_240,
        tighter=Tightening.LOWER,
    )


@dataclass(frozen=True, slots=True)
class EffectSettings:
    """Retention of effects."""

    retention_days: int = setting(
        30,
        "How long results are kept for calls that repeat an idempotency key, in days. After that the call is still "
        "rejected instead of repeated.",
        kind=SettingKind.INTEGER,
        minimum=1,
        maximum=3650,
    )
    settle_s: float = setting(
        10.0,
        "How long what a dead process had sent may still be on its way, in seconds. A plugin that looks for an effect "
        "and does not find it is believed when it has looked again that much later.",
        kind=SettingKind.NUMBER,
        minimum=0,
        maximum=86_400,
    )


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """Where the key that encrypts secrets is kept."""

    key: str = setting(
        "auto",
        "Where a new key for secrets is kept: `credential` (systemd's), `keyring` (the desktop's), `file` (among the "
        "state, readable by you alone) or `passphrase`. `auto` takes the first of these three that there is.",
        kind=SettingKind.TEXT,
        choices=("auto", "credential", "keyring", "file", "passphrase"),
    )
    passphrase_file: str | None = setting(
        None,
        "A file that holds the passphrase, as in `/dev/fd/3`; an absolute path. Unset: it is asked for at a terminal, "
        "and a daemon cannot open what is sealed under it.",
        kind=SettingKind.TEXT,
        check=check_directory,
    )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where rows are stored."""

    url: str | None = setting(
        None,
        "A SQLite file (absolute path or `sqlite:///path`) or `postgresql://…`. Unset: `paddock.db` among the data.",
        kind=SettingKind.TEXT,
        sensitive=True,
        check=check_store_url,
    )


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy rules."""

    directory: str | None = setting(
        None,
        "Folder of your own rules, files named `*.cedar`; an absolute path. Unset: `policies` beside `config.toml`, "
        "if it is there.",
        kind=SettingKind.TEXT,
        check=check_directory,
    )
    tags: tuple[str, ...] = setting(
        (),
        "Policy tags that your rules may name beside the shipped ones. Any other tag in a rule is taken for a typing "
        "mistake.",
        kind=SettingKind.NAMES,
        check=check_tags,
    )


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Delivery of events to webhooks: see the guide on events."""

    source: str = setting(
        "urn:paddock",
        "How this host is called in the `source` of its events; the tenant follows. Name each host differently where "
        "one receiver hears of several.",
        kind=SettingKind.TEXT,
        check=check_uri,
    )
    attempts: int = setting(
        14,
        "How often an event is sent to a webhook that does not take it, before it is a dead letter. The pauses double: "
        "14 attempts take about eleven hours.",
        kind=SettingKind.INTEGER,
        minimum=1,
        maximum=50,
    )
    first_pause_s: float = setting(
        5.0,
        "How long to wait after the first attempt that failed, in seconds.",
        kind=SettingKind.NUMBER,
        minimum=0.01,
        maximum=3600,
    )
    private_receivers: tuple[str, ...] = setting(
        (),
        "Addresses that webhooks may be sent to though they are not public, this machine's own among them: "
        "`127.0.0.1:5678`, `10.0.0.0/8`. Other private addresses are refused, whatever host name resolves to them.",
        kind=SettingKind.NAMES,
        check=check_private_networks,
    )


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Where the ledger's checkpoints are sent: see the guide on the ledger."""

    anchors: tuple[str, ...] = setting(
        (),
        "Places outside this machine that a daemon sends the newest checkpoints to: `file:///mnt/disk/anchors.jsonl`, "
        "`https://…` (a webhook), `git+ssh://…#branch`, `git+https://…`, `git+file:///…`, or `rfc3161+https://…` (a "
        "time stamping authority).",
        kind=SettingKind.WORDS,
        sensitive=True,
        check=check_anchor_addresses,
    )
    anchor_interval_s: float = setting(
        3600.0,
        "How long after one sending the next is due, in seconds, if there are new checkpoints.",
        kind=SettingKind.NUMBER,
        minimum=1,
        maximum=31_536_000,
    )
    time_stamp_authorities: str | None = setting(
        None,
        "A file with the certificates of time stamping authorities, as PEM; an absolute path. Unset: signatures of "
        "time stamps are not checked, only that they are over the checkpoints.",
        kind=SettingKind.TEXT,
        check=check_directory,
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Logging."""

    level: str = setting(
        "info",
        "Least important message that is written.",
        kind=SettingKind.TEXT,
        choices=("debug", "info", "warning", "error"),
    )


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Telemetry export."""

    otlp_endpoint: str | None = setting(
        None,
        "The OTLP endpoint of an OpenTelemetry collector over HTTP, such as `http://127.0.0.1:4318`. Unset: no spans "
        "are sent.",
        kind=SettingKind.TEXT,
        sensitive=True,
        check=check_web_address,
    )
