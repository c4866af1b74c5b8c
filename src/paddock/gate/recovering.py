"""Finding out what became of effects that are in doubt, in the way that their plugin declares.

    atomic       the call changes nothing but its plugin's tables, and the host notes there that it has
    probe        the plugin has a callable that looks: it is asked with the key and the parameters, and only reads
    native_key   whatever the plugin calls knows the key: the call is made again under it, and happens once all the same
    none         nobody can find out but a person

A probe that finds nothing is asked once more after a while: what a dead process had sent may still be on its way, and
would happen beside the call that is made anew.

What is not found out now stays in doubt and is tried again. A plugin that declares another way by now did not prepare
for it when the call was made: then a person finds out. So does one where a call would have to be made again that
somebody has cancelled, that the rules forbid by now, or that its operator was at work on for as long as such work may
take. No person is asked for another yes to it: it had one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, cast

import orjson

from paddock.capabilities.storage.notes import Done
from paddock.core.canonical import hash_of
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, PluginError
from paddock.core.event import Publish
from paddock.core.events_effects import EffectInProgress, EffectResolved
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.gate.asking_again import Progress
from paddock.gate.catalogue import Target
from paddock.gate.course import CallCancelled
from paddock.gate.deciding import snapshot
from paddock.gate.effects import records
from paddock.gate.effects.fences import after
from paddock.gate.effects.machine import Resolution, State
from paddock.gate.effects.records import Effect
from paddock.gate.gate import Gate
from paddock.gate.in_vain import InVain
from paddock.gate.kept_calls import context_of
from paddock.gate.promises import answers_as_operator
from paddock.plugins.runtimes.envelopes import InProgress
from paddock.plugins.supervision.flight import Fate
from paddock.policy.decision import Deny
from paddock.queue.schedule import Again
from paddock.store.database import Database, Transaction

NOT_FOUND = {"code": "effect.not_happened", "message": "its plugin looked, and it has not happened"}


class Notes(Protocol):
    """Where it is noted what calls have changed in their plugins' tables."""

    async def end_call(
        self, tenant: Tenant, plugin: PluginName, call: CallId, fence: int, *, started_at: str
    ) -> Done | None:
        """What a call has noted. One that has noted nothing changes nothing from here on."""
        ...


