"""Settings of plugins: which may run, the fixed cage settings, versions, analytics and personas."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.setting_spec import SettingKind, Tightening, setting
from paddock.config.validators import check_host_names


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Which plugins run, and how many."""

    enabled: bool = setting(
        True,
        "Whether people may activate plugins as personas at all; `paddock plugin enable` is another thing. "
        "Nothing obeys it yet: it comes with personas.",
        kind=SettingKind.BOOLEAN,
        variables=("OSQR_PLUGINS_ENABLED",),
    )
    max_active: int = setting(
        10,
        "How many personas one person may have active at the same time; any number of plugins may be enabled and run. "
        "Nothing obeys it yet: it comes with personas.",
        kind=SettingKind.INTEGER,
        variables=("OSQR_PLUGINS_MAX_ACTIVE",),
        parameters=("max_active_plugins",),
        minimum=1,
        maximum=1000,
        tighter=Tightening.LOWER,
    )
    mcp_timeout_ms: int = setting(
        30_000,
        "How long connecting to an MCP server may take, in milliseconds. Nothing obeys it yet.",
        kind=SettingKind.INTEGER,
        variables=("OSQR_PLUGINS_MCP_TIMEOUT_MS",),
        parameters=("mcp_timeout_ms",),
        minimum=100,
        maximum=600_000,
        tighter=Tightening.LOWER,
    )
    allowed_domains: tuple[str, ...] = setting(
        ("api.anthropic.com", "api.openai.com"),
        "The only hosts a plugin of the OSQR dialect may be granted; a grant is still needed for each. "
        "Nothing obeys it yet: until it does, a plugin reaches the hosts that you granted, whichever they are.",
        kind=SettingKind.NAMES,
        variables=("OSQR_PLUGINS_ALLOWED_DOMAINS",),
        check=check_host_names,
    )
    environments: bool = setting(
        False,
        "Whether the packages in a Python plugin's `requirements.txt`, or in a lock of its own, are installed for it. "
        "A plugin that is installed from a package registry by name has said so itself and needs no setting.",
        kind=SettingKind.BOOLEAN,
    )


@dataclass(frozen=True, slots=True)
class CageSettings:
    """Names that other documents use for the cage. They exist so that loosening it is refused, not ignored."""

    network_isolation: bool = setting(
        True,
        "Plugins reach only the hosts they were granted. Cannot be turned off.",
        kind=SettingKind.BOOLEAN,
        variables=("OSQR_PLUGINS_NETWORK_ISOLATION",),
        fixed=True,
    )
    sandbox_mode: str = setting(
        "strict",
        "Every plugin runs caged. There is no weaker mode.",
        kind=SettingKind.TEXT,
        variables=("OSQR_PLUGINS_SANDBOX_MODE",),
        fixed=True,
    )


@dataclass(frozen=True, slots=True)
class VersionSettings:
    """How plugins get new versions and keep old ones."""

    auto_update: bool = setting(
        False,
        "Whether to look for new versions and propose them. Nothing is ever upgraded without a person's consent. "
        "Nothing obeys it yet: no new versions are looked for.",
        kind=SettingKind.BOOLEAN,
        variables=("OSQR_PLUGINS_AUTO_UPDATE",),
    )
    retention_days: int = setting(
        30,
        "How long an old version stays available for rollback, in days.",
        kind=SettingKind.INTEGER,
        variables=("OSQR_PLUGINS_ROLLBACK_RETENTION_DAYS",),
        minimum=0,
        maximum=3650,
    )


@dataclass(frozen=True, slots=True)
class AnalyticsSettings:
    """Counting how plugins are used, for groups and never for one person."""

    enabled: bool = setting(
        True,
        "Whether use is counted at all. The counts stay in this host's own store and are sent nowhere. "
        "Nothing obeys it yet: nothing is counted.",
        kind=SettingKind.BOOLEAN,
        variables=("OSQR_PLUGINS_ANALYTICS_ENABLED",),
    )
    aggregation_interval_hours: int = setting(
        24,
        "Width of one bucket, in hours. Nothing obeys it yet: nothing is counted.",
        kind=SettingKind.INTEGER,
        variables=("OSQR_PLUGINS_ANALYTICS_AGGREGATION_INTERVAL_HOURS",),
        minimum=1,
        maximum=8760,
        tighter=Tightening.HIGHER,
    )
    min_users: int = setting(
        10,
        "How many people a number must stand for before anyone sees it. Nothing obeys it yet: nothing is counted.",
        kind=SettingKind.INTEGER,
        parameters=("analytics_aggregation_min_users",),
        minimum=2,
        maximum=1_000_000,
        tighter=Tightening.HIGHER,
    )


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """When a plugin offers itself, and what is learned from people's choices."""

    detection_threshold: float = setting(
        0.5,
        "Lowest confidence at which a plugin is activated by context. Nothing obeys it yet: it comes with personas.",
        kind=SettingKind.NUMBER,
        parameters=("context_detection_threshold",),
        minimum=0,
        maximum=1,
        tighter=Tightening.HIGHER,
    )
    conflict_history_length: int = setting(
        50,
        "How many settled conflicts are remembered for each person. Nothing obeys it yet: it comes with personas.",
        kind=SettingKind.INTEGER,
        parameters=("conflict_history_length",),
        minimum=1,
        maximum=10_000,
        tighter=Tightening.LOWER,
    )
    preference_learning_threshold: int = setting(
        3,
        "How many equal choices in a row make a preference. Nothing obeys it yet: it comes with personas.",
        kind=SettingKind.INTEGER,
        parameters=("preference_learning_threshold",),
        minimum=1,
        maximum=1000,
        tighter=Tightening.HIGHER,
    )
    workflow_state_ttl_days: int = setting(
        365,
        "How long an unfinished workflow is kept, in days. Nothing obeys it yet: it comes with personas.",
        kind=SettingKind.INTEGER,
        parameters=("workflow_state_ttl_days",),
        minimum=1,
        maximum=3650,
    )
