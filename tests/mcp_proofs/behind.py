"""The server that the conformance suite wants to meet, caged as any plugin, and what a client starts to reach it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.mcp.playing import site_packages
from tests.mcp_proofs.conformance import offered

from fixtures.commands import SOURCE, Paddock
from fixtures.packages import write_json
from fixtures.policies import ask_about_nothing_unknown
from fixtures.ready_commands import write_ready_program

SERVER = Path(__file__).parent / "conformance"
PLUGIN = "conformance"


def home_with_server(folder: Path, revision: str) -> Paddock:
    """A home in which the server is installed and enabled. It speaks 2026-07-28, or what has a `handshake`."""
    package = folder / "package"
    shutil.copytree(SERVER, package, ignore=shutil.ignore_patterns("__pycache__"))
    site = site_packages()
    manifest = {
        "paddock": 1,
        "name": PLUGIN,
        "version": "1.0.0",
        "description": "What the conformance suite wants a server to offer",
        "runtime": {"command": ["python3", "./server.py", revision], "protocol": "mcp", "env": {"PYTHONPATH": site}},
        "capabilities": [f"read:fs:{site}"],
    }
    write_json(package / "paddock.yaml", manifest)
    (folder / "home").mkdir()
    paddock = Paddock(folder / "home")
    ask_about_nothing_unknown(paddock.home)
    paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("plugin", "enable", PLUGIN)
    paddock.quickly("call", f"{PLUGIN}.test_simple_text")  # from its first start on it is known what it offers
    return paddock


def home_for_the_suite(folder: Path, revision: str) -> Paddock:
    """The same under the names that the suite knows: those of no plugin."""
    paddock = home_with_server(folder, revision)
    names = [one.name for one in (*offered.tools(), *offered.prompts())]
    pairs = json.dumps([f"{name}={PLUGIN}.{name}" for name in dict.fromkeys(names)])
    (paddock.home / "config.toml").write_text(f"[gateway]\nnames = {pairs}\n")
    return paddock


def command(paddock: Paddock) -> tuple[str, list[str], dict[str, str]]:
    """What a client starts: program, arguments and variables."""
    program = paddock.home.parent / "paddock"
    write_ready_program(program, SOURCE)
    return str(program), ["mcp"], {**paddock.environment, "PYTHONPATH": str(SOURCE)}
