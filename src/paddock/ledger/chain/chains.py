"""The tenants that have, or should have, a chain: according to the database and to the files outside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from paddock.core.errors import HostError
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.chain.checkpoint import read_copy_lines, tenants_with_checkpoints
from paddock.ledger.read.entries import has_chain, list_tenants
from paddock.principals.tenants import unknown_tenant_error
from paddock.store.database import DirectDatabase

AnchorLines = Mapping[str, Sequence[bytes]]
"""Copies of checkpoints kept elsewhere: their lines, by file name."""


def list_chain_tenants(database: DirectDatabase, state: Path, copies: AnchorLines | None = None) -> list[str]:
    """Return every tenant that has or should have a chain. Emptying the database does not hide signed ones.

    Raises:
        HostError: `ledger.checkpoints`, when the files in this home cannot be read.
    """
    in_copies = {line_tenant(line) for line in _all_lines(copies or {})}
    return sorted(
        {
            *database.read(list_tenants),
            *tenants_with_checkpoints(state),
            *(tenant for tenant in in_copies if tenant is not None),
        }
    )


def require_chain(database: DirectDatabase, state: Path, tenant: str, copies: AnchorLines | None = None) -> None:
    """Refuse an unknown tenant: verification would find no rows, and nothing wrong.

    Raises:
        NotFound: there is no such tenant.
    """
    if tenant == DEFAULT_TENANT or database.read(lambda tx: has_chain(tx, tenant)):
        return
    if tenant not in tenants_with_checkpoints(state) and not any(
        line_tenant(line) == tenant for line in _all_lines(copies or {})
    ):
        raise unknown_tenant_error(tenant)


def read_anchor_files(files: Sequence[Path]) -> dict[str, list[bytes]]:
    """Read checkpoint copies, which must exist and must not be empty.

    Raises:
        HostError: `ledger.checkpoints`, when one is missing, empty or cannot be read.
    """
    copies: dict[str, list[bytes]] = {}
    for file in files:
        if not file.is_file():
            raise HostError(f"there is no file {file}", code="ledger.checkpoints")
        copies[str(file)] = read_copy_lines(file)
        if not copies[str(file)]:
            raise HostError(f"{file} contains no checkpoint", code="ledger.checkpoints")
    return copies


def lines_for_tenant(tenant: str, copies: AnchorLines) -> dict[str, list[bytes]]:
    """Return the lines about one tenant, and those that name no tenant."""
    return {name: [line for line in lines if line_tenant(line) in (tenant, None)] for name, lines in copies.items()}


def line_tenant(line: bytes) -> str | None:
    """Return the tenant that a line names, trusted or not; None where it names none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    tenant = cast("dict[str, Any]", value).get("tenant") if isinstance(value, dict) else None
    return tenant if isinstance(tenant, str) else None


def _all_lines(copies: AnchorLines) -> Iterable[bytes]:
    return (line for lines in copies.values() for line in lines)
