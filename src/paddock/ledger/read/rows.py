"""Reads rows of a chain and puts together what is stored once for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from paddock.ledger.canonical_text import are_plain_values, canonical_samples
from paddock.ledger.entry_hash import SealedEntry, commit_personal
from paddock.ledger.stored_row import COLUMN_NAMES, Template, select_listed
from paddock.store.database import Transaction

_MAX_KEPT_TEMPLATES: Final = 10_000
_READ_COLUMNS: Final = ", ".join(COLUMN_NAMES[1:])


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
        query = f"SELECT {_READ_COLUMNS} FROM ledger{hint} WHERE chain = ? AND {condition}"  # noqa: S608 - conditions are ours
        return self._entries(tx, tx.tuples(query, (self.chain, *values)), sealed=sealed)

    def _entries(self, tx: Transaction, rows: Sequence[tuple[Any, ...]], *, sealed: bool) -> list[SealedEntry]:
        """Put rows together. Everything is in one loop: verification does this a million times."""
        entries: list[SealedEntry] = []
        kinds, templates, tenant = self._kinds, self._templates, self.tenant
        for (
            seq, entry_id, at, kind_number, plugin, call, request, principal, template_number, facts, personal, salt,
            commitment, row_hash,
        ) in rows:  # fmt: skip
            kind = kinds.get(kind_number) or self._read_kind(tx, kind_number)
            facts_checked = computed = False
            if template_number is not None:
                template = templates.get(template_number) or self._read_template(tx, template_number)
                values = facts
                try:
                    facts = template.fill(values, call, request)
                    facts_checked = sealed and are_plain_values(values) and template.is_listed_as(kind)
                except (TypeError, ValueError):
                    pass  # forged: these are not the facts that were hashed
            if sealed and commitment is None and personal is not None and salt is not None:
                commitment, computed = commit_personal(salt, personal.encode()), True
            entries.append(
                SealedEntry(
                    tenant, seq, entry_id, at, kind.type, plugin, call, request, principal, facts, personal, salt,
                    commitment, row_hash, kind.facts, facts_checked, computed,
                )
            )  # fmt: skip
        return entries

    def _read_kind(self, tx: Transaction, number: int) -> Kind:
        found = tx.one("SELECT type, facts FROM ledger_kinds WHERE chain = ? AND kind = ?", (self.chain, number))
        kind = self._kinds[number] = Kind(found["type"], found["facts"]) if found else _UNKNOWN_KIND
        return kind

    def _read_template(self, tx: Transaction, number: int) -> _Template:
        if len(self._templates) >= _MAX_KEPT_TEMPLATES:
            self._templates.clear()
        found = tx.one("SELECT facts FROM ledger_templates WHERE chain = ? AND template = ?", (self.chain, number))
        template = self._templates[number] = _Template(found["facts"] if found else "")
        return template


class _Template:
    """A template, and as which kinds its entries may be listed."""

    def __init__(self, text: str) -> None:
        self.fill = Template(text).fill
        self._samples = canonical_samples(text.encode())
        self._listed: dict[Kind, bool] = {}

    def is_listed_as(self, kind: Kind) -> bool:
        """Whether the template makes canonical facts, and those by which the kind is listed are among them."""
        known = self._listed.get(kind)
        if known is None:
            known = bool(self._samples) and all(select_listed(kind.type, one) == kind.facts for one in self._samples)
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
