"""The operator: the only kind that may act. Its manifest declares what it does, and its scopes are checked here too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddock_sdk import disclose, read_payload, requires_scopes


@dataclass
class Payload:
    to: str
    text: str


@requires_scopes("notes:write")
def write_note(call: Mapping[str, Any]) -> dict[str, Any]:
    """`call` has `payload`, `idempotency_key`, `auth_context` and `trace_context`.

    Under one idempotency key an operator acts once. This one keeps nothing, so there is nothing to do twice.
    """
    payload = read_payload(Payload, call["payload"])
    # Name reasons here once it uses a model or the network: disclose(…, "llm_sampling").
    return disclose({"note": f"To {payload.to}: {payload.text}"}, stability="high")
