"""The events of `paddock dev` as text: one line each, two where there is a hint. Pure but for colour."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, cast

from paddock.authoring.checks.protocol import describe_mismatch
from paddock.cli.output.action_text import remedy_lines_of
from paddock.cli.output.report import styled
from paddock.cli.output.status_line import describe_call_event
from paddock.core.printable import printable
from paddock.host.plugins.logs.log_lines import format_for_terminal

_MAX_VALUE_CHARS = 400


def describe_dev_event(event: Mapping[str, Any]) -> list[str]:
    """Return the lines of one event."""
    match event["event"]:
        case "loaded":
            return _loaded_lines(event)
        case "changed":
            return []  # its result is reported
        case "not_loaded":
            return _load_failed_lines(event)
        case "traffic":
            return [_traffic_line(event)]
        case "log":
            first, *rest = format_for_terminal(str(event["line"]))
            return [f"{_dim('│')} {first}", *(f"{_dim('│')}   {line}" for line in rest)]
        case "notification":
            return [f"← {event['name']} {_compact_json(event['params'])}"]
        case "progress":
            return [f"{_dim('…')} {describe_call_event(event['value'])}"]
        case "answer":
            return [f"{_green('=')} {event['name']} {_compact_json(event['result'], 4_000)}  {_duration_text(event)}"]
        case "failed":
            return [
                f"{_red('✗')} {event['name']}: {_error_text(event['error'])}  {_duration_text(event)}",
                *_error_detail_lines(event["error"]),
            ]
        case "still_running":
            return [f"{_dim('…')} {event['name']} still runs ({event['seconds']:g} s); type 'cancel' to end it"]
        case "cancelled":
            return [f"cancelled: {', '.join(event['names'])}" if event["names"] else "no call is under way"]
        case "misunderstood":
            return [f"{_red('✗')} {_error_text(event['error'])}", *_error_detail_lines(event["error"])]
        case "ended":
            lines = f"{_red('✗')} it ended: {printable(event['reason'], _MAX_VALUE_CHARS)}"
            return [lines, *_remedy_lines(event)]
        case "shows":
            return [f"{event['what']} {'shown' if event['shown'] else 'hidden'}"]
        case "tools":
            return [f"callable: {', '.join(event['tools']) or 'nothing'}"]
        case "help":
            tools = ", ".join(event["tools"]) or "nothing yet"
            lines = [f"  {name.ljust(8)} {meaning}" for name, meaning in event["commands"].items()]
            return [f"""type a callable and its parameters, as in: greet {{"name": "Ann"}}   ({tools})""", *lines]
        case _:
            return [_compact_json(event)]


def _loaded_lines(event: Mapping[str, Any]) -> list[str]:
    callables = ", ".join(event["callables"]) or "nothing"
    files = f" after {_changed_files_text(event['files'])}" if event["files"] else ""
    lines = [
        f"{_green('✓')} {event['name']} {event['version']} runs{files} ({_duration_text(event)}):"
        f" {printable(callables, 300)}"
    ]
    if mismatch := describe_mismatch(event["unserved"], event["undeclared"]):
        lines.append(f"  {_yellow('!')} {mismatch}")
    return [*lines, *(f"  {_yellow('!')} {_problem_line(problem)}" for problem in event["warnings"])]


def _load_failed_lines(event: Mapping[str, Any]) -> list[str]:
    error = event["error"]
    lines = [f"{_red('✗')} not loaded: {_error_text(error)}", *_error_detail_lines(error)]
    if event["waiting"]:
        lines.append(f"  {_dim('→')} type 'allow' to grant it to this session")
    serving = f"{event['serving']} goes on serving" if event["serving"] else "nothing serves yet"
    return [*lines, f"  {_dim('→')} {serving}; save again when it is mended"]


def _traffic_line(event: Mapping[str, Any]) -> str:
    arrow = "→" if event["to"] == "plugin" else "←"
    kind, value = event["kind"], event["value"]
    duration = f"  {_duration_text(event)}" if "ms" in event else ""
    if kind in ("error", "refuses") and isinstance(value, dict):
        fault = cast("dict[str, Any]", value)
        message = printable(str(fault.get("message")), _MAX_VALUE_CHARS)
        return f"{arrow} {kind} {event['name']} {fault.get('code')} {message}{duration}"
    if kind == "noise":
        return f"{arrow} {_yellow('not JSON-RPC')} {printable(str(value), _MAX_VALUE_CHARS)}"
    value_text = "" if value in (None, {}) and kind not in ("result", "answers") else f" {_compact_json(value)}"
    label = "" if kind in ("request", "notification") else f"{kind} "
    return f"{arrow} {label}{event['name']}{value_text}{duration}"


def _error_text(error: Mapping[str, Any]) -> str:
    return printable(str(error.get("message", "")), _MAX_VALUE_CHARS)


def _error_detail_lines(error: Mapping[str, Any]) -> list[str]:
    problems: Any = error.get("errors") or error.get("problems") or []
    return [
        *(f"  {_red('✗')} {_problem_line(problem)}" for problem in problems),
        *_remedy_lines(error),
    ]


def _problem_line(problem: Mapping[str, Any]) -> str:
    line = f" (line {problem['line']})" if problem.get("line") else ""
    remedy = "".join(f" → {line}" for line in remedy_lines_of(problem))
    return printable(f"{problem.get('path') or '(document)'}{line}: {problem.get('message')}{remedy}", _MAX_VALUE_CHARS)


def _remedy_lines(error: Mapping[str, Any]) -> list[str]:
    return [f"  {_dim('→')} {printable(line, _MAX_VALUE_CHARS)}" for line in remedy_lines_of(error)]


def _changed_files_text(files: list[str]) -> str:
    names = ", ".join(files[:3])
    return printable(names + (f" and {len(files) - 3} more" if len(files) > 3 else ""), 200)


def _duration_text(event: Mapping[str, Any]) -> str:
    return _dim(f"{event['ms']:.0f} ms" if event["ms"] >= 10 else f"{event['ms']:.1f} ms")


def _compact_json(value: Any, max_chars: int = _MAX_VALUE_CHARS) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=str), max_chars)


def _dim(text: str) -> str:
    return styled(text, "dim", stream=sys.stdout)


def _red(text: str) -> str:
    return styled(text, "red", stream=sys.stdout)


def _green(text: str) -> str:
    return styled(text, "green", stream=sys.stdout)


def _yellow(text: str) -> str:
    return styled(text, "yellow", stream=sys.stdout)
