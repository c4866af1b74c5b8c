"""Limits of calls as values, for rate limits and daily quotas. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, assert_never

from msgspec import Struct

LimitScope: TypeAlias = Literal["tenant", "principal", "plugin"]


class LimitKey(NamedTuple):
    """Counter key: a whole tenant, one of its principals, or one of its plugins."""

    tenant: str
    scope: LimitScope
    name: str

    def describe_use(self, limit: int) -> str:
        """Describe the usage for the error message of a refused call."""
        verb = "had" if self.scope == "plugin" else "made"
        return f"{self.name or 'your tenant'} has {verb} {limit:,} calls"


class CallLimits(Struct, frozen=True):
    """Maximum number of calls per scope; None means unlimited."""

    per_tenant: int | None = None
    per_principal: int | None = None
    per_plugin: int | None = None

    def limit_for(self, key: LimitKey) -> int | None:
        """Return the limit that applies to a key."""
        match key.scope:
            case "tenant":
                return self.per_tenant
            case "principal":
                return self.per_principal
            case "plugin":
                return self.per_plugin
            case _:
                assert_never(key.scope)


NO_LIMITS = CallLimits()
