"""The rows of what servers say of themselves: functions of a transaction, and the frozen values they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.ids import PluginName, Tenant
from paddock.plugins.tool_pinning.diff import DefinitionDiff, PinnedDefinition
from paddock.plugins.tool_pinning.normalize import RESOURCE, DefinitionStatus
from paddock.store.database import Row, Transaction

FIRST_USE = "first use"
AS_LISTED = "as listed"  # nobody is asked about new resources, or about their sizes


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """One definition of one plugin. Its texts, canonical JSON, are fetched apart: most questions do not need them."""

    plugin: PluginName
    kind: str
    name: str
    standing: DefinitionStatus
    reason: str  # why it is not accepted
    repair: str  # what would mend a bad one
    hash: str | None  # of what was accepted
    waiting_hash: str | None  # of what is listed instead
    first_seen: str
    last_seen: str
    accepted_by: str
    accepted_at: str | None

    def to_value(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "standing": self.standing.value,
            "reason": self.reason,
            "repair": self.repair,
            "hash": self.hash,
            "waiting_hash": self.waiting_hash,
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "accepted_by": self.accepted_by,
            "accepted_at": self.accepted_at,
        }


@dataclass(frozen=True, slots=True)
class DefinitionTexts:
    """What a definition was when it was accepted, and what the server says now; empty where there is none."""

    accepted: str
    waiting: str


_COLUMNS = (
    "plugin, kind, name, standing, reason, repair, hash, waiting_hash, first_seen, last_seen, accepted_by, accepted_at"
)


def _definition_from_row(row: Row) -> DefinitionRow:
    row["standing"] = DefinitionStatus(row["standing"])
    return DefinitionRow(**row)


def lock_plugin(tx: Transaction, plugin: str) -> bool:
    """Let nobody else change this plugin's rows until this unit is over; False where it is not installed."""
    return tx.execute("UPDATE plugins SET name = name WHERE name = ?", (plugin,)) > 0


def find_pins(tx: Transaction, tenant: Tenant, plugin: str) -> list[PinnedDefinition]:
    """What is on record of a plugin, for a comparison."""
    rows = tx.all(
        "SELECT kind, name, standing, hash, shape, waiting_hash FROM plugin_definitions "
        "WHERE tenant = ? AND plugin = ? ORDER BY kind, name",
        (tenant, plugin),
    )
    return [PinnedDefinition(**row | {"standing": DefinitionStatus(row["standing"])}) for row in rows]


