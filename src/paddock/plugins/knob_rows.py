"""The rows behind knobs: what people set each to, for each tenant and plugin. They go with the plugin."""

from __future__ import annotations

import json
from typing import Any

from paddock.core.ids import Tenant
from paddock.store.database import Transaction


def kept_knobs(tx: Transaction, tenant: Tenant, plugin: str) -> dict[str, Any]:
    """What a tenant's people set the knobs of a plugin to, by knob; those that nobody turned are left out."""
    rows = tx.all("SELECT knob, value FROM plugin_knobs WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return {row["knob"]: json.loads(row["value"]) for row in sorted(rows, key=lambda row: str(row["knob"]))}


def keep_knob(tx: Transaction, tenant: Tenant, plugin: str, knob: str, value: Any, at: str) -> None:
    """Keep what a knob was set to, in place of what was there."""
    tx.execute(
        "INSERT INTO plugin_knobs (tenant, plugin, knob, value, changed_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (tenant, plugin, knob) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at",
        (tenant, plugin, knob, json.dumps(value), at),
    )


def forget_knob(tx: Transaction, tenant: Tenant, plugin: str, knob: str) -> None:
    """Have a knob at its default again."""
    tx.execute("DELETE FROM plugin_knobs WHERE tenant = ? AND plugin = ? AND knob = ?", (tenant, plugin, knob))
