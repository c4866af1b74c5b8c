"""What callers are told whose key is not free, or whose effect nobody can vouch for."""

from __future__ import annotations

from paddock.core.errors import Conflict, PaddockError, StoreUnavailable
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.effects.records import Effect, EffectKey
from paddock.plugins.mending import for_tenant


def clash(of: EffectKey) -> Conflict:
    """The key stands for another payload."""
    return Conflict(
        f"the key {printable(of.key, 100)!r} stands for another call of {of.plugin} {of.callable}",
        code="effect.other_payload",
        hint="give each thing that is to happen a key of its own",
        details={"plugin": of.plugin},
    )


def in_doubt(effect: Effect) -> Conflict:
    """It may have happened: nobody makes it again before that is known."""
    why = (effect.error or {}).get("message", "its host went down")
    return Conflict(
        f"{effect.of.plugin} {effect.of.callable} may have happened already: {printable(str(why), 300)}",
        code="effect.in_doubt",
        hint=f"look whether it has, and say so: paddock run doubt show {effect.call}{for_tenant(effect.of.tenant)}",
        details={"plugin": effect.of.plugin, "call_id": effect.call, "effect": "in_doubt"},
    )


def gone(of: EffectKey) -> Conflict:
    """It has happened, and what came of it is not kept any more."""
    return Conflict(
        f"{of.plugin} {of.callable} was done under this key a while ago, and its result is not kept any more",
        code="effect.forgotten",
        hint="it is not made again; give another key if it is to happen once more",
        details={"plugin": of.plugin},
    )


def unrecorded(call: CallId, plugin: str, failure: PaddockError, *, happened: bool) -> StoreUnavailable:
    """What became of a call cannot be recorded. Nobody is told of a success that the next host would not know of."""
    what = "the call has happened, and that" if happened else "what became of the call"
    return StoreUnavailable(
        f"{what} cannot be recorded: {failure.message}",
        code="effect.unrecorded",
        hint="do not make it again: once there is room, paddock explain tells what became of it",
        details={"plugin": plugin, "call_id": call},
    )
