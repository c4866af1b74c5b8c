"""Whose chains there are, or should be: asked of the database, and of what lies outside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from paddock.core.errors import HostError, NotFound
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable
from paddock.ledger.chain.checkpoint import read_copy_lines, tenants_with_checkpoints
from paddock.ledger.read.entries import has_chain, list_tenants
from paddock.store.database import DirectDatabase

AnchorLines = Mapping[str, Sequence[bytes]]
"""Checkpoints that were kept elsewhere: their lines, by the name of the file."""


def list_chain_tenants(database: DirectDatabase, state: Path, kept: AnchorLines | None = None) -> list[str]:
    """Everyone who has a chain, or should have: whoever empties the database does not empty what was signed.

    Raises:
        HostError: `ledger.checkpoints`, when the files in this home cannot be read.
    """
    named = {line_tenant(line) for line in _all_lines(kept or {})}
    return sorted(
        {*database.read(list_tenants), *tenants_with_checkpoints(state), *(one for one in named if one is not None)}
    )


def require_chain(database: DirectDatabase, state: Path, tenant: str, kept: AnchorLines | None = None) -> None:
    """Refuse a name that nobody has: nothing would be found of it, and nothing wrong.

    Raises:
        NotFound: there is no such tenant.
    """
    if tenant == DEFAULT_TENANT or database.read(lambda tx: has_chain(tx, tenant)):
        return
    if tenant not in tenants_with_checkpoints(state) and not any(
        line_tenant(line) == tenant for line in _all_lines(kept or {})
    ):
        raise NotFound(
            f"there is no tenant {printable(tenant, 80)!r}", code="tenant.not_found", hint="see 'paddock tenant list'"
        )


def read_anchor_files(files: Sequence[Path]) -> dict[str, list[bytes]]:
    """The lines of files that have to be there, and to hold something.

    Raises:
        HostError: `ledger.checkpoints`, when one is missing, empty or cannot be read.
    """
    kept: dict[str, list[bytes]] = {}
    for file in files:
        if not file.is_file():
            raise HostError(f"there is no file {file}", code="ledger.checkpoints")
        kept[str(file)] = read_copy_lines(file)
        if not kept[str(file)]:
            raise HostError(f"{file} holds no checkpoint", code="ledger.checkpoints")
    return kept


def lines_for_tenant(tenant: str, kept: AnchorLines) -> dict[str, list[bytes]]:
    """Those of the lines that are about one tenant, and those that do not say about whom they are."""
    return {name: [line for line in lines if line_tenant(line) in (tenant, None)] for name, lines in kept.items()}


def line_tenant(line: bytes) -> str | None:
    """Whom a line is about, whether or not it can be believed; None where it does not say."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = cast("dict[str, Any]", read).get("tenant") if isinstance(read, dict) else None
    return found if isinstance(found, str) else None


def _all_lines(kept: AnchorLines) -> Iterable[bytes]:
    return (line for lines in kept.values() for line in lines)
