"""Who stands beside the door: where calls are recorded, who knows of secrets and artifacts, and who hears of calls."""

from __future__ import annotations

from typing import Protocol

from paddock.core.errors import PaddockError
from paddock.core.ids import CallId, Tenant
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EventSource
from paddock.manifest.model import Manifest


class AuditLog(Protocol):
    """Where what happens is recorded. A host that cannot record what it does must not act."""

    @property
    def failing(self) -> PaddockError | None:
        """Why nothing can be recorded right now."""
        ...

    def overloaded(self, tenant: str) -> bool:
        """Whether so much waits to be written that this tenant should wait for `room` before it makes more."""
        ...

    async def wait_for_room(self, tenant: str) -> None:
        """Wait until there is room for more of this tenant."""
        ...

    def enqueue(
        self,
        event: EventSource,
        tenant: str,
        *,
        call: str | None = None,
        request: str | None = None,
        principal: str | None = None,
        soon: bool = False,
    ) -> None:
        """Record one event in a moment, or `soon`, with its call; or what makes the event, in another thread."""
        ...


class SecretChecker(Protocol):
    """Knows which secrets are set."""

    async def require(self, tenant: str, person: str | None, manifest: Manifest, operation: str | None) -> None:
        """Refuse a call to an operation some of whose secrets are not.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        ...


class ArtifactLookup(Protocol):
    """Knows what plugins have left with the host."""

    async def find(self, tenant: Tenant, digest: str) -> object:
        """The artifact of this hash.

        Raises:
            NotFound: nobody keeps one.
        """
        ...


class CallObserver(Protocol):
    """Who hears of calls besides the ledger. Must be quick, and must not raise."""

    def call_ended(self, invocation: Invocation) -> None: ...


class CallListener(Protocol):
    """Who hears more of a call than what comes of it."""

    @property
    def retains_result(self) -> bool:
        """Whether nobody changes what comes of it, but shows it or keeps it."""
        ...

    def on_replay(self, of: CallId) -> None:
        """This is what came of a former call under the same key."""
        ...

    def on_undisclosed(self, undisclosed: tuple[str, ...]) -> None:
        """It used these without saying so; see `CallEnded`."""
        ...

    def on_in_doubt(self) -> None:
        """Nobody knows whether it has happened, where it was cancelled for instance."""
        ...

    def on_progress(self, goes_on: bool) -> None:
        """Its operator is still at work, and goes on or does not when nobody waits for it."""
        ...


class NullListener:
    """Nobody watches."""

    retains_result = False

    def on_replay(self, of: CallId) -> None: ...

    def on_undisclosed(self, undisclosed: tuple[str, ...]) -> None: ...

    def on_in_doubt(self) -> None: ...

    def on_progress(self, goes_on: bool) -> None: ...


NULL_LISTENER = NullListener()
