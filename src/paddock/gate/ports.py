"""Interfaces that the gate needs from other rooms: audit log, secrets, artifacts, observers and listeners of calls."""

from __future__ import annotations

from typing import Protocol

from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EventSource
from paddock.manifest.model import Manifest


class AuditLog(Protocol):
    """Records what happens. A host that cannot record what it does must not act."""

    @property
    def failing(self) -> PaddockError | None:
        """Why nothing can be recorded right now; None where it can."""
        ...

    def overloaded(self, tenant: str) -> bool:
        """Whether so much waits to be written that this tenant has to `wait_for_room` first."""
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
        """Record one event shortly, or `soon`; a function is called in another thread to make the event."""
        ...


class SecretChecker(Protocol):
    """Knows which secrets are set."""

    async def require(self, tenant: str, person: str | None, manifest: Manifest, operation: str | None) -> None:
        """Require that all secrets of an operation are set.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        ...


class ArtifactLookup(Protocol):
    """Knows the artifacts that the host stores."""

    async def find(self, tenant: Tenant, digest: str) -> object:
        """The artifact of this hash.

        Raises:
            NotFound: there is none.
        """
        ...


class CallObserver(Protocol):
    """Is told of every call that ended. Must be quick, and must not raise."""

    def call_ended(self, invocation: Invocation, /) -> None: ...


class CallListener(Protocol):
    """Follows one call."""

    @property
    def retains_result(self) -> bool:
        """Whether the result is only shown or stored by its receiver, and never changed."""
        ...

    def on_progress(self, unattended: bool) -> None:
        """The operator is still at work; `unattended`: the call goes on when nobody waits for it."""
        ...

    def on_ended(self, invocation: Invocation) -> None:
        """The call has ended, or waits for a person. Its caller gets the result or the error after this."""
        ...


class NullListener:
    """A listener that ignores everything."""

    retains_result = False

    def on_progress(self, unattended: bool) -> None: ...

    def on_ended(self, invocation: Invocation) -> None: ...


NULL_LISTENER = NullListener()
