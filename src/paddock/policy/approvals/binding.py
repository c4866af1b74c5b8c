"""What a person says yes to, as one hash: change anything of it and the yes is for something else. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from paddock.core.canonical import canonical_bytes

_DOMAIN = b"paddock.approval.v1\0"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be done, apart from who asks and with what: all that a standing approval is about.

    Attributes:
        digest: Of the plugin's files.
        definition: The hash of how the callable describes itself: its name, schemas, effects, texts.
        effects: What it may do to the world.
        policies: The rules that want a person asked, each as `id@hash of its text`.
    """

    tenant: str
    plugin: str
    callable: str
    digest: str
    definition: str
    effects: tuple[str, ...]
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """The exact thing: this payload, asked for by this requester, until then, to be answered by so many of these.

    Attributes:
        nonce: Makes two requests for the same thing two different things.
        approvers: `role:approver`, `group:editors` or a person's id; whoever has or is one of them may answer.
        editors: Who changed the parameters of the request that this one took the place of, where four eyes hold: they
            ask for it too.
    """

    subject: Subject
    kind: str
    payload_hash: str
    requester: str
    approvers: tuple[str, ...]
    quorum: int
    four_eyes: bool
    nonce: str
    expires_at: str
    editors: tuple[str, ...] = ()

    def hash(self) -> str:
        """`sha256:<hex>` over all of it."""
        return "sha256:" + hashlib.sha256(_DOMAIN + canonical_bytes(self.to_json())).hexdigest()

    def to_json(self) -> dict[str, object]:
        return asdict(self)
