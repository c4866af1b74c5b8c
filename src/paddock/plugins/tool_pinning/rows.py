"""The rows of pinned definitions: functions of a transaction, and the frozen values they return."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Struct

from paddock.core.ids import PluginName, Tenant
from paddock.core.schema_annotations import DateTime
from paddock.plugins.tool_pinning.diff import DefinitionDiff, PinnedDefinition
from paddock.plugins.tool_pinning.normalize import RESOURCE, DefinitionStatus
from paddock.store.database import Row, Transaction

FIRST_USE = "first use"
AS_LISTED = "as listed"  # new resources, and changed sizes, need no person


class DefinitionJson(TypedDict):
    """A definition that a plugin's server lists."""

    kind: str
    name: str
    standing: DefinitionStatus
    reason: Annotated[str, "Why it is not accepted."]
    repair: str
    hash: Annotated[str | None, "Of the accepted definition, as `sha256:…`."]
    waiting_hash: Annotated[str | None, "Of the definition that the server lists now and that is not accepted."]
    first_seen: DateTime
    last_seen: DateTime
    accepted_by: str
    accepted_at: DateTime | None


class DefinitionRow(Struct, frozen=True):
    """One definition of one plugin. Its texts, canonical JSON, are fetched separately: most queries do not
    need them."""

    plugin: PluginName
    kind: str
    name: str
    standing: DefinitionStatus
    reason: str  # why it is not accepted
    repair: str  # how to fix a bad one
    hash: str | None  # of the accepted definition
    waiting_hash: str | None  # of the quarantined definition listed instead
    first_seen: str
    last_seen: str
    accepted_by: str
    accepted_at: str | None

    def to_value(self) -> DefinitionJson:
        return {
            "kind": self.kind,
            "name": self.name,
            "standing": self.standing,
            "reason": self.reason,
            "repair": self.repair,
            "hash": self.hash,
            "waiting_hash": self.waiting_hash,
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "accepted_by": self.accepted_by,
            "accepted_at": self.accepted_at,
        }


class LastListing(Struct, frozen=True):
    """When a server last said what it offers, and as which files; `tried` is for one that said so in a trial alone."""

    digest: str
    seen_at: str
    tried: bool


class DefinitionTexts(Struct, frozen=True):
    """The accepted text of a definition and the quarantined one; empty if there is none."""

    accepted: str
    waiting: str


_COLUMNS = (
    "plugin, kind, name, standing, reason, repair, hash, waiting_hash, first_seen, last_seen, accepted_by, accepted_at"
)


def _definition_from_row(row: Row) -> DefinitionRow:
    row["standing"] = DefinitionStatus(row["standing"])
    return DefinitionRow(**row)


def lock_plugin(tx: Transaction, plugin: str) -> bool:
    """Lock this plugin's rows until the transaction ends; returns False if it is not installed."""
    return tx.execute("UPDATE plugins SET name = name WHERE name = ?", (plugin,)) > 0


def find_pins(tx: Transaction, tenant: Tenant, plugin: str) -> list[PinnedDefinition]:
    """Return the pinned definitions of a plugin for a comparison."""
    rows = tx.all(
        "SELECT kind, name, standing, hash, shape, waiting_hash FROM plugin_definitions "
        "WHERE tenant = ? AND plugin = ? ORDER BY kind, name",
        (tenant, plugin),
    )
    return [PinnedDefinition(**row | {"standing": DefinitionStatus(row["standing"])}) for row in rows]


