"""Who may read an artifact: callables that made it, and principals that it was handed to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from paddock.capabilities.artifacts.rows import StoredArtifact, find_own_artifact
from paddock.store.database import Transaction


class ArtifactMaker(NamedTuple):
    """A callable during whose calls its plugin stored an artifact."""

    plugin: str
    callable: str


def record_maker(tx: Transaction, tenant: str, digest: str, maker: ArtifactMaker) -> None:
    """Record that a callable made an artifact."""
    tx.execute(
        "INSERT INTO artifact_makers (tenant, digest, plugin, callable) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (tenant, digest, *maker),
    )


def list_makers(tx: Transaction, tenant: str, digest: str) -> list[ArtifactMaker]:
    """List the callables that made an artifact."""
    rows = tx.all(
        "SELECT plugin, callable FROM artifact_makers WHERE tenant = ? AND digest = ? ORDER BY plugin, callable",
        (tenant, digest),
    )
    return [ArtifactMaker(**row) for row in rows]


def record_recipients(
    tx: Transaction, tenant: str, plugin: str, digests: Iterable[str], principals: Collection[str]
) -> None:
    """Record that a plugin handed its own artifacts to these principals. Addresses of others grant nothing."""
    for digest in sorted(digests):
        if find_own_artifact(tx, tenant, plugin, digest) is None:
            continue
        for principal in principals:
            tx.execute(
                "INSERT INTO artifact_recipients (tenant, digest, principal, plugin) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (tenant, digest, principal, plugin),
            )


def find_received(tx: Transaction, tenant: str, digest: str, principal: str) -> StoredArtifact | None:
    """Return the artifact of this hash that was handed to a principal."""
    rows = tx.all(
        "SELECT plugin FROM artifact_recipients WHERE tenant = ? AND digest = ? AND principal = ? ORDER BY plugin",
        (tenant, digest, principal),
    )
    received = (find_own_artifact(tx, tenant, row["plugin"], digest) for row in rows)
    return next((artifact for artifact in received if artifact is not None), None)


def forget_readers(tx: Transaction, tenant: str, plugin: str, digest: str) -> None:
    """Forget who may read a plugin's artifact, which it deletes."""
    for table in ("artifact_makers", "artifact_recipients"):
        tx.execute(
            f"DELETE FROM {table} WHERE tenant = ? AND digest = ? AND plugin = ?",  # noqa: S608 - our own tables
            (tenant, digest, plugin),
        )


def forget_readers_of_plugin(tx: Transaction, plugin: str) -> None:
    """Forget who may read the artifacts of an uninstalled plugin, for all tenants."""
    tx.execute("DELETE FROM artifact_makers WHERE plugin = ?", (plugin,))
    tx.execute("DELETE FROM artifact_recipients WHERE plugin = ?", (plugin,))


def forget_recipients(tx: Transaction, tenant: str, principals: Collection[str]) -> int:
    """Forget what was handed to these principals: a later holder of the name starts with nothing."""
    return sum(
        tx.execute("DELETE FROM artifact_recipients WHERE tenant = ? AND principal = ?", (tenant, principal))
        for principal in principals
    )
