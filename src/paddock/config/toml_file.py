"""Reads one TOML file as untrusted bytes: bounded, parsed, with the line of each key."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from paddock.config.directories import wrong_owner_hint
from paddock.core.errors import Invalid, OperatorError, Problem
from paddock.core.printable import MAX_PATH_CHARS, printable

MAX_TOML_BYTES = 1 << 20
_MAX_DEPTH = 32
_HEADER = re.compile(r"\s*\[{1,2}([^\[\]]+)\]")
_ASSIGNMENT = re.compile(
    r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_KEY_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_AROUND_DOT = re.compile(r"[ \t]*\.[ \t]*")
_SEPARATORS = re.compile(r"[\s,=\[\]{}]+")
_ERROR_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)\s*$")


@dataclasses.dataclass(frozen=True, slots=True)
class TomlFile:
    """A parsed file with its text and its mode, so that problems can name a line."""

    path: Path
    text: str = dataclasses.field(repr=False)
    values: Mapping[str, Any] = dataclasses.field(repr=False)
    mode: int
    owner: int

    @property
    def printable_path(self) -> str:
        """The path as a terminal may see it; the names of a project's directories are untrusted."""
        return printable(str(self.path), MAX_PATH_CHARS)


def read_toml(path: Path, max_bytes: int = MAX_TOML_BYTES) -> TomlFile | None:
    """Read and parse the file of at most `max_bytes`; None when there is none.

    Raises:
        Invalid: It is not TOML; the problem carries the line.
        OperatorError: It cannot be read, is no regular file, or is too large.
    """
    shown = printable(str(path), MAX_PATH_CHARS)
    try:
        # Non-blocking: a FIFO in place of the file must not hang us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise OperatorError(f"cannot read {shown}: {error.strerror}", code="config.unreadable") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OperatorError(f"{shown} is not an ordinary file", code="config.unreadable")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OperatorError(f"{shown} is larger than {max_bytes >> 10:,} KiB", code="config.too_large")
    text, values = _parse_cached(content, path)
    return TomlFile(path, text, values, stat.S_IMODE(status.st_mode), status.st_uid)


@lru_cache(maxsize=1)  # only the last one: replaced content, perhaps a password, is not kept
def _parse_cached(content: bytes, path: Path) -> tuple[str, Mapping[str, Any]]:
    """Parse once for repeated reads: a host reads at every start of a plugin, and parsing takes milliseconds."""
    return parse_toml(content, path)


def refuse_unsafe_file(file: TomlFile) -> None:
    """Refuse a file of ours that another user could have written.

    Raises:
        OperatorError: Another user owns it, or group or world may write it.
    """
    quoted = shlex.quote(str(file.path))
    if file.owner not in (os.geteuid(), 0):
        raise OperatorError(
            f"{file.path} belongs to user {file.owner}, not to you",
            code="config.file_foreign",
            hint=wrong_owner_hint(file.owner, file.path),
        )
    if file.mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(
            f"{file.path} can be written by others (mode {file.mode:04o})",
            code="config.file_writable",
            hint=f"chmod go-w {quoted}",
        )


def parse_toml(content: bytes, path: Path) -> tuple[str, dict[str, Any]]:
    """Decode and parse TOML: the text and its values.

    Raises:
        Invalid: With the line of the mistake, never with the text around it, which may be a secret.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _not_toml_error(path, "this is not UTF-8 text", line) from error
    # The parser's time is quadratic in a key's parts, so that a long one would block us for minutes.
    if (line := _overlong_key(text)) is not None:
        raise _not_toml_error(path, f"a key has more than {_MAX_DEPTH} parts", line)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        position = _ERROR_LINE.search(message)
        line = int(position.group(1)) if position else text.count("\n") + 1
        raise _not_toml_error(path, _parser_message(message), line) from error
    except RecursionError as error:
        raise _not_toml_error(path, "this is nested too deeply", None) from error
    except ValueError as error:
        raise _not_toml_error(path, "a number is too long", None) from error
    if _depth_exceeds(values, _MAX_DEPTH):
        raise _not_toml_error(path, f"this is nested more than {_MAX_DEPTH} levels deep", None)
    return text, values


def _overlong_key(text: str) -> int | None:
    """The first line with a dotted key of more parts than levels are allowed, anywhere in the line."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MAX_DEPTH:
            bare = _AROUND_DOT.sub(".", _TEXT.sub("s", line))
            if any(word.count(".") > _MAX_DEPTH for word in _SEPARATORS.split(bare)):
                return number
    return None


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of each key and table header, for the usual ways to write them; multi-line strings are skipped."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    open_string: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if open_string is None:
            if header := _HEADER.match(line):
                table = _key_parts(header.group(1))
                lines.setdefault(table, number)
            elif assignment := _ASSIGNMENT.match(line):
                lines.setdefault(table + _key_parts(assignment.group(1)), number)
        open_string = _open_string_after(line, open_string)
    return lines


def _key_parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(key))


def _open_string_after(line: str, open_string: str | None) -> str | None:
    """Which multi-line string, if any, is still open at the end of this line."""
    for mark in re.findall(r'"""|\'\'\'', line):
        open_string = mark if open_string is None else None if open_string == mark else open_string
    return open_string


def _depth_exceeds(value: Any, max_depth: int) -> bool:
    level: list[Any] = [value]
    for _ in range(max_depth):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        ]
        if not level:
            return False
    return True


def _parser_message(message: str) -> str:
    """The parser's message without the position; it names keys and single characters, never a value."""
    text = printable(_ERROR_LINE.sub("", message).removesuffix("(at end of document)").strip())
    return text[:1].lower() + text[1:] if text else "it cannot be parsed"


def _not_toml_error(path: Path, message: str, line: int | None) -> Invalid:
    shown = printable(str(path), MAX_PATH_CHARS)
    return Invalid(
        f"{shown} is not valid TOML",
        [Problem(shown, message, code="config.not_toml", line=line)],
        code="config.not_toml",
        hint=f"correct it: $EDITOR {printable(shlex.quote(str(path)), MAX_PATH_CHARS)}",
    )
