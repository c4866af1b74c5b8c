"""What somebody consented to, for themselves to see and to take back."""

from __future__ import annotations

from paddock.core.call import Principal
from paddock.host.changes import Changes
from paddock.principals.consents import Consent, consents, revoke_consent


class Consents:
    """Everybody's own, and nobody else's. A key takes nothing back that its owner said."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def of(self, who: Principal) -> list[Consent]:
        """What stands of somebody's consents."""
        return await self._changes.read(lambda tx: consents(tx, who.tenant, who.id))

    async def revoke(self, who: Principal, plugin: str, callable_name: str) -> Consent:
        """Take one back; the next call needs a new one.

        Raises:
            NotFound: there is none that stands.
        """
        return await self._changes.make(who, lambda made: revoke_consent(made, who.id, plugin, callable_name))
