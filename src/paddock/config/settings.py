"""The table of all settings, which is also the type that code reads values from.

The groups are in files of their own. Each of their fields is one row: default, description, limits, and the names other
documents give it. `SETTINGS` is that table by dotted name; `Settings` is the frozen result with attribute access. A new
setting is one new field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from paddock.config.host_settings import (
    ArtifactSettings,
    EffectSettings,
    EventSettings,
    LedgerSettings,
    LogSettings,
    PolicySettings,
    SecretSettings,
    StoreSettings,
    TelemetrySettings,
)
from paddock.config.limit_settings import LimitSettings
from paddock.config.oidc_settings import OidcSettings
from paddock.config.plugin_settings import (
    AnalyticsSettings,
    CageSettings,
    PersonaSettings,
    PluginSettings,
    VersionSettings,
)
from paddock.config.setting_spec import SettingSpec
from paddock.config.web_settings import ConsoleSettings, GatewaySettings, HttpSettings


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
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    events: EventSettings = field(default_factory=EventSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    log: LogSettings = field(default_factory=LogSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)


def _groups() -> dict[str, type[Any]]:
    return {group.name: cast("type[Any]", group.default_factory) for group in dataclasses.fields(Settings)}


def _table() -> dict[str, SettingSpec]:
    return {
        name: dataclasses.replace(cast("SettingSpec", group_field.metadata["row"]), name=name)
        for group, group_type in _groups().items()
        for group_field in dataclasses.fields(group_type)
        for name in [f"{group}.{group_field.name}"]
    }


#: Every setting by its dotted name, in the order people read about them.
SETTINGS: Mapping[str, SettingSpec] = MappingProxyType(_table())


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Build the typed result from checked values by dotted name; missing ones keep their default."""
    grouped: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        group, _, key = name.partition(".")
        grouped.setdefault(group, {})[key] = value
    return Settings(**{group: group_type(**grouped.get(group, {})) for group, group_type in _groups().items()})
