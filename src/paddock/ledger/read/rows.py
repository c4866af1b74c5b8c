"""Reads rows of a chain and puts together what is stored once for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from paddock.ledger.canonical_text import are_plain_values, canonical_template
from paddock.ledger.entry_hash import SealedEntry, commit_personal
from paddock.ledger.stored_row import COLUMNS, Template, select_listed
from paddock.store.database import Transaction

_MAX_KEPT_TEMPLATES: Final = 10_000


class Kind(NamedTuple):
    """A type of entry, and the facts by which entries of it are listed, as canonical JSON."""

    type: str
    facts: str


_UNKNOWN_KIND: Final = Kind("", "")  # of a forged row, whose hash cannot fit then


class ChainRows:
    """Reads rows of one chain. Kinds and templates once read are kept: they never change.

    Args:
        tenant: The owner of the chain.
        chain: Its number.
    """

    def __init__(self, tenant: str, chain: int) -> None:
        self.tenant = tenant
        self.chain = chain
        self._kinds: dict[int, Kind] = {}
        self._templates: dict[int, _Template] = {}

    def select(
        self, tx: Transaction, condition: str, values: Sequence[Any], *, index: str = "", sealed: bool = True
    ) -> list[SealedEntry]:
        """Return the rows of the chain that meet a condition, with the order and limit that follow it.

        Args:
            tx: The transaction to read in.
            condition: SQL after `WHERE chain = ? AND`.
            values: Its parameters.
            index: The index that serves the condition, where SQLite may not see which one does.
            sealed: Whether the rows are to be hashed; to be shown, they need no commitment.
        """
        hint = f" INDEXED BY {index}" if index else ""
        query = f"SELECT {COLUMNS} FROM ledger{hint} WHERE chain = ? AND {condition}"  # noqa: S608 - conditions are ours
        return [self._entry(tx, sealed, *row) for row in tx.tuples(query, (self.chain, *values))]

    def _entry(
        self,
        tx: Transaction,
        sealed: bool,
        _chain: int,
        seq: int,
        entry_id: str,
        at: str,
        kind_number: int,
        plugin: str | None,
        call: str | None,
        request: str | None,
        principal: str | None,
        template_number: int | None,
        facts: str,
        personal: str | None,
        salt: bytes | None,
        commitment: bytes | None,
        row_hash: bytes,
    ) -> SealedEntry:
        kind = self._kinds.get(kind_number) or self._read_kind(tx, kind_number)
        facts_checked = False
        if template_number is not None:
            template = self._templates.get(template_number) or self._read_template(tx, template_number)
            values = facts.encode()
            try:
                facts = template.fill(values, call, request).decode()
                facts_checked = sealed and template.is_listed_as(kind) and are_plain_values(values)
            except (TypeError, ValueError):
                pass  # forged: these are not the facts that were hashed
        computed = sealed and commitment is None and personal is not None and salt is not None
        if computed:
            commitment = commit_personal(salt or b"", (personal or "").encode())
        return SealedEntry(
            self.tenant,
            seq,
            entry_id,
            at,
            kind.type,
            plugin,
            call,
            request,
            principal,
            facts,
            personal,
            salt,
            commitment,
            row_hash,
            kind.facts,
            facts_checked,
            computed,
        )

    def _read_kind(self, tx: Transaction, number: int) -> Kind:
        found = tx.one("SELECT type, facts FROM ledger_kinds WHERE chain = ? AND kind = ?", (self.chain, number))
        kind = self._kinds[number] = Kind(found["type"], found["facts"]) if found else _UNKNOWN_KIND
        return kind

    def _read_template(self, tx: Transaction, number: int) -> _Template:
        if len(self._templates) >= _MAX_KEPT_TEMPLATES:
            self._templates.clear()
        found = tx.one("SELECT facts FROM ledger_templates WHERE chain = ? AND template = ?", (self.chain, number))
        template = self._templates[number] = _Template(found["facts"].encode() if found else b"")
        return template


class _Template:
    """A template, and as which kinds its entries may be listed."""

    def __init__(self, text: bytes) -> None:
        self.fill = Template(text).fill
        self._sample = canonical_template(text)
        self._listed: dict[Kind, bool] = {}

    def is_listed_as(self, kind: Kind) -> bool:
        """Whether the template makes canonical facts, and those by which the kind is listed are among them."""
        known = self._listed.get(kind)
        if known is None:
            known = self._sample is not None and select_listed(kind.type, self._sample) == kind.facts
            self._listed[kind] = known
        return known


def find_chain(tx: Transaction, tenant: str) -> int | None:
    """Return the number of a tenant's chain; None if it has none."""
    row = tx.one("SELECT chain FROM ledger_chains WHERE tenant = ?", (tenant,))
    return row["chain"] if row else None


def read_kinds(tx: Transaction, chain: int) -> dict[int, Kind]:
    """Return all kinds of entries that a chain has, by number."""
    rows = tx.all("SELECT kind, type, facts FROM ledger_kinds WHERE chain = ?", (chain,))
    return {row["kind"]: Kind(row["type"], row["facts"]) for row in rows}
