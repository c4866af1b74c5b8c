"""Node programs on the built SDK, spoken to over pipes."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.sdk.conversation import ROOT, Conversation, conversation

SDK = ROOT / "sdk" / "typescript"
EXAMPLE = ROOT / "examples" / "typescript-dice"
BUILT_SDK = EXAMPLE / "paddock-sdk"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@contextmanager
def program(
    folder: Path, source: str, environment: dict[str, str] | None = None
) -> Generator[Conversation, None, None]:
    """A program that imports the SDK as `SDK`, running for as long as the block runs."""
    (folder / "program.mjs").write_text(source.replace("SDK", (BUILT_SDK / "index.js").as_uri()))
    with conversation(["node", "program.mjs"], folder, environment) as talk:
        yield talk
