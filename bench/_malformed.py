"""Seeded lines that are no valid message, of every kind we know. A caged plugin makes them too: standard library only.

Ids are far above any that a host asks under, so that no line is an answer to something.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

SEED = 20_260_101


def malformed(count: int, seed: int = SEED) -> Iterator[bytes]:
    """So many lines, each with its newline."""
    chance = random.Random(seed)
    kinds = range(len(KINDS))
    for _ in range(count):
        yield KINDS[chance.choices(kinds, WEIGHTS)[0]](chance) + b"\n"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _text(chance: random.Random) -> str:
    return "".join(chance.choices("abcdef {}[],:\\ é漢", k=chance.randrange(1, 60)))


def _message(chance: random.Random, **members: Any) -> bytes:
    return _json({"jsonrpc": "2.0", "id": chance.randrange(10**9, 2 * 10**9), **members})


def _nested(chance: random.Random) -> bytes:
    depth = chance.randrange(65, 2_000)
    return b'{"jsonrpc":"2.0","id":1000000000,"method":"m","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"


def _dense(chance: random.Random, least: int, most: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1000000000,"params":{"a":[' + b"[]," * chance.randrange(least, most) + b"[]]}}"


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda chance: b"log: " + _text(chance).encode(),
    lambda chance: b"\xff" + chance.randbytes(chance.randrange(1, 80)).replace(b"\n", b" ").replace(b"\r", b" "),
    lambda chance: _message(chance, method="m", params={"text": _text(chance)})[: -chance.randrange(1, 40)],
    lambda chance: b"[" + _message(chance, method="m") + b"]",
    lambda chance: _json({"id": 10**9, "method": _text(chance)}),
    lambda chance: _message(chance, id=chance.choice([None, True, 1.5, [], {}, 2**64 - 0.5]), method="m"),
    lambda chance: _message(chance, method="m", params=chance.choice([None, 1, "a", [1, 2]])),
    lambda chance: _message(chance, method=chance.choice([None, 1, [], {}])),
    lambda chance: _message(chance, result=_text(chance)),
    lambda chance: _message(chance, result=1, error={"code": 1, "message": ""}),
    lambda chance: _message(chance, error=chance.choice([None, 1, {}, {"code": "1", "message": ""}])),
    _nested,
    lambda chance: _dense(chance, 10, 20_000),
    lambda chance: _dense(chance, 40_000, 49_000),  # nearly as much structure as a line may have
)
WEIGHTS = (20, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 0.2, 0.02, 0.002)
