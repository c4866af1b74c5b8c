"""Whose chains there are, or should be: asked of the database, and of what lies outside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from paddock.core.errors import HostError, NotFound
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable
from paddock.ledger.checkpoint import checkpointed, kept_lines
from paddock.ledger.feed import has_chain, tenants
from paddock.store.database import DirectDatabase

Kept = Mapping[str, Sequence[bytes]]
"""Checkpoints that were kept elsewhere: their lines, by the name of the file."""


def everyone(database: DirectDatabase, state: Path, kept: Kept | None = None) -> list[str]:
    """Everyone who has a chain, or should have: whoever empties the database does not empty what was signed.

    Raises:
        HostError: `ledger.checkpoints`, when the files in this home cannot be read.
    """
    named = {tenant_of(line) for line in _all(kept or {})}
    return sorted({*database.read(tenants), *checkpointed(state), *(one for one in named if one is not None)})


def require_known(database: DirectDatabase, state: Path, tenant: str, kept: Kept | None = None) -> None:
    """Refuse a name that nobody has: nothing would be found of it, and nothing wrong.

    Raises:
        NotFound: there is no such tenant.
    """
    if tenant == DEFAULT_TENANT or database.read(lambda tx: has_chain(tx, tenant)):
        return
    if tenant not in checkpointed(state) and not any(tenant_of(line) == tenant for line in _all(kept or {})):
        raise NotFound(
            f"there is no tenant {printable(tenant, 80)!r}", code="tenant.not_found", hint="see 'paddock tenant list'"
        )


def read_kept(files: Sequence[Path]) -> dict[str, list[bytes]]:
    """The lines of files that have to be there, and to hold something.

    Raises:
        HostError: `ledger.checkpoints`, when one is missing, empty or cannot be read.
    """
    kept: dict[str, list[bytes]] = {}
    for file in files:
        if not file.is_file():
            raise HostError(f"there is no file {file}", code="ledger.checkpoints")
        kept[str(file)] = kept_lines(file)
        if not kept[str(file)]:
            raise HostError(f"{file} holds no checkpoint", code="ledger.checkpoints")
    return kept


def about(tenant: str, kept: Kept) -> dict[str, list[bytes]]:
    """Those of the lines that are about one tenant, and those that do not say about whom they are."""
    return {name: [line for line in lines if tenant_of(line) in (tenant, None)] for name, lines in kept.items()}


def tenant_of(line: bytes) -> str | None:
    """Whom a line is about, whether or not it can be believed; None where it does not say."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = cast("dict[str, Any]", read).get("tenant") if isinstance(read, dict) else None
    return found if isinstance(found, str) else None


def _all(kept: Kept) -> Iterable[bytes]:
    return (line for lines in kept.values() for line in lines)
