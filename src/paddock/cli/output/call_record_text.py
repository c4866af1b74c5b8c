"""The record of a call as text for a terminal, from what the API returns. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.host.calls.call_record import CallRecordJson

_MAX_INPUT_CHARS: Final = 600
_MAX_LOG_LINES: Final = 20
_ORIGIN_TEXT: Final = {
    "cli": "from the command line",
    "http": "over HTTP",
    "mcp": "from an MCP client",
    "console": "from the console",
}


def record_lines(record: CallRecordJson) -> list[str]:
    """Format who made a call and from where, its inputs, the decision, the timeline, and what its plugin logged."""
    return [
        _caller_line(record),
        *_input_lines(record),
        *_decision_lines(record),
        *_timeline_lines(record),
        *_log_lines(record),
    ]


def _caller_line(record: CallRecordJson) -> str:
    parts = [f"by {printable(record['who_name'])}", _ORIGIN_TEXT.get(record["origin"] or "", "")]
    parts += ["in the background" if record["background"] else ""]
    parts += [f"took {record['duration_ms']:g} ms" if record["duration_ms"] is not None else ""]
    if record["idempotency_key"]:
        parts.append(f"idempotency key {printable(record['idempotency_key'], 100)}")
    if record["other_calls"]:
        parts.append(f"also called as {', '.join(record['other_calls'])}")
    return f"  {', '.join(filter(None, parts))}"


def _input_lines(record: CallRecordJson) -> list[str]:
    if not record["inputs_kept"]:
        return ["  inputs: no longer kept"]
    lines = [f"  inputs: {printable(json.dumps(record['inputs'], ensure_ascii=False), _MAX_INPUT_CHARS)}"]
    if record["redacted"]:
        lines.append(f"  left out as secret: {printable(', '.join(record['redacted']), _MAX_INPUT_CHARS)}")
    return lines


def _decision_lines(record: CallRecordJson) -> list[str]:
    decision = record["decision"]
    if decision is None:
        return []
    rules = ", ".join(printable(rule["id"]) for rule in decision["rules"])
    return [f"  decision: {printable(decision['reason'], 600)}{f' ({rules})' if rules else ''}"]


def _timeline_lines(record: CallRecordJson) -> list[str]:
    if not record["timeline"]:
        return []
    lines = ["  timeline:"]
    for span in record["timeline"]:
        took = span["end_ms"] - span["start_ms"]
        waited = f" (waited {span['waited_for']})" if span["waited_for"] else ""
        lines.append(f"    +{span['start_ms']:g} ms  {took:g} ms  {printable(span['text'], 300)}{waited}")
    if record["host_services"]:
        used = ", ".join(f"{printable(method)} ×{count}" for method, count in record["host_services"].items())
        lines.append(f"  host services: {used}")
    return lines


def _log_lines(record: CallRecordJson) -> list[str]:
    from paddock.host.plugins.logs.log_lines import format_for_terminal

    if not record["log"]:
        return []
    lines = ["  log:"]
    for entry in record["log"][-_MAX_LOG_LINES:]:
        first, *rest = format_for_terminal(entry["line"])
        # The last line of a traceback says what happened; `plugin logs` shows all of it.
        lines += [f"    {entry['at'][11:19]}  {first}", *(f"      {line.strip()}" for line in rest[-1:])]
    return lines