@dataclass(frozen=True, slots=True)
class _Found:
    """What became of an effect, by whose word."""

    by: Resolution
    happened: bool
    result: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """Asks plugins what became of their effects.

    Args:
        gate: Where they are called.
        database: Where the records are.
        clock: Tells when.
        notes: What calls have noted in their plugins' tables.
        publish_in: Where it is told what was found out, in a unit of work.
        settle: How long what was sent may still be on its way.
    """

    gate: Gate
    database: Database
    clock: Clock
    notes: Notes
    publish_in: Callable[[Transaction, Tenant, str | None], Publish]
    settle: timedelta
    _in_vain: InVain = field(default_factory=InVain)

    async def recover(self, tenant: Tenant, call: str) -> Again | None:
        """Find out what became of the effect of a call: when to go on with that, or nothing where it is known, or only
        a person can.

        Raises:
            PaddockError: it cannot be found out now: its plugin is not there, does not run, or does not answer.
        """
        effect = await self.database.read(lambda tx: records.find_call(tx, tenant, call))
        if effect is None or effect.state is not State.IN_DOUBT:
            self._in_vain.forget(CallId(call))
            return None
        await self.gate.records.room(tenant)  # of whose chain is broken nobody is asked
        target = self.gate.catalogue(tenant).find_in(effect.of.plugin, effect.of.callable)
        match effect.recovery:
            case "atomic":
                found = await self._noted(target, effect)
            case said if said != target.spec.recovery:
                return None
            case "probe":
                found = await self._probed(target, effect)
                if not found.happened and not self._is_settled(effect.call):
                    return Again(self.clock.now() + self.settle)
            case "native_key" if (effect.error or {}).get("code") == CallCancelled.code:
                return None  # nobody wants it any more
            case "native_key" if self._had_its_time(effect):
                return None
            case "native_key":
                effect = await self.database.write(partial(records.take_over, effect=effect))
                try:
                    found = await self._made_again(target, effect)
                except InProgress as going:
                    return await self._at_work(effect, going)
            case _:
                return None
        if found is not None:
            if found.happened:
                await self.gate.promises.require(target, found.result)
            await self.database.write(partial(self._settle, effect=effect, found=found))
        self._in_vain.forget(effect.call)
        return None

    async def _noted(self, target: Target, effect: Effect) -> _Found:
        of = effect.of
        done = await self.notes.end_call(
            of.tenant, target.key.plugin, effect.call, effect.fence, started_at=effect.started_at or effect.claimed_at
        )
        return _Found(Resolution.ATOMIC, done is not None, None if done is None else done.result)

    async def _probed(self, target: Target, effect: Effect) -> _Found:
        probe = self.gate.catalogue(effect.of.tenant).find_in(effect.of.plugin, target.spec.probe)
        payload = {"idempotency_key": effect.of.key, "params": dict(effect.payload or {})}
        context = await context_of(effect, self.database, self.clock.now())
        answer = await self.gate.call(probe, payload, context)
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if not isinstance(fields.get("happened"), bool):
            raise PluginError(
                f"{effect.of.plugin} {target.spec.probe} does not say whether it has happened",
                code="effect.probe",
                hint='a probe answers {"happened": true, "result": …} or {"happened": false}',
                details={"plugin": effect.of.plugin},
            )
        return _Found(Resolution.PROBE, fields["happened"], fields.get("result"))

    def _is_settled(self, call: CallId) -> bool:
        """Whether nothing can be on its way any more of what a probe did not find."""
        return self._in_vain.lasts_for(self.settle.total_seconds(), call, self.clock.monotonic())

    async def _made_again(self, target: Target, effect: Effect) -> _Found | None:
        """What comes of the same call under the same key; None where the rules forbid it now, or its plugin refuses it,
        which says nothing of what it did with it before. Of two hosts that make it again only the one is served that
        took it over last."""
        context = await context_of(effect, self.database, self.clock.now(), fence=after(effect))
        decision = await self.gate.decides.about(target, context)
        if isinstance(decision, Deny):
            return None
        if answers_as_operator(target):
            asked = await self.gate.start.approvals.latest_of(effect.of.tenant, effect.call)
            context = replace(context, policy=snapshot(decision, None if asked is None else asked.id))
        if (progress := Progress.of(effect)) is not None:
            context = replace(context, so_far=progress.so_far)
        await self.gate.require_secrets(target, effect.payload or {}, context)
        fate = Fate()
        try:
            result = await self.gate.supervisor.call(
                target.key, target.spec, dict(effect.payload or {}), context, fate=fate
            )
        except PaddockError:
            if fate.refused:
                return None
            raise  # it was not asked, or nobody knows what it did: another time
        return _Found(Resolution.NATIVE_KEY, happened=True, result=result)

    def _had_its_time(self, effect: Effect) -> bool:
        """Whether its operator was at work on it for as long as such work may take."""
        progress = Progress.of(effect)
        return progress is not None and progress.too_long(self.clock.now())

    async def _at_work(self, effect: Effect, going: InProgress) -> Again:
        """When to ask an operator again that is at work on the call: as one is that never was in doubt.

        Raises:
            InProgress: nobody follows such work here.
        """
        now, known, following = self.clock.now(), Progress.of(effect), self.gate.following
        if following is None:
            raise going
        progress = known.after_a_look(going) if known else Progress.begun(going, now, following.looks.longest)

        def unit(tx: Transaction) -> None:
            records.note_progress(tx, effect, context=progress.kept_in(effect.context or {}))
            if known is None:
                told = EffectInProgress(effect.of.plugin, effect.of.callable, progress.until)
                self.publish_in(tx, effect.of.tenant, effect.call).publish(told)

        await self.database.write(unit)
        return Again(progress.due(now, going.retry_after))

    def _settle(self, tx: Transaction, effect: Effect, found: _Found) -> None:
        now = self.clock.now().isoformat()
        if found.happened:
            records.succeed(tx, effect, now=now, result=orjson.dumps(found.result), by=found.by)
        else:
            records.fail(tx, effect, now=now, error=found.error or NOT_FOUND, by=found.by)
        state = State.SUCCEEDED if found.happened else State.FAILED_NO_EFFECT
        digest = hash_of(found.result) if found.happened else None
        told = EffectResolved(effect.of.plugin, effect.of.callable, state.value, found.by.value, None, digest)
        self.publish_in(tx, effect.of.tenant, effect.call).publish(told)
