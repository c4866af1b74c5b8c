"""Two documents: the framework, written from the levels themselves, and the template of a family's own book."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgf.levels import LEVELS
from fgf.rpc import INVALID_PARAMS, RpcError

FRAMEWORK = "fgf://framework/9-levels"
TEMPLATE = "fgf://templates/book-of-builders"

RESOURCES = [
    {
        "uri": FRAMEWORK,
        "name": "9-Level Transfer Framework",
        "description": "Complete framework documentation",
        "mimeType": "text/markdown",
    },
    {
        "uri": TEMPLATE,
        "name": "Book of Builders Template",
        "description": "Template for personal principles document",
        "mimeType": "text/markdown",
    },
]


def read(uri: str) -> dict[str, Any]:
    """One document.

    Raises:
        RpcError: there is none at that address.
    """
    if uri == FRAMEWORK:
        text = framework()
    elif uri == TEMPLATE:
        text = (Path(__file__).parent / "texts" / "book-of-builders.md").read_text(encoding="utf-8")
    else:
        raise RpcError(INVALID_PARAMS, "there is no such resource", {"uri": uri[:500]})
    return {"uri": uri, "mimeType": "text/markdown", "text": text}


def framework() -> str:
    """The nine levels as a document. Made from the table that the assessment uses, so that they cannot differ."""
    lines = ["# The nine levels of transfer", ""]
    lines += ["Rate each statement from 1 (not at all) to 5 (fully). A level holds from an average of 3.5.", ""]
    for number, level in enumerate(LEVELS, start=1):
        lines += [f"## {number}. {level.name}", ""]
        lines += [f"- {statement}" for statement in level.statements]
        lines += ["", f"Next step: {level.next_step}", ""]
    return "\n".join(lines)
