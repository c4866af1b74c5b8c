"""Entries for a ledger to be measured with: calls that only read, each of somebody and with an id of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.events.calls import CallEnded
from paddock.core.ids import new_id

CLOCK, RANDOM = SystemClock(), SystemRandom()


def ended(number: int) -> CallEnded:
    """What a read call leaves behind."""
    digest = f"sha256:{number:064x}"
    return CallEnded(
        name="notes",
        method="notes.search",
        version="1.0.0",
        digest=digest,
        effects=("read_only",),
        request_id=f"req_{number:026}",
        operator_id=None,
        project_id=None,
        session_id=None,
        agent_path=None,
        owner=None,
        plugin_metrics=None,
        events_hash=None,
        payload_hash=digest,
        result_hash=digest,
        status="succeeded",
        success=True,
        duration_ms=1.25,
        metrics={},
        error_code=None,
        error_category=None,
        error_message=None,
        nondeterminism=None,
        model=None,
        decision="allow",
        policies=("members-may-read",),
        policy_version=digest,
        approval=None,
        stands_for=("plugin.method_called", "plugin.method_returned"),
    )


def named(number: int) -> dict[str, Any]:
    """Whose call it was, as an entry is found again."""
    return {"call": new_id("call", CLOCK, RANDOM), "request": f"req_{number:026}", "principal": f"p{number % 100}"}
