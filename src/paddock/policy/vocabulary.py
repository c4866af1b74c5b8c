"""The words that rules may use for what the world consists of. Each list is closed: any other word fails at load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from paddock.manifest.capability import HOST_FAMILIES
from paddock.manifest.effects import Effect
from paddock.manifest.flags import Flag
from paddock.manifest.model import Kind

#: Tags that plugins of the documented examples carry, and those that the shipped rules speak of.
SHIPPED_TAGS: Final = (
    "draft_only",
    "external_send",
    "overrides_identity_core",
    "overrides_safety_guardrails",
    "overrides_user_sovereignty",
    "pii_access",
    "pii_allowed",
    "proposal_only",
    "read_only",
    "writes_final",
)
#: Roles that the shipped rules know. Any other word may be a role too.
SHIPPED_ROLES: Final = ("operator", "approver", "member", "guest")
TIERS: Final = ("personal", "community", "verified")
#: What a signature is worth; `embedded` and `remote` code has no package that could be signed.
SIGNATURES: Final = ("unsigned", "community-signed", "verified", "modified", "embedded", "remote")
#: What a plugin can ask of the host: its services, and its tables, files, programs and connections.
FAMILIES: Final = (*sorted(HOST_FAMILIES), "exec", "fs", "net", "tables")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The closed lists. Only the tags are the operator's to add to (setting `policy.tags`)."""

    tags: tuple[str, ...] = SHIPPED_TAGS

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The words of each list, by the name that rules use for it."""
        return {
            "Effect": tuple(map(str, Effect)),
            "Family": FAMILIES,
            "Flag": tuple(map(str, Flag)),
            "Kind": tuple(map(str, Kind)),
            "Signature": SIGNATURES,
            "Tag": self.tags,
            "Tier": TIERS,
        }


def vocabulary(own_tags: Iterable[str] = ()) -> Vocabulary:
    """The shipped words and one's own tags."""
    return Vocabulary(tuple(sorted({*SHIPPED_TAGS, *own_tags})))
