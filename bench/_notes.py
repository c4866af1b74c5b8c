"""The small plugin whose calls are measured: a method that reads, one that writes, and one that breaks its promise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from _home import install, write_package

LOOK, KEEP, LIE = "notes.notes.look", "notes.notes.keep", "notes.notes.lie"

_PROGRAM = """
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.method("notes.look")
@plugin.method("notes.keep")
def answer(params, context):
    return {"text": params["text"]}
@plugin.method("notes.lie")
def lie(params, context):
    return {"text": 5}
plugin.run()
"""
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_EFFECTS = {"notes.look": "read_only", "notes.keep": "db_write", "notes.lie": "read_only"}


def home_with_notes(folder: Path, environ: Mapping[str, str] | None = None) -> Path:
    """A home in which it is installed; its methods take and give a text."""
    package = write_package(
        folder / "notes",
        "notes",
        {"main.py": _PROGRAM},
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[],
        methods=[
            {"name": name, "effects": [effect], "input_schema": _TEXT, "output_schema": _TEXT}
            for name, effect in _EFFECTS.items()
        ],
    )
    install(folder / "home", package, environ=environ)
    return folder / "home"
