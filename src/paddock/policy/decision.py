"""Policy decisions: allow, deny, or ask a person first. Each names the rules that decided, and the reason.

Pure, immutable values. A decision is recorded with the version of the rules that made it.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

from msgspec import Struct

DecisionWord: TypeAlias = Literal["allow", "deny", "ask"]
ApprovalKind: TypeAlias = Literal["confirmation", "consent", "action", "gate"]
RememberLimit: TypeAlias = Literal["never", "tool", "plugin"]
DenyCause: TypeAlias = Literal["forbidden", "nothing_allows", "error"]

#: From the lightest to the strictest; if several rules ask, the strictest wins.
APPROVAL_KINDS: Final[tuple[ApprovalKind, ...]] = ("confirmation", "consent", "action", "gate")
#: From the strictest to the widest; if several rules ask, the strictest wins.
REMEMBER_LIMITS: Final[tuple[RememberLimit, ...]] = ("never", "tool", "plugin")
DEFAULT_APPROVERS: Final = ("role:approver", "role:operator")


class Allow(Struct, frozen=True):
    """The action may happen now."""

    word: ClassVar[str] = "allow"
    policies: tuple[str, ...]
    """Ids of the rules that decided."""
    reason: str
    """Their texts, for people."""
    version: str
    """The version of the rules; `versions.py` stores them all."""


class Deny(Struct, frozen=True):
    """The action must not happen."""

    word: ClassVar[str] = "deny"
    policies: tuple[str, ...]
    """Ids of the rules that forbid it; empty if no rule permits it."""
    reason: str
    """For those who may see it: operators of this host, and the ledger."""
    version: str
    cause: DenyCause = "forbidden"
    public_reason: str = ""
    """For everybody else, if a rule withholds its text from them; empty: the reason itself."""

    @property
    def caller_reason(self) -> str:
        """The reason that the caller is told."""
        return self.public_reason or self.reason


class Ask(Struct, frozen=True):
    """The action may happen once a person has approved it."""

    word: ClassVar[str] = "ask"
    policies: tuple[str, ...]
    """Ids of the rules that require an approval."""
    reason: str
    version: str
    kind: ApprovalKind = "action"
    approvers: tuple[str, ...] = DEFAULT_APPROVERS
    """Who may answer an `action` or a `gate`: any of `role:…`, `group:…` or a principal's id."""
    four_eyes: bool | None = None
    """Whether the approver must be another person than the requester; None: the tenant's default."""
    quorum: int = 1
    """How many people must approve."""
    remember: RememberLimit = "never"
    """How far a confirmation may be remembered; nothing else is."""
    public_reason: str = ""
    """For all but operators and approvers, if a rule withholds its text from them; empty: the reason."""

    @property
    def caller_reason(self) -> str:
        """The reason that the caller is told."""
        return self.public_reason or self.reason


Decision: TypeAlias = Allow | Deny | Ask
