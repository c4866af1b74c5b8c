"""Detects undisclosed nondeterminism: calls that used the network or a model without saying so. Pure.

Network use: the call made an HTTP request through the host, or its process used a connection of its own meanwhile.
Model use: the call used a model through the host, or its answer reports token counts. The answer discloses it with
`nondeterminism`, or an agent's `randomness_disclosure`, wherever its envelope allows. Declared external effects also
disclose network use. Undisclosed use is flagged in the ledger entry of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.capabilities.request import MethodCounts
from paddock.core.events.calls import UNDISCLOSED_TEXT
from paddock.core.schema.traversal import object_or_empty
from paddock.manifest.effects import Effect
from paddock.manifest.model import Manifest
from paddock.plugins.dialects.envelope import result_value
from paddock.runtime.calls import NETWORK_COUNT_KEY

NETWORK, MODEL = UNDISCLOSED_TEXT
_CHANNEL_OF_METHOD: Final = {
    NETWORK_COUNT_KEY: NETWORK,
    "http": NETWORK,
    "model": MODEL,
}  # by the first part of the method name
_EXTERNAL_EFFECTS: Final = frozenset(map(str, (Effect.EXTERNAL_CALL, Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT)))
_TOKEN_METRICS: Final = ("tokens_in", "tokens_out")


def find_undisclosed(
    manifest: Manifest, effects: tuple[str, ...], method_counts: MethodCounts, answer: Any
) -> tuple[str, ...] | None:
    """Find the sources of nondeterminism that a call used and did not disclose; None if there are none.

    Args:
        manifest: The manifest of the called plugin.
        effects: The declared effects of the callable.
        method_counts: The capability methods that were used in the call.
        answer: The result of the call, with its envelope.
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
        object_or_empty(part.get("nondeterminism")).get("is_nondeterministic") is True
        or part.get("randomness_disclosure")
        for part in _answer_parts(manifest, answer)
    )


def _answer_parts(manifest: Manifest, answer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the answer and the value inside its envelope, since not every envelope has a field for the disclosure."""
    yield object_or_empty(answer)
    yield object_or_empty(result_value(manifest, answer))


def _counts_tokens(answer: Any) -> bool:
    metrics = object_or_empty(object_or_empty(answer).get("metrics"))
    counts = [metrics.get(name) for name in _TOKEN_METRICS]
    return any(isinstance(count, int | float) and count > 0 for count in counts)
