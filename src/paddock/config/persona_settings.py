"""The settings of personas, and of counting how they are used. Rows of the table in `settings.py`."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.setting import Kind, Tighter, row


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
