"""The numbers that stand for a tenant, for a kind of entry and for a template, in the rows of the ledger."""

from __future__ import annotations

from hashlib import sha256

from paddock.store.database import Transaction

_DIGEST_BYTES = 16


class ChainDictionary:
    """Looks up the kinds and templates of one chain within one transaction, and adds new ones.

    The caller has locked the chain's head, so that nobody else adds one at the same time. Nothing is kept beyond the
    transaction: it may be rolled back.
    """

    def __init__(self, tx: Transaction, chain: int) -> None:
        self._tx = tx
        self._chain = chain
        self._kinds: dict[tuple[str, str], int] = {}
        self._templates: dict[bytes, int] = {}

    def kind(self, entry_type: str, facts: str) -> int:
        """Return the number of a kind."""
        number = self._kinds.get((entry_type, facts))
        if number is None:
            number = self._kinds[entry_type, facts] = self._find_kind(entry_type, facts)
        return number

    def template(self, facts: bytes) -> int:
        """Return the number of a template."""
        number = self._templates.get(facts)
        if number is None:
            number = self._templates[facts] = self._find_template(facts)
        return number

    def _find_kind(self, entry_type: str, facts: str) -> int:
        found = self._tx.one(
            "SELECT kind FROM ledger_kinds WHERE chain = ? AND type = ? AND facts = ?",
            (self._chain, entry_type, facts),
        )
        if found is not None:
            return found["kind"]
        last = self._tx.one("SELECT max(kind) AS number FROM ledger_kinds WHERE chain = ?", (self._chain,))
        number = ((last["number"] if last else None) or 0) + 1
        self._tx.execute(
            "INSERT INTO ledger_kinds (chain, kind, type, facts) VALUES (?, ?, ?, ?)",
            (self._chain, number, entry_type, facts),
        )
        return number

    def _find_template(self, facts: bytes) -> int:
        # By digest: PostgreSQL indexes no text beyond some thousand bytes.
        digest = sha256(facts).digest()[:_DIGEST_BYTES]
        found = self._tx.one(
            "SELECT template FROM ledger_templates WHERE chain = ? AND digest = ?", (self._chain, digest)
        )
        if found is not None:
            return found["template"]
        last = self._tx.one("SELECT max(template) AS number FROM ledger_templates WHERE chain = ?", (self._chain,))
        number = ((last["number"] if last else None) or 0) + 1
        self._tx.execute(
            "INSERT INTO ledger_templates (chain, template, digest, facts) VALUES (?, ?, ?, ?)",
            (self._chain, number, digest, facts.decode()),
        )
        return number


def add_chain(tx: Transaction, tenant: str) -> int:
    """Return the number of a tenant's chain, which is created if it has none."""
    found = tx.one("SELECT chain FROM ledger_chains WHERE tenant = ?", (tenant,))
    if found is not None:
        return found["chain"]
    last = tx.one("SELECT max(chain) AS number FROM ledger_chains")
    number = ((last["number"] if last else None) or 0) + 1
    tx.execute("INSERT INTO ledger_chains (chain, tenant) VALUES (?, ?)", (number, tenant))
    return number
