"""YAML of untrusted origin for a terminal."""

from __future__ import annotations


def escape_yaml(text: str) -> str:
    """Escape non-printable characters in YAML. They occur in double quotes only, where the escapes are valid."""
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_escape_character, line)) for line in lines)


def _escape_character(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"
