"""The one door: every call, whoever makes it, is resolved, checked, run and checked again here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from paddock.core.call import CallContext
from paddock.core.errors import CallerError, Invalid, PaddockError
from paddock.gate.catalogue import Catalogue, Target
from paddock.plugins.runtimes.envelopes import OutputInvalid, checked_part
from paddock.plugins.runtimes.scopes import require_scopes
from paddock.plugins.supervision.flight import OnEvent
from paddock.plugins.supervision.questions import Ask
from paddock.plugins.supervision.supervisor import Supervisor


class Records(Protocol):
    """Where what happens is recorded. A host that cannot record what it does must not act."""

    @property
    def failing(self) -> PaddockError | None:
        """Why nothing can be recorded right now."""
        ...

    async def room(self) -> None:
        """Wait until there is room for more."""
        ...


@dataclass(slots=True)
class Gate:
    """Built once by the host, which replaces the catalogue when plugins come and go."""

    supervisor: Supervisor
    records: Records
    catalogue: Catalogue = field(default_factory=Catalogue)

    async def call(
        self,
        target: Target,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        on_event: OnEvent | None = None,
        ask: Ask | None = None,
    ) -> Any:
        """Run one call and give its result.

        `on_event` hears what the plugin tells meanwhile; `ask` puts its questions to whoever makes the call, which are
        declined without it.

        Raises:
            Denied: the caller lacks a scope, or the plugin describes the callable otherwise than somebody accepted.
            Invalid: the payload does not fit; carries every mistake.
            Failed: it does not fit either, and the plugin does not run.
            OutputInvalid: the answer does not fit what the plugin promised.
            PaddockError: see `Supervisor.call`.
        """
        await self._recording()
        reserved = sorted(name for name in payload if name in ("_context", "_call"))
        if reserved:
            raise CallerError(f"{', '.join(reserved)} belongs to the host", code="invalid_params", hint="leave it out")
        if target.lists_itself:
            target = await self._met(target)
        require_scopes(target.key.plugin, target.asked, target.spec.required_scopes, context.principal)
        problems = target.input.errors(dict(payload))
        if problems:
            self.supervisor.require_sound(target.key)  # nobody mends parameters for a plugin that cannot run
            raise Invalid(
                f"the parameters of {target.title} are not valid",
                problems,
                code="invalid_params",
                details={"plugin": target.key.plugin},
            )
        result = await self.supervisor.call(target.key, target.spec, payload, context, on_event=on_event, ask=ask)
        broken = target.output.errors(checked_part(target.manifest, result))
        if broken:
            raise OutputInvalid(target.key.plugin, target.spec.name, broken)
        return result

    async def meet(self, plugin: str) -> None:
        """Have a plugin running: what its server offers is on record when this returns.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run, and the reason.
        """
        await self._recording()
        await self.supervisor.ready(self.catalogue.entry(plugin).key)

    async def _recording(self) -> None:
        await self.records.room()
        if self.records.failing is not None:
            raise self.records.failing

    async def _met(self, target: Target) -> Target:
        """The target as its server describes it now, which is not known before the server runs.

        From here to the call nothing may wait: the process that is called must be the one that was met.

        Raises:
            PaddockError: it may not be called, is not there any more, or its server does not run.
        """
        while True:
            if target.withheld is not None:
                raise target.withheld.refusal(target.key.plugin, target.asked)
            await self.supervisor.ready(target.key)
            known = self.catalogue.again(target)
            if known.key == target.key and known.withheld is None:
                return known
            target = known
