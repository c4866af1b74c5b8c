"""Whether a call told that its answer need not come out the same again: it used the network, or a model. Pure.

The network: it asked the host for a web page, or its process used a connection of its own meanwhile. A model: it asked
the host for one, or its answer counts the tokens of one. It is disclosed by the answer, with `nondeterminism` or an
agent's `randomness_disclosure`, wherever the answer's envelope leaves room for it; and the network also by a manifest
that declares effects outside. What is used and not disclosed is flagged in the entry of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from paddock.capabilities.request import MethodCounts
from paddock.core.events.calls import UNDISCLOSED_TEXT
from paddock.manifest.effects import Effect
from paddock.manifest.model import Manifest
from paddock.plugins.dialects.envelope import result_value
from paddock.runtime.calls import NETWORK_COUNT_KEY

NETWORK, MODEL = UNDISCLOSED_TEXT
_CHANNEL_OF_METHOD: Final = {
    NETWORK_COUNT_KEY: NETWORK,
    "http": NETWORK,
    "model": MODEL,
}  # by the family of what is in a tally
_EXTERNAL_EFFECTS: Final = frozenset(map(str, (Effect.EXTERNAL_CALL, Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT)))
_TOKEN_METRICS: Final = ("tokens_in", "tokens_out")


def find_undisclosed(
    manifest: Manifest, effects: tuple[str, ...], method_counts: MethodCounts, answer: Any
) -> tuple[str, ...] | None:
    """What a call used without saying so; None where there is nothing of that kind.

    Args:
        manifest: Of the plugin that was called.
        effects: What the callable declares.
        tally: What was asked for in the call.
        answer: What came of it, with its envelope.
    """
    used = {channel for name in method_counts if (channel := _CHANNEL_OF_METHOD.get(name.partition(".")[0]))}
    if _counts_tokens(answer):
        used.add(MODEL)
    if not _EXTERNAL_EFFECTS.isdisjoint(effects):
        used.discard(NETWORK)
    if not used or _is_disclosed(manifest, answer):
        return None
    return tuple(sorted(used))


def _is_disclosed(manifest: Manifest, answer: Any) -> bool:
    return any(
        _as_dict(part.get("nondeterminism")).get("is_nondeterministic") is True or part.get("randomness_disclosure")
        for part in _answer_parts(manifest, answer)
    )


def _answer_parts(manifest: Manifest, answer: Any) -> Iterator[Mapping[str, Any]]:
    """The answer, and what is inside its envelope: not every envelope has a field for it."""
    yield _as_dict(answer)
    yield _as_dict(result_value(manifest, answer))


def _counts_tokens(answer: Any) -> bool:
    metrics = _as_dict(_as_dict(answer).get("metrics"))
    counts = [metrics.get(name) for name in _TOKEN_METRICS]
    return any(isinstance(count, int | float) and count > 0 for count in counts)


def _as_dict(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
