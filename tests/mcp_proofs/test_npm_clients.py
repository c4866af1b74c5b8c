"""The official TypeScript clients of both generations and the Inspector's command line, over HTTP and over stdio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.playing import REVISIONS
from tests.mcp_proofs.behind import command
from tests.mcp_proofs.conftest import Suited
from tests.mcp_proofs.node import node

pytestmark = pytest.mark.registry
WAYS = pytest.mark.parametrize("way", ["http", "stdio"])


@pytest.fixture
def place(way: str, suited: Suited, tmp_path: Path) -> list[str]:
    """What a client is given: an address and the headers for it, or what to start."""
    if way == "http":
        return [suited.url, json.dumps({"Authorization": f"Bearer {suited.key}"})]
    program, arguments, environment = command(suited.daemon.paddock)
    started = tmp_path / "paddock-mcp"  # most clients pass on few variables
    lines = [f"export {name}='{environment[name]}'" for name in ("PADDOCK_HOME", "PYTHONPATH", "HOME")]
    started.write_text("\n".join(["#!/bin/sh", *lines, f'exec {program} {" ".join(arguments)} "$@"', ""]))
    started.chmod(0o755)
    return [str(started)]


def got(programs: Path, *words: str) -> dict[str, Any]:
    done = node(programs, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def has_everything(told: dict[str, Any], *, asked: bool = True) -> None:
    assert "test_simple_text" in told["tools"] and "test_simple_prompt" in told["prompts"]
    assert told["text"] == "This is a simple text response for testing."
    assert told["mixed"] == ["text", "image", "resource"] and told["failed"] is True
    assert told["steps"] == [0, 50, 100]
    assert "test://static-text" in told["resources"] and told["read"] == "123"
    assert told["prompt"] == "Prompt with arguments: arg1='hello', arg2='world'"
    assert told["completed"] == ["paris", "park", "party"]
    assert told["greeted"] == ("Hello, Ada!" if asked else "Hello, None!")
    assert told["asked"] == (["conformance: What is your name?"] if asked else [])


@pytest.mark.req("B-01", "any client")
@WAYS
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_typescript_client_uses_everything(npm_programs: Path, place: list[str], revision: str) -> None:
    told = got(npm_programs, "modern.mjs", revision, *place)
    assert told["spoken"] == revision
    has_everything(told, asked=revision >= "2025-06")


@WAYS
def test_the_typescript_client_that_most_programs_have_uses_everything(npm_programs: Path, place: list[str]) -> None:
    has_everything(got(npm_programs, "classic.mjs", *place))


@WAYS
def test_the_inspector_lists_calls_and_reads(npm_programs: Path, place: list[str]) -> None:
    where, *headers = place
    shown = [f"{name}: {value}" for one in headers for name, value in json.loads(one).items()]

    def inspected(*words: str) -> dict[str, Any]:
        given = [*words, "--header", *shown] if shown else words
        return got(npm_programs, "node_modules/.bin/mcp-inspector", "--cli", where, *given)

    listed = inspected("--method", "tools/list")
    assert "test_simple_text" in [tool["name"] for tool in listed["tools"]]
    called = inspected("--method", "tools/call", "--tool-name", "test_header", "--tool-arg", "region=north")
    assert called["content"][0]["text"] == "north"
    read = inspected("--method", "resources/read", "--uri", "test://static-text")
    assert read["contents"][0]["text"] == "This is the content of the static text resource."
    prompts = inspected("--method", "prompts/list")
    assert "test_simple_prompt" in [prompt["name"] for prompt in prompts["prompts"]]
