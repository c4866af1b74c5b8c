"""Explains to people why a plugin ended or did not start, from its exit status and its output. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.cage.spec import MIB, ProcessExit
from paddock.core.action import Action
from paddock.core.printable import printable
from paddock.manifest.command import environment_program
from paddock.manifest.credential_paths import credentials_at
from paddock.manifest.model import CommandRuntime, Dialect, Manifest

_SIGSYS = 31
_SIGNALS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
    _SIGSYS: "SIGSYS",
}


class Diagnosis(Struct, frozen=True):
    """A reason for people, and a hint and an action what to do about it."""

    reason: str
    hint: str = ""
    action: Action | None = None


class GrantAdvice(Struct, frozen=True):
    """How a plugin gets another capability.

    Attributes:
        how: The beginning of the advice; the capability follows.
        plugin: The plugin to upgrade for it; empty if its author has to act first.
        grants: Whether the upgrade itself grants the capability.
    """

    how: str
    plugin: str = ""
    grants: bool = False

    def action(self, capability: str) -> Action | None:
        """Return the action that gives the plugin the capability."""
        if not self.plugin or not capability:
            return None
        return Action.of("plugin.upgrade", plugin=self.plugin, capabilities=(capability,) if self.grants else ())


# The hint mentions a restart because a daemon reads its settings only when it starts.
_MORE_MEMORY_HINT = "if it needs more, raise limits.memory_mb in config.toml, and restart the daemon"

_PROGRAM = r"([A-Za-z0-9._+-]{1,64})"
_SYNTAX = re.compile(r"(?:Syntax|Indentation|Tab)Error: (.+)")
_NETWORK = re.compile(r"gaierror|Name or service not known|ENOTFOUND|EAI_AGAIN|Failed to resolve '")
_FILE_AND_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_SYNTAX_ERROR_LOOKBACK_LINES = 5  # the code, and a marker below it, stand between the location and the error

EVERY_HOST_HINT: Final = ", or net:* where it has to reach every public host"
_HOST = r"([a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?)"
_DESTINATION = re.compile(
    rf"(https?)://{_HOST}(?::(\d{{1,5}}))?(?=[/\s'\"?#]|$)"
    rf"|host='{_HOST}', port=(\d{{1,5}})"
    rf"|(?:getaddrinfo (?:ENOTFOUND|EAI_AGAIN) |Failed to resolve '){_HOST}(?::(\d{{1,5}}))?"
)


def network_capability(text: str) -> str:
    """Return the capability to connect to the host that an error names, or a form to fill in if it names none."""
    match = _DESTINATION.search(text)
    if match is None:
        return "net:HOST:PORT"
    scheme, host, port, *others = match.groups()
    host, port = next((pair for pair in ((host, port), others[:2], others[2:]) if pair[0]), (None, None))
    return f"net:{host}:{port or ('80' if scheme == 'http' else '443')}"


# Patterns for the last meaningful line, each with a reason, a hint, and the capability that would help. The first match
# wins.
_STDERR_PATTERNS: tuple[tuple[re.Pattern[str], str, str, str], ...] = (
    (
        re.compile(r"ModuleNotFoundError: No module named '([^']+)'"),
        "its Python module {0} cannot be imported in the cage",
        "put {0} into the package: beside the program that imports it, or in vendor/ where the manifest names an "
        "entrypoint; modules in your home or in a virtual environment are not visible to plugins",
        "",
    ),
    (
        re.compile(rf"ImportError: .*\bBad {_PROGRAM} executable"),
        "it runs the program {0}, which is not granted or does not exist",
        "{how} exec:{0}:/",
        "exec:{0}:/",
    ),
    (
        re.compile(r"ImportError: (.+)"),
        "an import failed: {0}",
        "the package has to include everything that it imports",
        "",
    ),
    (
        re.compile(r"can't open file '(/[^']+)'|Cannot find module '(/[^']+)'"),
        "it looked for {0}, which the cage does not show",
        "if it is there on this machine, {how} read:fs:{0}, or the folder around it where it needs more of that; "
        "if it belongs to the package, add it there",
        "read:fs:{0}",
    ),
    (
        re.compile(r"Cannot find module '([^']+)'"),
        "its Node module {0} is not in the package",
        "run npm install in the package before it is installed here",
        "",
    ),
    (
        re.compile(r"error while loading shared libraries: ([^:]+)"),
        "the shared library {0} is not visible in the cage",
        "install it into the system's library directory, or put it into the package",
        "",
    ),
    (
        re.compile(
            rf"(?:env|sh|: line \d+|: \d+): [‘'\"]?(?:/[^:’'\"]*bin/)?{_PROGRAM}[’'\"]?: "
            r"(?:command not found|not found|Permission denied)"
            rf"|(?:env: [‘'\"]?(?:/[^:’'\"]*bin/)?|: line \d+: /[^:]*bin/){_PROGRAM}[’'\"]?: No such file"
            rf"|spawn (?:/\S*bin/)?{_PROGRAM} (?:ENOENT|EACCES)"
            rf"|PermissionError: \[Errno 13\] Permission denied: '(?:/[^']*bin/)?{_PROGRAM}'"
        ),
        "it runs the program {0}, which is not granted or does not exist",
        "{how} exec:{0}:/",
        "exec:{0}:/",
    ),
    (
        re.compile(
            r"(?:OSError: \[Errno 30\] Read-only file system:|EROFS[^']{0,80}|EACCES[^']{0,80}, (?:mkdir|rename|unlink)"
            r"|ENOENT[^']{0,80}, (?:mkdir|rename)) '(/[^']+)'|cannot create (/[^:]+): [A-Z]"
        ),
        "it tried to write to {0}, which it may not",
        "if it has to, {how} write:fs:{0}, or the folder around it for files that it creates there",
        "write:fs:{0}",
    ),
    (
        re.compile(r"PermissionError: \[Errno 13\] Permission denied: '([^']+)'"),
        "it may not use {0}",
        "{how} read:fs:{0} or write:fs:{0}",
        "read:fs:{0}",
    ),
    (
        re.compile(r"(?:FileNotFoundError: \[Errno 2\] No such file or directory:|ENOENT[^']{0,80}) '(/[^']+)'"),
        "it looked for {0}, which the cage does not show",
        "if it is there on this machine, {how} read:fs:{0}",
        "read:fs:{0}",
    ),
    (
        re.compile(r"(?:sh|: line \d+|: \d+): (?:cannot open )?(/[^:]+): (?:No such file|Permission denied)"),
        "it looked for {0}, which the cage does not show or which it may not use",
        "if it is there on this machine, {how} read:fs:{0} or write:fs:{0}",
        "read:fs:{0}",
    ),
    (
        re.compile(rf"FileNotFoundError: \[Errno 2\] No such file or directory: '{_PROGRAM}'"),
        "it looked for {0}, which is not there",
        "if that is a program, {how} exec:{0}:/",
        "exec:{0}:/",
    ),
    (_SYNTAX, "its code cannot be parsed: {0}", "the interpreter may be older than it needs", ""),
    (re.compile(r"MemoryError|JavaScript heap out of memory"), "it ran out of memory", _MORE_MEMORY_HINT, ""),
    (
        _NETWORK,
        "it tried to reach a host that it was not granted",
        f"{{how}} {{0}}{EVERY_HOST_HINT}",
        "{0}",
    ),
)


DECLARE_IN_MANIFEST = GrantAdvice("declare it in the manifest:")


def grant_advice(manifest: Manifest) -> GrantAdvice:
    """Return how the plugin gets another capability. An MCP server has no manifest that could declare any."""
    runtime = manifest.runtime
    if isinstance(runtime, CommandRuntime) and runtime.protocol == "mcp":
        if has_own_manifest(manifest):
            return GrantAdvice("declare in a new version of its manifest:", manifest.name)
        return GrantAdvice("upgrade it with the capability", manifest.name, grants=True)
    return DECLARE_IN_MANIFEST


def has_own_manifest(manifest: Manifest) -> bool:
    """Whether the plugin's capabilities are declared in a manifest of its own and not chosen by the person who installs
    it."""
    runtime = manifest.runtime
    from_registry = isinstance(runtime, CommandRuntime) and environment_program(runtime.command) is not None
    return manifest.dialect is Dialect.NATIVE and not from_registry


_SPEAKS_JSON_RPC_HINT = "a plugin speaks JSON-RPC on its standard output and logs to its standard error"


def read_log(plugin: str) -> Action:
    """Return the action to read the plugin's log, for when nothing else is known."""
    return Action.of("plugin.logs", plugin=plugin)


