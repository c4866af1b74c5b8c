"""What calling one callable means; worked out once, since calls are many."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.manifest.effects import Effect
from paddock.manifest.effects_of import effects_of
from paddock.manifest.model import CallableSpec, Form, Manifest, Timing
from paddock.plugins.supervision.flight import LONGEST

_UNSAID = Timing().call
_WITHOUT_EFFECT = frozenset({Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.UNKNOWN})


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How to call it."""

    spec: CallableSpec
    method: str  # what it is called where the call is recorded
    idle: float  # seconds without an answer or a sign of progress
    effect: bool  # whether stopping it late may do harm
    effects: frozenset[str]  # what it may do to the world, as the rules see it


def plan_call(manifest: Manifest, spec: CallableSpec, default_timeout: float) -> CallPlan:
    """The plan for one callable.

    Args:
        manifest: The plugin's.
        spec: The callable.
        default_timeout: For callables and plugins that do not say how long they may take.
    """
    own = spec.timeout_sec or (manifest.timing.call if manifest.timing.call != _UNSAID else default_timeout)
    return CallPlan(
        spec=spec,
        method=spec.name if spec.form is Form.METHOD else f"{manifest.name}.{spec.name}",
        idle=min(float(own), LONGEST),
        effect=not _WITHOUT_EFFECT.issuperset(spec.effects or ()),
        effects=frozenset(map(str, effects_of(manifest, spec))),
    )
