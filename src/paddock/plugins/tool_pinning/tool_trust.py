"""What a person takes a plugin's word for, tool by tool: the rows, and which of them count for a version.

A row counts for the files and the definition that the person saw. It ends by not fitting any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.core.ids import PluginName, Tenant
from paddock.manifest.effects import Claim, Effect, claim_of
from paddock.manifest.model import CallableSpec
from paddock.store.database import Transaction

DECLARED_HASH: Final = ""  # of a tool that its package declares: the digest of the files covers it


class TrustedWord(StrEnum):
    """What is believed of a tool."""

    READS = "reads"  # its own mark that it only reads
    ERRORS = "errors"  # an error that it answers means that nothing was done


class ToolTrustRow(Struct, frozen=True):
    """One tool of which one thing is believed."""

    tool: str
    word: TrustedWord
    digest: str
    hash: str
    trusted_by: str
    trusted_at: str

    def is_read_mark_of(self, digest: str) -> bool:
        """Whether it is about a tool of this version, and that it only reads."""
        return self.word is TrustedWord.READS and self.digest == digest


class ToolTrust(Struct, frozen=True):
    """What is believed of the tools of one version: by tool, who said so."""

    reads: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])


NO_TRUST: Final = ToolTrust()
_COLUMNS: Final = "tool, word, digest, hash, trusted_by, trusted_at"


def trust_in_force(
    rows: Sequence[ToolTrustRow], digest: str, accepted_hashes: Mapping[str, str | None] | None
) -> ToolTrust:
    """Return what is believed of the tools of a version.

    Args:
        rows: The rows of its plugin.
        digest: The digest of the version's files.
        accepted_hashes: The accepted definitions of its server by tool; None where the package declares its tools.
    """
    if not rows:
        return NO_TRUST
    current = [
        row
        for row in rows
        if row.digest == digest
        and row.hash == (DECLARED_HASH if accepted_hashes is None else accepted_hashes.get(row.tool))
    ]
    reads, errors = (
        {row.tool: row.trusted_by for row in current if row.word is word}
        for word in (TrustedWord.READS, TrustedWord.ERRORS)
    )
    return ToolTrust(reads, errors) if current else NO_TRUST


def may_trust_to_read(spec: CallableSpec) -> bool:
    """Whether a person may take a tool's word that it only reads: it says so, and nobody declared its effects."""
    return spec.effects is None and claim_of(spec.annotations) is Claim.READS


def apply_trust(spec: CallableSpec, trust: ToolTrust) -> CallableSpec:
    """Return the tool as read-only if a person takes its word for that."""
    if spec.name in trust.reads and may_trust_to_read(spec):
        return replace(spec, effects=(Effect.READ_ONLY,))
    return spec


def trust_of(tx: Transaction, tenant: Tenant, plugin: str) -> tuple[ToolTrustRow, ...]:
    """Return all rows of a plugin."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM tool_trust WHERE tenant = ? AND plugin = ? ORDER BY tool, word",  # noqa: S608
        (tenant, plugin),
    )
    return tuple(ToolTrustRow(**row | {"word": TrustedWord(row["word"])}) for row in rows)


def all_trust(tx: Transaction) -> dict[tuple[Tenant, str], tuple[ToolTrustRow, ...]]:
    """Return the rows of all plugins, by tenant and plugin."""
    rows = tx.all(f"SELECT tenant, plugin, {_COLUMNS} FROM tool_trust ORDER BY tenant, plugin, tool, word")  # noqa: S608
    by_plugin: dict[tuple[Tenant, str], tuple[ToolTrustRow, ...]] = {}
    for row in rows:
        key = (Tenant(row.pop("tenant")), row.pop("plugin"))
        by_plugin[key] = (*by_plugin.get(key, ()), ToolTrustRow(**row | {"word": TrustedWord(row["word"])}))
    return by_plugin


def save_trust(tx: Transaction, tenant: Tenant, plugin: PluginName, row: ToolTrustRow) -> None:
    """Save what is believed of a tool from now on, in place of what was believed of an earlier definition."""
    tx.execute(
        "INSERT INTO tool_trust (tenant, plugin, tool, word, digest, hash, trusted_by, trusted_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, plugin, tool, word) DO UPDATE SET digest = excluded.digest, hash = excluded.hash, "
        "trusted_by = excluded.trusted_by, trusted_at = excluded.trusted_at",
        (tenant, plugin, row.tool, row.word, row.digest, row.hash, row.trusted_by, row.trusted_at),
    )


def delete_trust(tx: Transaction, tenant: Tenant, plugin: PluginName, tool: str, word: TrustedWord) -> None:
    """Delete what is believed of a tool."""
    tx.execute(
        "DELETE FROM tool_trust WHERE tenant = ? AND plugin = ? AND tool = ? AND word = ?",
        (tenant, plugin, tool, word),
    )
