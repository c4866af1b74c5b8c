"""What calling one callable means on its plugin's wire; worked out once, since calls are many."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Form, Manifest, Timing
from paddock.plugins.supervision.flight import LONGEST
from paddock.plugins.supervision.wire_names import method_of

_UNSAID = Timing().call
_WITHOUT_EFFECT = frozenset({Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.UNKNOWN})


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How to call it."""

    method: str
    confirmed: bool  # whether the plugin has to have said in its handshake that it serves it
    idle: float  # seconds without an answer or a sign of progress
    effect: bool  # whether stopping it late may do harm


def plan_call(manifest: Manifest, spec: CallableSpec, default_timeout: float) -> CallPlan:
    """The plan for one callable.

    Args:
        manifest: The plugin's.
        spec: The callable.
        default_timeout: For callables and plugins that do not say how long they may take.
    """
    own = spec.timeout_sec or (manifest.timing.call if manifest.timing.call != _UNSAID else default_timeout)
    return CallPlan(
        method=method_of(manifest, spec),
        confirmed=spec.form is Form.METHOD,
        idle=min(float(own), LONGEST),
        effect=not _WITHOUT_EFFECT.issuperset(spec.effects or ()),
    )
