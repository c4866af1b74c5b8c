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
        "Whether people may activate plugins as personas. `paddock plugin enable` does not depend on it.",
        kind=SettingKind.BOOLEAN,
        reserved="personas",
        variables=("OSQR_PLUGINS_ENABLED",),
    )
    max_active: int = setting(
        10,
        "How many personas one person may have active at the same time; any number of plugins may be enabled and run.",
        kind=SettingKind.INTEGER,
        reserved="personas",
        variables=("OSQR_PLUGINS_MAX_ACTIVE",),
        parameters=("max_active_plugins",),
        minimum=1,
        maximum=1000,
        tighter=Tightening.LOWER,
    )
    mcp_timeout_ms: int = setting(
        30_000,
        "How long an MCP server may take to accept a connection, and to answer each request of the host before its "
        "first call, in milliseconds.",
        kind=SettingKind.INTEGER,
        variables=("OSQR_PLUGINS_MCP_TIMEOUT_MS",),
        parameters=("mcp_timeout_ms",),
        minimum=100,
        maximum=600_000,
        tighter=Tightening.LOWER,
    )
    allowed_domains: tuple[str, ...] = setting(
        ("api.anthropic.com", "api.openai.com"),
        "The only hosts that plugins of the OSQR dialect may connect to; each needs a grant as well. A plugin of that "
        "dialect that requests another host cannot be enabled, and does not run if it was enabled before.",
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
        "Whether to look for new versions and propose them. Nothing is ever upgraded without a person's consent.",
        kind=SettingKind.BOOLEAN,
        reserved="update proposals",
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
        "Whether usage is counted. The counts stay in this host's own store and are sent nowhere.",
        kind=SettingKind.BOOLEAN,
        reserved="usage analytics",
        variables=("OSQR_PLUGINS_ANALYTICS_ENABLED",),
    )
    aggregation_interval_hours: int = setting(
        24,
        "Width of one bucket, in hours.",
        kind=SettingKind.INTEGER,
        reserved="usage analytics",
        variables=("OSQR_PLUGINS_ANALYTICS_AGGREGATION_INTERVAL_HOURS",),
        minimum=1,
        maximum=8760,
        tighter=Tightening.HIGHER,
    )
    min_users: int = setting(
        10,
        "How many people a number must stand for before anyone sees it.",
        kind=SettingKind.INTEGER,
        reserved="usage analytics",
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
        "Lowest confidence at which a plugin is activated by context.",
        kind=SettingKind.NUMBER,
        reserved="personas",
        parameters=("context_detection_threshold",),
        minimum=0,
        maximum=1,
        tighter=Tightening.HIGHER,
    )
    conflict_history_length: int = setting(
        50,
        "How many settled conflicts are remembered for each person.",
        kind=SettingKind.INTEGER,
        reserved="personas",
        parameters=("conflict_history_length",),
        minimum=1,
        maximum=10_000,
        tighter=Tightening.LOWER,
    )
    preference_learning_threshold: int = setting(
        3,
        "How many equal choices in a row make a preference.",
        kind=SettingKind.INTEGER,
        reserved="personas",
        parameters=("preference_learning_threshold",),
        minimum=1,
        maximum=1000,
        tighter=Tightening.HIGHER,
    )
    workflow_state_ttl_days: int = setting(
        365,
        "How long an unfinished workflow is kept, in days.",
        kind=SettingKind.INTEGER,
        reserved="personas",
        parameters=("workflow_state_ttl_days",),
        minimum=1,
        maximum=3650,
    )
