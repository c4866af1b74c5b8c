"""The artifacts service's rows: which plugin owns which artifact, and each plugin's totals."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from paddock.core.errors import CallerError, NotFound
from paddock.store.database import Row, Transaction

MIB = 1 << 20


class ArtifactLimits(Struct, frozen=True):
    """Size limits and quotas.

    Attributes:
        artifact_bytes: Bytes of one artifact.
        plugin_bytes: Bytes of all artifacts of one plugin for one tenant.
        plugin_count: Number of these artifacts.
    """

    artifact_bytes: int = 50 * MIB
    plugin_bytes: int = 1024 * MIB
    plugin_count: int = 100_000


class StoredArtifact(Struct, frozen=True):
    """A committed artifact."""

    digest: str
    media_type: str
    size: int
    created_at: str


def find_own_artifact(tx: Transaction, tenant: str, plugin: str, digest: str) -> StoredArtifact | None:
    """Return the plugin's own artifact of this hash."""
    return _artifact_from_row(
        tx.one(
            "SELECT digest, media_type, size, created_at FROM plugin_artifacts"
            " WHERE tenant = ? AND plugin = ? AND digest = ?",
            (tenant, plugin, digest),
        )
    )


def find_artifact(tx: Transaction, tenant: str, digest: str) -> StoredArtifact | None:
    """Return the artifact of this hash, whichever plugin of the tenant owns it."""
    return _artifact_from_row(
        tx.one(
            "SELECT digest, media_type, size, created_at FROM plugin_artifacts"
            " WHERE tenant = ? AND digest = ? ORDER BY created_at, plugin LIMIT 1",
            (tenant, digest),
        )
    )


def require_artifact(tx: Transaction, tenant: str, digest: str) -> StoredArtifact:
    """Return the artifact of this hash; see `find_artifact`.

    Raises:
        NotFound: there is none.
    """
    artifact = find_artifact(tx, tenant, digest)
    if artifact is None:
        raise artifact_not_found_error()
    return artifact


def artifact_not_found_error() -> NotFound:
    """Build the error for an address of which there is no artifact."""
    return NotFound(
        "there is no such artifact",
        code="artifacts.unknown",
        hint="an artifact exists until its plugin deletes it or is removed",
    )


def insert_artifact(
    tx: Transaction, tenant: str, plugin: str, artifact: StoredArtifact, limits: ArtifactLimits
) -> bool:
    """Record that the plugin owns this artifact and return whether that is new. An existing row stays unchanged.

    Raises:
        CallerError: `artifacts.full` when this would exceed the quota.
    """
    # First: on PostgreSQL, concurrent changes by one plugin wait for this row.
    before, count = _locked_totals(tx, tenant, plugin)
    if find_own_artifact(tx, tenant, plugin, artifact.digest) is not None:
        return False
    check_quota(plugin, before + artifact.size, count + 1, limits)
    tx.execute(
        "INSERT INTO plugin_artifacts (tenant, plugin, digest, media_type, size, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (tenant, plugin, artifact.digest, artifact.media_type, artifact.size, artifact.created_at),
    )
    _add_to_totals(tx, tenant, plugin, before + artifact.size, count + 1)
    return True


def stored_totals(tx: Transaction, tenant: str, plugin: str) -> tuple[int, int]:
    """Return the bytes and number of a plugin's artifacts."""
    row = tx.one("SELECT bytes, count FROM plugin_artifact_totals WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return (row["bytes"], row["count"]) if row else (0, 0)


def check_quota(plugin: str, size: int, count: int, limits: ArtifactLimits) -> None:
    """Check these totals against the quota.

    Raises:
        CallerError: `artifacts.full`.
    """
    if size > limits.plugin_bytes or count > limits.plugin_count:
        raise CallerError(
            f"{plugin} keeps as much as it may: {limits.plugin_bytes // MIB} MiB in {limits.plugin_count} artifacts",
            code="artifacts.full",
            hint="delete artifacts that are not needed any more",
            details={"limit_bytes": limits.plugin_bytes, "limit_count": limits.plugin_count},
        )


def delete_artifact(tx: Transaction, tenant: str, plugin: str, digest: str) -> bool:
    """Delete the plugin's ownership of an artifact and return whether there was one."""
    before, count = _locked_totals(tx, tenant, plugin)
    artifact = find_own_artifact(tx, tenant, plugin, digest)
    if artifact is None:
        return False
    tx.execute("DELETE FROM plugin_artifacts WHERE tenant = ? AND plugin = ? AND digest = ?", (tenant, plugin, digest))
    _add_to_totals(tx, tenant, plugin, before - artifact.size, count - 1)
    return True


def delete_all_artifacts(tx: Transaction, plugin: str) -> list[tuple[str, str]]:
    """Delete an uninstalled plugin's rows, for all tenants; return tenant and hash of those without another owner."""
    rows = tx.all("SELECT tenant, digest FROM plugin_artifacts WHERE plugin = ?", (plugin,))
    tx.execute("DELETE FROM plugin_artifacts WHERE plugin = ?", (plugin,))
    tx.execute("DELETE FROM plugin_artifact_totals WHERE plugin = ?", (plugin,))
    return find_unreferenced(tx, [(row["tenant"], row["digest"]) for row in rows])


def find_unreferenced(tx: Transaction, digests: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of these, each a tenant and a hash, that no plugin owns."""
    return [(tenant, digest) for tenant, digest in digests if find_artifact(tx, tenant, digest) is None]


def _artifact_from_row(row: Row | None) -> StoredArtifact | None:
    return None if row is None else StoredArtifact(row["digest"], row["media_type"], row["size"], row["created_at"])


def _locked_totals(tx: Transaction, tenant: str, plugin: str) -> tuple[int, int]:
    """Return `stored_totals` and lock their row."""
    tx.execute(
        "INSERT INTO plugin_artifact_totals (tenant, plugin, bytes, count) VALUES (?, ?, 0, 0)"
        " ON CONFLICT (tenant, plugin) DO UPDATE SET count = plugin_artifact_totals.count",
        (tenant, plugin),
    )
    return stored_totals(tx, tenant, plugin)


def _add_to_totals(tx: Transaction, tenant: str, plugin: str, size: int, count: int) -> None:
    tx.execute(
        "UPDATE plugin_artifact_totals SET bytes = ?, count = ? WHERE tenant = ? AND plugin = ?",
        (size, count, tenant, plugin),
    )
