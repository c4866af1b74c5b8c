"""What the rules say to a request: yes, no, or only with a person's yes. Each says which rules decided, and why.

Pure values. A decision made is never changed; it is recorded with the version of the rules that made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

ApprovalKind: TypeAlias = Literal["confirmation", "consent", "action", "gate"]
RememberLimit: TypeAlias = Literal["never", "tool", "plugin"]
DenyCause: TypeAlias = Literal["forbidden", "nothing_allows", "error"]

#: From the lightest to the strictest; where several rules ask, the strictest holds.
APPROVAL_KINDS: Final[tuple[ApprovalKind, ...]] = ("confirmation", "consent", "action", "gate")
#: From the strictest to the widest; where several rules ask, the strictest holds.
REMEMBER_LIMITS: Final[tuple[RememberLimit, ...]] = ("never", "tool", "plugin")
DEFAULT_APPROVERS: Final = ("role:approver", "role:operator")


@dataclass(frozen=True, slots=True)
class Allow:
    """It may happen, now."""

    word: ClassVar[str] = "allow"
    policies: tuple[str, ...]
    """Ids of the rules that decided."""
    reason: str
    """Their texts, for people."""
    version: str
    """Of the rules; `versions.py` has them all."""


@dataclass(frozen=True, slots=True)
class Deny:
    """It must not happen."""

    word: ClassVar[str] = "deny"
    policies: tuple[str, ...]
    """Ids of the rules that forbid it; empty where no rule allows it."""
    reason: str
    """For those who may know: the person who operates this host, and the ledger."""
    version: str
    cause: DenyCause = "forbidden"
    public_reason: str = ""
    """For everybody else, where a rule keeps its text from them; empty: the reason itself."""

    @property
    def caller_reason(self) -> str:
        """What whoever asked is told."""
        return self.public_reason or self.reason


@dataclass(frozen=True, slots=True)
class Ask:
    """It may happen once a person has said yes."""

    word: ClassVar[str] = "ask"
    policies: tuple[str, ...]
    """Ids of the rules that want a person asked."""
    reason: str
    version: str
    kind: ApprovalKind = "action"
    approvers: tuple[str, ...] = DEFAULT_APPROVERS
    """Who may answer an `action` or a `gate`: any of `role:…`, `group:…` or a principal's id."""
    four_eyes: bool | None = None
    """Whether it must be another person than the one who asks; None: as is usual for the tenant."""
    quorum: int = 1
    """How many people must say yes."""
    remember: RememberLimit = "never"
    """What a yes may be kept for."""
    public_reason: str = ""
    """For all who neither operate this host nor answer, where a rule keeps its text from them; empty: the reason."""

    @property
    def caller_reason(self) -> str:
        """What whoever asked is told."""
        return self.public_reason or self.reason


Decision: TypeAlias = Allow | Deny | Ask
