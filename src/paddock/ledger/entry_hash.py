"""The hashes of the ledger: what an entry commits to. Pure.

    commitment = sha256("paddock.ledger.personal.v1" NUL + salt + canonical(personal)), null without personal data
    hash       = sha256("paddock.ledger.entry.v1" NUL + canonical({at, call, facts, id, personal: commitment, plugin,
                 prev, request, seq, tenant, type, v}))

Inner hashes are written in hexadecimal. `prev` is the hash of the previous row, or 64 zeros for the first. Canonical
means RFC 8785. The index columns plugin, call and request are hashed directly; principal is part of the personal data.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple, Protocol

import orjson

CHAIN_VERSION = 1
GENESIS_HASH = bytes(32)
SALT_BYTES = 16

_ENTRY_DOMAIN = b"paddock.ledger.entry.v1\0"
_PERSONAL_DOMAIN = b"paddock.ledger.personal.v1\0"


class SealedEntry(NamedTuple):
    """A ledger entry with everything that is hashed. Facts and personal are canonical JSON."""

    tenant: str
    seq: int
    id: str
    at: str
    type: str
    plugin: str | None
    call: str | None
    request: str | None
    principal: str | None
    facts: str
    personal: str | None
    salt: bytes | None
    commitment: bytes | None
    hash: bytes
    listed: str | None = None
    """The facts by which the row is listed, which are no part of the hash; None if it is not in the table."""
    facts_checked: bool = False
    """Whether the facts are known to be canonical, and those by which the row is listed to be among them."""
    commitment_computed: bool = False
    """Whether the commitment is not stored, but follows from personal and salt."""

    @property
    def erased(self) -> bool:
        """Whether the row had personal data that has been erased."""
        return self.commitment is not None and self.personal is None


def commit_personal(salt: bytes, personal: bytes) -> bytes:
    """Return the commitment to personal data. Without the salt, guesses at its content cannot be checked."""
    return sha256(_PERSONAL_DOMAIN + salt + personal).digest()


class HashedContent(Protocol):
    """The parts of an entry that are hashed besides its facts and its position in the chain."""

    @property
    def id(self) -> str: ...
    @property
    def at(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def plugin(self) -> str | None: ...
    @property
    def call(self) -> str | None: ...
    @property
    def request(self) -> str | None: ...
    @property
    def commitment(self) -> bytes | None: ...


def entry_hash(prev: bytes, tenant: str, seq: int, content: HashedContent, facts: bytes | str) -> bytes:
    """Return the hash of an entry at this position of a chain.

    Raises:
        TypeError: a string is not valid Unicode.
    """
    commitment = content.commitment
    # The keys are in RFC 8785 order. orjson encodes strings and small integers as that standard does.
    record = {
        "at": content.at,
        "call": content.call,
        "facts": orjson.Fragment(facts),
        "id": content.id,
        "personal": None if commitment is None else commitment.hex(),
        "plugin": content.plugin,
        "prev": prev.hex(),
        "request": content.request,
        "seq": seq,
        "tenant": tenant,
        "type": content.type,
        "v": CHAIN_VERSION,
    }
    # Joining is faster than updating a copy of a digest: every row is hashed, when written and when verified.
    return sha256(_ENTRY_DOMAIN + orjson.dumps(record)).digest()
