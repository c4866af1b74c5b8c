"""The hashes of the ledger: what an entry commits to. Pure.

    commitment = sha256("paddock.ledger.personal.v1" NUL + salt + canonical(personal)), null where nothing is personal
    hash       = sha256("paddock.ledger.entry.v1" NUL + canonical({at, call, facts, id, personal: commitment, plugin,
                 prev, request, seq, tenant, type, v}))

Hashes within it are in hexadecimal; `prev` is the hash of the row before, and 64 zeros for the first. Canonical is
RFC 8785. The index columns plugin, call and request are hashed themselves; principal is a part of what is personal.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple, Protocol

import orjson

CHAIN_VERSION = 1
GENESIS_HASH = bytes(32)
SALT_BYTES = 16

_ENTRY_DOMAIN = sha256(b"paddock.ledger.entry.v1\0")
_PERSONAL_DOMAIN = sha256(b"paddock.ledger.personal.v1\0")


class SealedEntry(NamedTuple):
    """A row of the ledger as it stands in the table. Facts and personal are canonical JSON."""

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

    @property
    def erased(self) -> bool:
        """Whether something personal was here and is not any more."""
        return self.commitment is not None and self.personal is None


COLUMNS = ", ".join(SealedEntry._fields)


def commit_personal(salt: bytes, personal: bytes) -> bytes:
    """The commitment to what is personal. Without the salt nobody can try out what it was."""
    digest = _PERSONAL_DOMAIN.copy()
    digest.update(salt + personal)
    return digest.digest()


class HashedContent(Protocol):
    """What of an entry is hashed beside its facts and its place in the chain."""

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


def entry_hash(prev: bytes, tenant: str, seq: int, content: HashedContent, facts: bytes) -> bytes:
    """The hash of an entry at this place of a chain.

    Raises:
        TypeError: a text is none.
    """
    commitment = content.commitment
    # The keys stand in the order of the standard. Texts and small numbers orjson writes as the standard does.
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
    digest = _ENTRY_DOMAIN.copy()
    digest.update(orjson.dumps(record))
    return digest.digest()
