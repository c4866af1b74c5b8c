"""The table of limits in the guide to the gateway: each number is the one in the code, and no limit is missing."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

from paddock import mcp_server

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "mcp-gateway.md"
ROOM = Path(mcp_server.__file__).parent
HTTP = "mcp_server.http_transport"
MIB = 1024 * 1024

# The constants of each row in the order of its numbers, with the unit that the page counts in.
ROWS: dict[str, list[tuple[str, int]]] = {
    "request body": [("rpc.message.MAX_FRAME_BYTES", MIB), ("rpc.framing.MAX_STRUCTURE_TOKENS", 1)],
    "messages in a batch, which older revisions allow": [(f"{HTTP}.streamable_http.MAX_BATCH_MESSAGES", 1)],
    "sessions per caller": [(f"{HTTP}.sessions.MAX_SESSIONS_PER_OWNER", 1)],
    "sessions in total": [(f"{HTTP}.sessions.MAX_SESSIONS", 1)],
    "idle time of a session": [(f"{HTTP}.sessions.SESSION_IDLE_TIMEOUT_S", 60)],
    "pending requests per session": [("mcp_server.in_flight.MAX_IN_FLIGHT", 1)],
    "subscribed resources per session": [("mcp_server.resource_subscriptions.MAX_SUBSCRIPTIONS", 1)],
    "events kept for resuming a stream": [
        (f"{HTTP}.event_streams.MAX_BUFFERED_EVENTS", 1),
        (f"{HTTP}.event_streams.MAX_BUFFERED_BYTES", MIB),
    ],
    "time for resuming a lost stream": [(f"{HTTP}.reply.RECONNECT_TIMEOUT_S", 1)],
    "ended streams kept": [
        (f"{HTTP}.event_streams.MAX_ENDED_STREAMS", 1),
        (f"{HTTP}.event_streams.MAX_ENDED_BYTES", MIB),
    ],
    "calls that wait for elicitation without a session": [
        ("mcp_server.suspended_calls.MAX_SUSPENDED_PER_OWNER", 1),
        ("mcp_server.suspended_calls.MAX_SUSPENDED_CALLS", 1),
        ("mcp_server.suspended_calls.RESUME_TIMEOUT_S", 60),
    ],
    "calls that one plugin works on": [("runtime.limits.concurrency.MAX_CALLS_PER_PLUGIN", 1)],
    "calls under way": [
        ("runtime.limits.concurrency.MAX_CALLS_PER_TENANT", 1),
        ("runtime.limits.concurrency.MAX_CALLS", 1),
    ],
    "completions in an answer": [("mcp_server.resources.MAX_COMPLETIONS", 1)],
    "name of a tool": [("mcp_server.tool_names.MAX_TOOL_NAME_CHARS", 1)],
}
# Limits that no client meets: what is over them is cut, or made anew.
UNSEEN = {
    "mcp_server.approval_elicitation.MAX_PENDING_TOKENS",
    "mcp_server.catalogue.DISCOVERY_TIMEOUT_S",
    "mcp_server.exchange.MAX_MESSAGE_CHARS",
    "mcp_server.exchange.MAX_PROGRESS_TOKEN_CHARS",
    "mcp_server.suspended_calls.MAX_QUESTION_KEY_CHARS",
}


def documented() -> dict[str, list[int]]:
    """The numbers of each row of the table."""
    section = GUIDE.read_text(encoding="utf-8").partition("## Limits")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    return {name: [int(one.replace(",", "")) for one in re.findall(r"\b\d[\d,]*\b", text)] for name, text in rows}


def value_of(constant: str) -> float:
    module, _, name = constant.rpartition(".")
    return getattr(importlib.import_module(f"paddock.{module}"), name)


def limits_of_the_gateway() -> set[str]:
    found: set[str] = set()
    for file in ROOM.rglob("*.py"):
        module = ".".join(file.relative_to(ROOM.parent).with_suffix("").parts)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            found |= {f"{module}.{name}" for name in names if re.match(r"MAX_|[A-Z_]+_TIMEOUT_S$", name)}
    return found


def test_every_number_of_the_table_is_the_one_that_holds() -> None:
    expected = {row: [value_of(name) / unit for name, unit in constants] for row, constants in ROWS.items()}
    assert documented() == expected


def test_every_limit_of_the_gateway_stands_in_the_table() -> None:
    named = {name for constants in ROWS.values() for name, _ in constants}
    assert limits_of_the_gateway() == {name for name in named if name.startswith("mcp_server.")} | UNSEEN