def was_listed(tx: Transaction, tenant: Tenant, plugin: str) -> bool:
    """Whether its server ever said what it offers."""
    found = tx.one("SELECT plugin FROM plugin_meetings WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return found is not None


def save_first_listing(tx: Transaction, tenant: Tenant, plugin: str, at: str) -> bool:
    """Its server says what it offers; whether that is the first time."""
    insert = "INSERT INTO plugin_meetings (tenant, plugin, first_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    return tx.execute(insert, (tenant, plugin, at)) > 0


def definitions_of(tx: Transaction, tenant: Tenant, plugin: str) -> list[DefinitionRow]:
    """Everything that is on record of one plugin."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM plugin_definitions WHERE tenant = ? AND plugin = ? ORDER BY kind DESC, name",  # noqa: S608
        (tenant, plugin),
    )
    return [_definition_from_row(row) for row in rows]


def find_definition(tx: Transaction, tenant: Tenant, plugin: str, kind: str, name: str) -> DefinitionRow | None:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",  # noqa: S608
        (tenant, plugin, kind, name),
    )
    return _definition_from_row(row) if row else None


def definitions_of_kind(tx: Transaction, kind: str) -> dict[tuple[Tenant, str], list[DefinitionRow]]:
    """Every definition of one kind, by tenant and plugin."""
    rows = tx.all(
        f"SELECT tenant, {_COLUMNS} FROM plugin_definitions WHERE kind = ? ORDER BY tenant, plugin, name",  # noqa: S608
        (kind,),
    )
    found: dict[tuple[Tenant, str], list[DefinitionRow]] = {}
    for row in rows:
        tenant = Tenant(row.pop("tenant"))
        found.setdefault((tenant, row["plugin"]), []).append(_definition_from_row(row))
    return found


def listed_plugins(tx: Transaction) -> set[tuple[Tenant, str]]:
    """The plugins of which anything is on record, each with the tenant for which it is."""
    rows = tx.all("SELECT DISTINCT tenant, plugin FROM plugin_definitions")
    return {(row["tenant"], row["plugin"]) for row in rows}


def texts_of(tx: Transaction, tenant: Tenant, plugin: str, kind: str, name: str) -> DefinitionTexts:
    row = tx.one(
        "SELECT definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
        (tenant, plugin, kind, name),
    )
    return DefinitionTexts(row["definition"], row["waiting"]) if row else DefinitionTexts("", "")


def texts_by_name(tx: Transaction, tenant: Tenant, plugin: str, kind: str) -> dict[str, DefinitionTexts]:
    """The definitions of one kind by name, usable or not."""
    rows = tx.all(
        "SELECT name, definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ?",
        (tenant, plugin, kind),
    )
    return {row["name"]: DefinitionTexts(row["definition"], row["waiting"]) for row in rows}


def accepted_texts(tx: Transaction, tenant: Tenant, plugin: str, kind: str) -> dict[str, str]:
    """The accepted definitions of one kind by name, of those that may be used."""
    rows = tx.all(
        "SELECT name, definition FROM plugin_definitions "
        "WHERE tenant = ? AND plugin = ? AND kind = ? AND standing = ? ORDER BY name",
        (tenant, plugin, kind, DefinitionStatus.ACCEPTED.value),
    )
    return {row["name"]: row["definition"] for row in rows}


def fingerprints_of_other_kinds(tx: Transaction, kind: str) -> dict[tuple[Tenant, str], list[tuple[str, ...]]]:
    """By tenant and plugin: what every definition but those of one kind is, in few words that tell it from another."""
    rows = tx.all(
        "SELECT tenant, plugin, kind, name, standing, hash FROM plugin_definitions WHERE kind <> ? "
        "ORDER BY tenant, plugin, kind, name",
        (kind,),
    )
    found: dict[tuple[Tenant, str], list[tuple[str, ...]]] = {}
    for row in rows:
        marks = found.setdefault((row["tenant"], row["plugin"]), [])
        marks.append((row["kind"], row["name"], row["standing"], row["hash"] or ""))
    return found


def save_diff(tx: Transaction, tenant: Tenant, plugin: str, finding: DefinitionDiff, at: str) -> None:
    """Bring one row in step with what was found. What was accepted before stays on record beside it."""
    listed, pinned = finding.listed, finding.pinned
    key = (tenant, plugin, finding.kind, finding.name)
    if listed is None and (pinned is None or pinned.hash is None):
        # Never accepted and listed no more: a server must not fill the store with names that it makes up.
        tx.execute("DELETE FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?", key)
        return
    accepted = finding.standing is DefinitionStatus.ACCEPTED
    waits = listed if listed is not None and not accepted else None
    if pinned is not None:
        tx.execute(
            "UPDATE plugin_definitions SET standing = ?, reason = ?, repair = ?, waiting_hash = ?, waiting = ? "
            "WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
            (
                *(finding.standing.value, finding.reason, finding.repair),
                *(waits.hash if waits else None, waits.text if waits else "", *key),
            ),
        )
        if listed is not None and finding.replaces_accepted:
            tx.execute(
                "UPDATE plugin_definitions SET hash = ?, shape = ?, definition = ?, accepted_by = ?, accepted_at = ? "
                "WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
                (listed.hash, listed.shape, listed.text, AS_LISTED, at, *key),
            )
        return
    taken = listed if listed is not None and accepted else None
    by = AS_LISTED if finding.kind == RESOURCE else FIRST_USE
    tx.execute(
        "INSERT INTO plugin_definitions (tenant, plugin, kind, name, standing, reason, repair, hash, shape, "
        "definition, waiting_hash, waiting, first_seen, last_seen, accepted_by, accepted_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(*key, finding.standing.value, finding.reason, finding.repair),
            *(taken.hash if taken else None, taken.shape if taken else None, taken.text if taken else ""),
            *(waits.hash if waits else None, waits.text if waits else ""),
            *(at, at, by if taken else "", at if taken else None),
        ),
    )


def save_last_seen(tx: Transaction, tenant: Tenant, plugin: str, at: str) -> None:
    """Everything that is not gone was listed just now."""
    tx.execute(
        "UPDATE plugin_definitions SET last_seen = ? WHERE tenant = ? AND plugin = ? AND standing <> ?",
        (at, tenant, plugin, DefinitionStatus.GONE.value),
    )


def accept_quarantined(
    tx: Transaction, tenant: Tenant, row: DefinitionRow, *, shape: str | None, by: str, at: str
) -> None:
    """Make what waits what is accepted."""
    tx.execute(
        "UPDATE plugin_definitions SET standing = ?, reason = '', repair = '', hash = waiting_hash, shape = ?, "
        "definition = waiting, waiting_hash = NULL, waiting = '', accepted_by = ?, accepted_at = ? "
        "WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
        (DefinitionStatus.ACCEPTED.value, shape, by, at, tenant, row.plugin, row.kind, row.name),
    )