def diagnose_exit(
    plugin: str,
    process_exit: ProcessExit,
    stderr: Sequence[str],
    *,
    answered: bool,
    noise: Sequence[str] = (),
    memory_bytes: int | None = None,
    advice: GrantAdvice = DECLARE_IN_MANIFEST,
) -> Diagnosis:
    """Return the likeliest reason that a process ended.

    Args:
        plugin: The plugin's name.
        process_exit: How the process ended.
        stderr: Its last lines.
        answered: Whether it ever answered the handshake.
        noise: Lines on its stdout that were not JSON.
        memory_bytes: Its memory limit, where that is known.
        advice: How it gets another capability.
    """
    phase_text = "" if answered else " before it answered the handshake"
    if process_exit.cause == "memory":
        limit = f" ({memory_bytes // MIB} MB)" if memory_bytes is not None else ""
        comma = "" if answered else ","
        return Diagnosis(f"it exceeded its memory limit{limit}{comma}{phase_text}", _MORE_MEMORY_HINT)
    if process_exit.cause:
        return Diagnosis(f"it was ended by the host ({printable(process_exit.cause, 80)}){phase_text}")
    output_diagnosis = diagnose_stderr([*noise, *stderr], advice)
    if output_diagnosis is not None:
        # A plugin that served before may have survived that output and have ended of something else.
        reason = (
            f"{_describe_exit(process_exit)}; perhaps: {output_diagnosis.reason}"
            if answered
            else f"it ended{phase_text}: {output_diagnosis.reason}"
        )
        return replace(output_diagnosis, reason=reason)
    if process_exit.signal is not None:
        hint = "it used a system call that plugins may not use" if process_exit.signal == _SIGSYS else ""
        return Diagnosis(f"{_describe_exit(process_exit)}{phase_text}", hint)
    last_line = next((line for line in reversed(stderr) if line.strip()), "")
    log_note = (
        f"; its last log line: {printable(_log_message(last_line), 160)}"
        if last_line
        else "; it wrote nothing to its log"
    )
    if process_exit.code == 0:
        if answered:
            return Diagnosis(
                f"{_describe_exit(process_exit)}{log_note}", "a plugin serves until it gets a shutdown request"
            )
        if noise:
            return Diagnosis(f"it ended without answering; {_describe_noise(noise)}", _SPEAKS_JSON_RPC_HINT)
        return Diagnosis(
            f"{_describe_exit(process_exit)}{phase_text}{log_note}", "it has to read requests from its standard input"
        )
    if noise and not answered:
        log_note += f"; {_describe_noise(noise)}"
    reason = f"{_describe_exit(process_exit)}{phase_text}{log_note}"
    return Diagnosis(reason, action=read_log(plugin) if last_line else None)


