"""The tool: it reads and computes, and changes nothing. The same payload always gives the same answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddock_sdk import read_payload


@dataclass
class Payload:
    text: str


def count(call: Mapping[str, Any]) -> dict[str, Any]:
    """`call` has `payload` and `trace_context`; what is returned is the `result`."""
    payload = read_payload(Payload, call["payload"])
    return {"words": len(payload.text.split())}
