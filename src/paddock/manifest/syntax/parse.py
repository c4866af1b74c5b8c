"""Parses untrusted bytes into a document, with limits: YAML, JSON (in editor files with comments), TOML, Python."""

from __future__ import annotations

from paddock.manifest.syntax.document import MANIFEST_LIMITS, FileLimits, ParsedDocument, invalid_file_error
from paddock.manifest.syntax.json_document import parse_json
from paddock.manifest.syntax.python_source import parse_python
from paddock.manifest.syntax.toml_document import parse_toml
from paddock.manifest.syntax.yaml_document import parse_yaml

EMPTY = "is empty"
EMPTY_HINT = "write the manifest into it; the manifest reference has an example of every dialect"


def parse_document(name: str, data: bytes, limits: FileLimits = MANIFEST_LIMITS) -> ParsedDocument:
    """Parse a file by its extension.

    Raises:
        Invalid: not UTF-8, too large, too deep, malformed, duplicate keys, aliases, or computed Python.
    """
    text = _decode_utf8(name, data, limits.max_bytes)
    if not text.strip():
        raise invalid_file_error(name, EMPTY, hint=EMPTY_HINT, line=1, code="empty")
    if name.endswith(".py"):
        return parse_python(name, text)
    if name.endswith((".yaml", ".yml")):
        return parse_yaml(name, text)
    parse = parse_toml if name.endswith(".toml") else parse_json
    return parse(name, text, limits.max_values)


def _decode_utf8(name: str, data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        raise invalid_file_error(
            name,
            f"is larger than {max_bytes // 1024} KiB",
            hint="a manifest is a small text file",
            code="too_large",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise invalid_file_error(
            name, f"is not UTF-8 text (byte {error.start})", hint="save the file as UTF-8", line=line, code="not_utf8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise invalid_file_error(
            name, "has a NUL byte", hint="remove it; a manifest is text", line=line, code="nul_byte"
        )
    return text