def _log_message(line: str) -> str:
    """Return the message of a JSON log record, as the SDKs write them; any other line as it is."""
    try:
        record: Any = json.loads(line) if line.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return line
    message = cast("dict[str, Any]", record).get("message") if isinstance(record, dict) else None
    return message if isinstance(message, str) and message.strip() else line


def _describe_exit(process_exit: ProcessExit) -> str:
    if process_exit.signal is not None:
        return f"it was ended by {_SIGNALS.get(process_exit.signal, f'signal {process_exit.signal}')}"
    return f"it ended with exit status {process_exit.code}" if process_exit.code else "it ended by itself"


def diagnose_silence(
    plugin: str,
    silence: str,
    stderr: Sequence[str],
    noise: Sequence[str],
    advice: GrantAdvice = DECLARE_IN_MANIFEST,
) -> Diagnosis:
    """Return the likeliest reason that a process never answered, judging by its output.

    Args:
        plugin: The plugin's name.
        silence: A description of what it did not answer.
        stderr: Its last lines.
        noise: Lines on its stdout that were not JSON.
        advice: How it gets another capability.
    """
    output_diagnosis = diagnose_stderr([*noise, *stderr], advice)
    if output_diagnosis is not None:
        return replace(output_diagnosis, reason=f"{silence}: {output_diagnosis.reason}")
    if noise:
        return Diagnosis(f"{silence}; {_describe_noise(noise)}", _SPEAKS_JSON_RPC_HINT)
    return Diagnosis(silence, action=read_log(plugin))


def _describe_noise(noise: Sequence[str]) -> str:
    first_line = next((line for line in noise if line.strip()), noise[0])
    return f"it wrote text to stdout that is not JSON-RPC: '{printable(first_line, 120)}'"


def diagnose_stderr(lines: Sequence[str], advice: GrantAdvice = DECLARE_IN_MANIFEST) -> Diagnosis | None:
    """Match a plugin's last lines against known error patterns; None if none matches."""
    for index in range(len(lines) - 1, -1, -1):
        for pattern, reason, hint, capability in _STDERR_PATTERNS:
            match = pattern.search(lines[index])
            if match is None:
                continue
            parts = [printable(part, 120) for part in match.groups() if part]
            if pattern is _NETWORK:
                parts = [network_capability(lines[index])]
            location = _syntax_error_location(lines, index) if pattern is _SYNTAX else ""
            if location:
                return Diagnosis(f"{reason.format(*parts)} ({location})", "the plugin's author has to fix it")
            # No advice to open a path that holds credentials.
            credentials = credentials_at(parts[0]) if parts and parts[0].startswith("/") and ":fs:" in hint else ""
            if credentials:
                return Diagnosis(reason.format(*parts), f"do not grant it: this path holds {credentials}")
            action = advice.action(capability.format(*parts))
            return Diagnosis(reason.format(*parts), hint.format(*parts, how=advice.how), action)
    return None


def _syntax_error_location(lines: Sequence[str], index: int) -> str:
    """Return the file and line of a syntax error, which Python writes above it."""
    for line in reversed(lines[max(0, index - _SYNTAX_ERROR_LOOKBACK_LINES) : index]):
        match = _FILE_AND_LINE.search(line)
        if match is not None:
            return f"{printable(match[1][-120:], 120)}, line {match[2][:9]}"
    return ""
