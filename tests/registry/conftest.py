"""Servers that nobody here wrote, installed and called as a person would."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock, Said
from paddock.core.error_formats import EXIT_CODES
from paddock.core.errors import Category


@dataclass(frozen=True, slots=True)
class Server:
    """One installed server. Each call is a command of its own, so nothing is kept but what the server wrote."""

    paddock: Paddock
    name: str

    def call(self, tool: str, code: int = 0, **arguments: Any) -> Said:
        """What a tool answers. Where nobody knows what it changes, a person says once that they mean it to."""
        words = ("call", f"{self.name}.{tool}", "--params", json.dumps(arguments), "--json")
        with self.paddock.start(*words) as process:
            out, err = process.communicate(timeout=PATIENCE)
        said = Said(process.returncode, out, err)
        if said.code == EXIT_CODES[Category.AUTHORIZATION]:
            waiting = said.error["details"]["approval"]
            approved = self.paddock("approval", "approve", waiting, "--always", "--yes", "--json", code=code)
            said = Said(code, json.dumps(approved.json["call"]), approved.err)
        assert said.code == code, (said.out, said.err)
        return said

    def said(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's result."""
        return self.call(tool, **arguments).json["result"]["content"][0]["text"]

    def given(self, tool: str, **arguments: Any) -> Any:
        """A tool's result as data."""
        return self.call(tool, **arguments).json["result"]["structuredContent"]


@dataclass(frozen=True, slots=True)
class Shop:
    """Where servers come from."""

    paddock: Paddock

    def npm(self, name: str, *options: object) -> Server:
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed here")
        return self._installed(f"npm:@modelcontextprotocol/server-{name}", options)

    def pypi(self, name: str, *options: object) -> Server:
        return self._installed(f"pypi:mcp-server-{name}", options)

    def _installed(self, source: str, options: tuple[object, ...]) -> Server:
        done = self.paddock.quickly("plugin", "install", source, *options, "--yes", "--json").json
        self.paddock.quickly("plugin", "enable", done["name"])
        return Server(self.paddock, done["name"])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    (tmp_path / "home").mkdir()
    return Shop(Paddock(tmp_path / "home"))


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    """A folder of the person's that a test lets a server into."""
    folder = tmp_path / "granted"
    folder.mkdir()
    return folder
