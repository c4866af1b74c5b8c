"""Whether a call told that its answer need not come out the same again: it used the network, or a model. Pure.

The network: it asked the host for a web page, or its process used a connection of its own meanwhile. A model: it asked
the host for one, or its answer counts the tokens of one. It is disclosed by the answer, with `nondeterminism` or an
agent's `randomness_disclosure`, wherever the answer's envelope leaves room for it; and the network also by a manifest
that declares effects outside. What is used and not disclosed is flagged in the entry of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from paddock.capabilities.asking import Tally
from paddock.core.events_calls import UNDISCLOSED
from paddock.manifest.effects import Effect
from paddock.manifest.model import Manifest
from paddock.plugins.runtimes.envelopes import checked_part
from paddock.plugins.supervision.flight import NET

NETWORK, MODEL = UNDISCLOSED
_WAYS: Final = {NET: NETWORK, "http": NETWORK, "model": MODEL}  # by the family of what is in a tally
_OUTSIDE: Final = frozenset(map(str, (Effect.EXTERNAL_CALL, Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT)))
_TOKENS: Final = ("tokens_in", "tokens_out")


def undisclosed(manifest: Manifest, effects: tuple[str, ...], tally: Tally, answer: Any) -> tuple[str, ...] | None:
    """What a call used without saying so; None where there is nothing of that kind.

    Args:
        manifest: Of the plugin that was called.
        effects: What the callable declares.
        tally: What was asked for in the call.
        answer: What came of it, with its envelope.
    """
    used = {way for name in tally if (way := _WAYS.get(name.partition(".")[0]))}
    if _counts_tokens(answer):
        used.add(MODEL)
    if not _OUTSIDE.isdisjoint(effects):
        used.discard(NETWORK)
    if not used or _disclosed(manifest, answer):
        return None
    return tuple(sorted(used))


def _disclosed(manifest: Manifest, answer: Any) -> bool:
    return any(
        _fields(part.get("nondeterminism")).get("is_nondeterministic") is True or part.get("randomness_disclosure")
        for part in _parts(manifest, answer)
    )


def _parts(manifest: Manifest, answer: Any) -> Iterator[Mapping[str, Any]]:
    """The answer, and what is inside its envelope: not every envelope has a field for it."""
    yield _fields(answer)
    yield _fields(checked_part(manifest, answer))


def _counts_tokens(answer: Any) -> bool:
    metrics = _fields(_fields(answer).get("metrics"))
    counts = [metrics.get(name) for name in _TOKENS]
    return any(isinstance(count, int | float) and count > 0 for count in counts)


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