def was_listed(tx: Transaction, tenant: Tenant, plugin: str) -> bool:
    """Whether its server ever listed its definitions."""
    row = tx.one("SELECT plugin FROM plugin_meetings WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return row is not None


def save_first_listing(tx: Transaction, tenant: Tenant, plugin: str, now: str) -> bool:
    """Record that its server listed its definitions; returns whether that is the first time."""
    insert = "INSERT INTO plugin_meetings (tenant, plugin, first_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    return tx.execute(insert, (tenant, plugin, now)) > 0


def save_last_listing(tx: Transaction, tenant: Tenant, plugin: str, listing: LastListing) -> None:
    tx.execute(
        "INSERT INTO plugin_listings (tenant, plugin, digest, seen_at, tried) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, plugin) DO UPDATE SET digest = excluded.digest, seen_at = excluded.seen_at, "
        "tried = excluded.tried",
        (tenant, plugin, listing.digest, listing.seen_at, int(listing.tried)),
    )


def move_trial_listing(tx: Transaction, tenant: Tenant, plugin: str, old: str, new: str) -> None:
    """A trial listed these tools as the same files with other grants, which have this digest now."""
    tx.execute(
        "UPDATE plugin_listings SET digest = ? WHERE tenant = ? AND plugin = ? AND digest = ? AND tried = 1",
        (new, tenant, plugin, old),
    )


def find_last_listing(tx: Transaction, tenant: Tenant, plugin: str) -> LastListing | None:
    """Return when its server last said what it offers; None if it never did, or before that was recorded."""
    row = tx.one("SELECT digest, seen_at, tried FROM plugin_listings WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return LastListing(row["digest"], row["seen_at"], bool(row["tried"])) if row else None


def definitions_of(tx: Transaction, tenant: Tenant, plugin: str) -> list[DefinitionRow]:
    """Return all recorded definitions of one plugin."""
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
    """Return every definition of one kind, by tenant and plugin."""
    rows = tx.all(
        f"SELECT tenant, {_COLUMNS} FROM plugin_definitions WHERE kind = ? ORDER BY tenant, plugin, name",  # noqa: S608
        (kind,),
    )
    by_plugin: dict[tuple[Tenant, str], list[DefinitionRow]] = {}
    for row in rows:
        tenant = Tenant(row.pop("tenant"))
        by_plugin.setdefault((tenant, row["plugin"]), []).append(_definition_from_row(row))
    return by_plugin


def listed_plugins(tx: Transaction) -> set[tuple[Tenant, str]]:
    """Return the tenants and plugins that have recorded definitions."""
    rows = tx.all("SELECT DISTINCT tenant, plugin FROM plugin_definitions")
    return {(row["tenant"], row["plugin"]) for row in rows}


def listed_names(tx: Transaction, plugin: str) -> list[tuple[str, str]]:
    """Return kind and name of every definition that a plugin has listed, to whichever tenant."""
    rows = tx.all("SELECT DISTINCT kind, name FROM plugin_definitions WHERE plugin = ?", (plugin,))
    return [(row["kind"], row["name"]) for row in rows]


def texts_of(tx: Transaction, tenant: Tenant, plugin: str, kind: str, name: str) -> DefinitionTexts:
    row = tx.one(
        "SELECT definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
        (tenant, plugin, kind, name),
    )
    return DefinitionTexts(row["definition"], row["waiting"]) if row else DefinitionTexts("", "")


def texts_by_name(tx: Transaction, tenant: Tenant, plugin: str, kind: str) -> dict[str, DefinitionTexts]:
    """Return the definitions of one kind by name, usable or not."""
    rows = tx.all(
        "SELECT name, definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ?",
        (tenant, plugin, kind),
    )
    return {row["name"]: DefinitionTexts(row["definition"], row["waiting"]) for row in rows}


def accepted_texts(tx: Transaction, tenant: Tenant, plugin: str, kind: str) -> dict[str, str]:
    """Return the accepted definitions of one kind by name, if they may be used."""
    rows = tx.all(
        "SELECT name, definition FROM plugin_definitions "
        "WHERE tenant = ? AND plugin = ? AND kind = ? AND standing = ? ORDER BY name",
        (tenant, plugin, kind, DefinitionStatus.ACCEPTED.value),
    )
    return {row["name"]: row["definition"] for row in rows}


def fingerprints_of_other_kinds(tx: Transaction, kind: str) -> dict[tuple[Tenant, str], list[tuple[str, ...]]]:
    """Return, by tenant and plugin, an identifying tuple of every definition not of this kind."""
    rows = tx.all(
        "SELECT tenant, plugin, kind, name, standing, hash FROM plugin_definitions WHERE kind <> ? "
        "ORDER BY tenant, plugin, kind, name",
        (kind,),
    )
    by_plugin: dict[tuple[Tenant, str], list[tuple[str, ...]]] = {}
    for row in rows:
        fingerprints = by_plugin.setdefault((row["tenant"], row["plugin"]), [])
        fingerprints.append((row["kind"], row["name"], row["standing"], row["hash"] or ""))
    return by_plugin


def save_diff(tx: Transaction, tenant: Tenant, plugin: str, diff: DefinitionDiff, now: str) -> None:
    """Update one row with the result of a comparison. The previously accepted definition stays recorded beside it."""
    listed, pinned = diff.listed, diff.pinned
    key = (tenant, plugin, diff.kind, diff.name)
    if listed is None and (pinned is None or pinned.hash is None):
        # Never accepted and no longer listed: a server must not fill the store with made-up names.
        tx.execute("DELETE FROM plugin_definitions WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?", key)
        return
    accepted = diff.standing is DefinitionStatus.ACCEPTED
    waiting = listed if listed is not None and not accepted else None
    if pinned is not None:
        tx.execute(
            "UPDATE plugin_definitions SET standing = ?, reason = ?, repair = ?, waiting_hash = ?, waiting = ? "
            "WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
            (
                *(diff.standing.value, diff.reason, diff.repair),
                *(waiting.hash if waiting else None, waiting.text if waiting else "", *key),
            ),
        )
        if listed is not None and diff.replaces_accepted:
            tx.execute(
                "UPDATE plugin_definitions SET hash = ?, shape = ?, definition = ?, accepted_by = ?, accepted_at = ? "
                "WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
                (listed.hash, listed.shape, listed.text, AS_LISTED, now, *key),
            )
        return
    accepted_definition = listed if listed is not None and accepted else None
    by = AS_LISTED if diff.kind == RESOURCE else FIRST_USE
    tx.execute(
        "INSERT INTO plugin_definitions (tenant, plugin, kind, name, standing, reason, repair, hash, shape, "
        "definition, waiting_hash, waiting, first_seen, last_seen, accepted_by, accepted_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(*key, diff.standing.value, diff.reason, diff.repair),
            *(
                accepted_definition.hash if accepted_definition else None,
                accepted_definition.shape if accepted_definition else None,
                accepted_definition.text if accepted_definition else "",
            ),
            *(waiting.hash if waiting else None, waiting.text if waiting else ""),
            *(now, now, by if accepted_definition else "", now if accepted_definition else None),
        ),
    )


def save_last_seen(tx: Transaction, tenant: Tenant, plugin: str, now: str) -> None:
    """Mark every definition that is not gone as listed now."""
    tx.execute(
        "UPDATE plugin_definitions SET last_seen = ? WHERE tenant = ? AND plugin = ? AND standing <> ?",
        (now, tenant, plugin, DefinitionStatus.GONE.value),
    )


def accept_quarantined(
    tx: Transaction, tenant: Tenant, row: DefinitionRow, *, shape: str | None, by: str, now: str
) -> None:
    """Make the quarantined definition the accepted one."""
    tx.execute(
        "UPDATE plugin_definitions SET standing = ?, reason = '', repair = '', hash = waiting_hash, shape = ?, "
        "definition = waiting, waiting_hash = NULL, waiting = '', accepted_by = ?, accepted_at = ? "
        "WHERE tenant = ? AND plugin = ? AND kind = ? AND name = ?",
        (DefinitionStatus.ACCEPTED.value, shape, by, now, tenant, row.plugin, row.kind, row.name),
    )
