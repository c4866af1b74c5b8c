"""Every setting Paddock knows, as one table that is also the type people read values from.

Each field below is one row: default, meaning, bounds, and the names other documents give it. `SETTINGS` is that
table by dotted name; `Settings` is the frozen result with attribute access. A new setting is one new field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from paddock.config.addresses import (
    check_directory,
    check_host_names,
    check_private_networks,
    check_store_url,
    check_tags,
    check_uri,
    check_web_address,
)
from paddock.config.gateway_settings import GatewaySettings
from paddock.config.http_settings import HttpSettings
from paddock.config.oidc_settings import OidcSettings
from paddock.config.setting import Kind, Setting, Tighter, row

#: OSQR plugins get a hard CPU quota even when nobody configured one; its own document says so.
OSQR_CPU_QUOTA = 0.5


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Which plugins run, and how many."""

    enabled: bool = row(
        True,
        "Whether people may activate plugins as personas at all; `paddock plugin enable` is another thing. "
        "Nothing obeys it yet: it comes with personas.",
        kind=Kind.BOOLEAN,
        variables=("OSQR_PLUGINS_ENABLED",),
    )
    max_active: int = row(
        10,
        "How many personas one person may have active at the same time; any number of plugins may be enabled and run. "
        "Nothing obeys it yet: it comes with personas.",
        kind=Kind.INTEGER,
        variables=("OSQR_PLUGINS_MAX_ACTIVE",),
        parameters=("max_active_plugins",),
        minimum=1,
        maximum=1000,
        tighter=Tighter.LOWER,
    )
    mcp_timeout_ms: int = row(
        30_000,
        "How long connecting to an MCP server may take, in milliseconds. Nothing obeys it yet.",
        kind=Kind.INTEGER,
        variables=("OSQR_PLUGINS_MCP_TIMEOUT_MS",),
        parameters=("mcp_timeout_ms",),
        minimum=100,
        maximum=600_000,
        tighter=Tighter.LOWER,
    )
    allowed_domains: tuple[str, ...] = row(
        ("api.anthropic.com", "api.openai.com"),
        "The only hosts a plugin of the OSQR dialect may be granted; a grant is still needed for each. "
        "Nothing obeys it yet: until it does, a plugin reaches the hosts that you granted, whichever they are.",
        kind=Kind.NAMES,
        variables=("OSQR_PLUGINS_ALLOWED_DOMAINS",),
        check=check_host_names,
    )
    environments: bool = row(
        False,
        "Whether the packages in a Python plugin's `requirements.txt`, or in a lock of its own, are installed for it. "
        "A plugin that is installed from a package registry by name has said so itself and needs no setting.",
        kind=Kind.BOOLEAN,
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What one plugin process may use of the machine."""

    memory_mb: int = row(
        512,
        "Memory of one plugin, in MiB.",
        kind=Kind.INTEGER,
        variables=("OSQR_PLUGINS_CONTAINER_MEMORY_MB",),
        minimum=16,
        maximum=1_048_576,
        tighter=Tighter.LOWER,
    )
    cpu_weight: int = row(
        256,
        "Share of the CPU when it is contended, on the scale where an ordinary process has 1024.",
        kind=Kind.INTEGER,
        minimum=2,
        maximum=1024,
        tighter=Tighter.LOWER,
    )
    cpu_quota: float | None = row(
        None,
        "Hard limit in CPUs (0.5 is half of one). Unset: none, except 0.5 for plugins of the OSQR dialect.",
        kind=Kind.NUMBER,
        variables=("OSQR_PLUGINS_CONTAINER_CPU_LIMIT",),
        minimum=0.01,
        maximum=1024,
        tighter=Tighter.LOWER,
    )
    pids: int = row(
        100,
        "Processes and threads of one plugin.",
        kind=Kind.INTEGER,
        minimum=4,
        maximum=10_000,
        tighter=Tighter.LOWER,
    )
    call_timeout_s: int = row(
        30,
        "How long one call may take, in seconds, where its callable does not say otherwise.",
        kind=Kind.INTEGER,
        minimum=1,
        maximum=900,
        tighter=Tighter.LOWER,
    )
    in_progress_s: int = row(
        86_400,
        "How long an operator may be at work on one call that it answers with `in_progress`, in seconds. Then nobody "
        "asks it any more, and its effect is in doubt.",
        kind=Kind.INTEGER,
        minimum=1,
        maximum=2_592_000,
        tighter=Tighter.LOWER,
    )
    calls_per_tenant: int | None = row(
        None,
        "How many calls a tenant may make in a minute. Unset: any number.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    calls_per_principal: int | None = row(
        None,
        "How many calls one person, key or agent may make in a minute. Unset: any number.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    calls_per_plugin: int | None = row(
        None,
        "How many calls of one tenant a plugin may get in a minute. Unset: any number.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    daily_calls_per_tenant: int | None = row(
        None,
        "How many calls a tenant may make in a day, which begins at midnight UTC. Unset: any number.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    daily_calls_per_principal: int | None = row(
        None,
        "How many calls one person, key or agent may make in a day, which begins at midnight UTC. Unset: any number.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    daily_calls_per_plugin: int | None = row(
        None,
        "How many calls of one tenant a plugin may get in a day, which begins at midnight UTC. Unset: any number.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    waiting_per_principal: int = row(
        100,
        "How many calls of one person, key or agent may wait for a person at once, with 8 MiB of parameters in all.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )
    waiting_per_tenant: int = row(
        1_000,
        "How many calls of a tenant may wait for a person at once, with 64 MiB of parameters in all.",
        kind=Kind.INTEGER,
        minimum=1,
        tighter=Tighter.LOWER,
    )

    def hard_quota(self, dialect: str) -> float | None:
        """The CPU quota that holds for a plugin of this dialect, None for no hard limit."""
        if self.cpu_quota is None and dialect == "osqr":
            return OSQR_CPU_QUOTA
        return self.cpu_quota


@dataclass(frozen=True, slots=True)
class CageSettings:
    """Names that other documents use for the fence. They exist so that loosening it is refused, not ignored."""

    network_isolation: bool = row(
        True,
        "Plugins reach only the hosts they were granted. Cannot be turned off.",
        kind=Kind.BOOLEAN,
        variables=("OSQR_PLUGINS_NETWORK_ISOLATION",),
        fixed=True,
    )
    sandbox_mode: str = row(
        "strict",
        "Every plugin runs caged. There is no weaker mode.",
        kind=Kind.TEXT,
        variables=("OSQR_PLUGINS_SANDBOX_MODE",),
        fixed=True,
    )


@dataclass(frozen=True, slots=True)
class VersionSettings:
    """How plugins get new versions and keep old ones."""

    auto_update: bool = row(
        False,
        "Whether to look for new versions and propose them. Nothing is ever upgraded without a person's consent. "
        "Nothing obeys it yet: no new versions are looked for.",
        kind=Kind.BOOLEAN,
        variables=("OSQR_PLUGINS_AUTO_UPDATE",),
    )
    retention_days: int = row(
        30,
        "How long an old version stays available for rollback, in days.",
        kind=Kind.INTEGER,
        variables=("OSQR_PLUGINS_ROLLBACK_RETENTION_DAYS",),
        minimum=0,
        maximum=3650,
    )


@dataclass(frozen=True, slots=True)
class AnalyticsSettings:
    """Counting how plugins are used, for groups and never for one person."""

    enabled: bool = row(
        True,
        "Whether use is counted at all. The counts stay in this host's own store and are sent nowhere. "
        "Nothing obeys it yet: nothing is counted.",
        kind=Kind.BOOLEAN,
        variables=("OSQR_PLUGINS_ANALYTICS_ENABLED",),
    )
    aggregation_interval_hours: int = row(
        24,
        "Width of one bucket, in hours. Nothing obeys it yet: nothing is counted.",
        kind=Kind.INTEGER,
        variables=("OSQR_PLUGINS_ANALYTICS_AGGREGATION_INTERVAL_HOURS",),
        minimum=1,
        maximum=8760,
        tighter=Tighter.HIGHER,
    )
    min_users: int = row(
        10,
        "How many people a number must stand for before anyone sees it. Nothing obeys it yet: nothing is counted.",
        kind=Kind.INTEGER,
        parameters=("analytics_aggregation_min_users",),
        minimum=2,
        maximum=1_000_000,
        tighter=Tighter.HIGHER,
    )


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """When a plugin offers itself, and what is learned from people's choices."""

    detection_threshold: float = row(
        0.5,
        "Lowest confidence at which a plugin is activated by context. Nothing obeys it yet: it comes with personas.",
        kind=Kind.NUMBER,
        parameters=("context_detection_threshold",),
        minimum=0,
        maximum=1,
        tighter=Tighter.HIGHER,
    )
    conflict_history_length: int = row(
        50,
        "How many settled conflicts are remembered for each person. Nothing obeys it yet: it comes with personas.",
        kind=Kind.INTEGER,
        parameters=("conflict_history_length",),
        minimum=1,
        maximum=10_000,
        tighter=Tighter.LOWER,
    )
    preference_learning_threshold: int = row(
        3,
        "How many equal choices in a row make a preference. Nothing obeys it yet: it comes with personas.",
        kind=Kind.INTEGER,
        parameters=("preference_learning_threshold",),
        minimum=1,
        maximum=1000,
        tighter=Tighter.HIGHER,
    )
    workflow_state_ttl_days: int = row(
        365,
        "How long an unfinished workflow is kept, in days. Nothing obeys it yet: it comes with personas.",
        kind=Kind.INTEGER,
        parameters=("workflow_state_ttl_days",),
        minimum=1,
        maximum=3650,
    )


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


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Events that are told to others: see the guide on events."""

    source: str = row(
        "urn:paddock",
        "How this host is called in the `source` of its events; the tenant follows. Name each host differently where "
        "one receiver hears of several.",
        kind=Kind.TEXT,
        check=check_uri,
    )
    attempts: int = row(
        14,
        "How often an event is sent to a webhook that does not take it, before it is a dead letter. The pauses double: "
        "14 attempts take about eleven hours.",
        kind=Kind.INTEGER,
        minimum=1,
        maximum=50,
    )
    first_pause_s: float = row(
        5.0,
        "How long to wait after the first attempt that failed, in seconds.",
        kind=Kind.NUMBER,
        minimum=0.01,
        maximum=3600,
    )
    private_receivers: tuple[str, ...] = row(
        (),
        "Addresses that webhooks may be sent to though they are not public, this machine's own among them: "
        "`127.0.0.1:5678`, `10.0.0.0/8`. Others are refused, whatever name leads to them.",
        kind=Kind.NAMES,
        check=check_private_networks,
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What goes to the log."""

    level: str = row(
        "info",
        "Least important message that is written.",
        kind=Kind.TEXT,
        choices=("debug", "info", "warning", "error"),
    )


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """What others are told of calls."""

    otlp_endpoint: str | None = row(
        None,
        "Where an OpenTelemetry collector takes spans over HTTP, such as `http://127.0.0.1:4318`. Unset: nobody gets "
        "any.",
        kind=Kind.TEXT,
        check=check_web_address,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, resolved: `settings.limits.memory_mb`."""

    plugins: PluginSettings = field(default_factory=PluginSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    cage: CageSettings = field(default_factory=CageSettings)
    versions: VersionSettings = field(default_factory=VersionSettings)
    analytics: AnalyticsSettings = field(default_factory=AnalyticsSettings)
    persona: PersonaSettings = field(default_factory=PersonaSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    effects: EffectSettings = field(default_factory=EffectSettings)
    secrets: SecretSettings = field(default_factory=SecretSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    events: EventSettings = field(default_factory=EventSettings)
    log: LogSettings = field(default_factory=LogSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)


def _groups() -> dict[str, type[Any]]:
    return {group.name: cast("type[Any]", group.default_factory) for group in dataclasses.fields(Settings)}


def _table() -> dict[str, Setting]:
    return {
        name: dataclasses.replace(cast("Setting", one.metadata["row"]), name=name)
        for group, group_type in _groups().items()
        for one in dataclasses.fields(group_type)
        for name in [f"{group}.{one.name}"]
    }


#: Every setting by its dotted name, in the order people read about them.
SETTINGS: Mapping[str, Setting] = MappingProxyType(_table())


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Build the typed result from checked values by dotted name; what is left out keeps its default."""
    grouped: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        group, _, key = name.partition(".")
        grouped.setdefault(group, {})[key] = value
    return Settings(**{group: group_type(**grouped.get(group, {})) for group, group_type in _groups().items()})
