"""Entries for a ledger to be measured with: calls of ten plugins, each of somebody and with an id of its own."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.events.calls import CallEnded
from paddock.core.ids import new_id

CLOCK, RANDOM = SystemClock(), SystemRandom()


def _digest(number: int) -> str:
    return f"sha256:{sha256(str(number).encode()).hexdigest()}"


_PACKAGE, _POLICY = _digest(2**40), _digest(2**41)


def ended(number: int) -> CallEnded:
    """What a read call leaves behind: its own inputs and result, of the one version of a plugin, under one policy."""
    status = {7: "failed", 13: "denied"}.get(number % 1_000, "succeeded")
    return CallEnded(
        name=f"plugin-{number % 10}",
        method="notes.search",
        version="1.0.0",
        digest=_PACKAGE,
        effects=("read_only",),
        request_id=f"req_{number:026}",
        operator_id=None,
        project_id=None,
        session_id=None,
        agent_path=None,
        owner=None,
        plugin_metrics=None,
        events_hash=None,
        payload_hash=_digest(number),
        result_hash=_digest(-1 - number),
        status=status,
        success=status == "succeeded",
        duration_ms=(number % 9_000) / 1_000,
        metrics={},
        error_code=None,
        error_category=None,
        error_message=None,
        nondeterminism=None,
        model=None,
        decision="allow",
        policies=("members-may-read",),
        policy_version=_POLICY,
        approval=None,
        stands_for=("plugin.method_called", "plugin.method_returned"),
    )


def named(number: int) -> dict[str, Any]:
    """Whose call it was, as an entry is found again."""
    return {"call": new_id("call", CLOCK, RANDOM), "request": f"req_{number:026}", "principal": f"p{number // 7 % 100}"}
