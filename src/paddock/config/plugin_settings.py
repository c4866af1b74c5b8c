"""The settings of plugins: which run, their fence and their versions. Rows of the table in `settings.py`."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.addresses import check_host_names
from paddock.config.setting import Kind, Tighter, row


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
