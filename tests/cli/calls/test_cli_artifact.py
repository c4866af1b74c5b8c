"""`paddock artifact get`: what an answer names by its address becomes a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import write_file, write_json

CONTENT = b"".join(number.to_bytes(4, "big") for number in range(50_000))
PROGRAM = """
from paddock_sdk import Host, Plugin
plugin = Plugin("maker", "1.0.0")
@plugin.tool
def make(host: Host) -> dict:
    content = b"".join(number.to_bytes(4, "big") for number in range(50_000))
    return {"uri": host.artifacts.put(content, "application/pdf").wait()}
plugin.run()
"""


@pytest.fixture
def maker(paddock: Paddock, source: Path) -> Paddock:
    tools = [{"name": "make", "description": "x", "effects": ["read_only"], "input_schema": {"type": "object"}}]
    about = {"paddock": 1, "name": "maker", "version": "1.0.0", "description": "x", "tools": tools}
    about |= {"runtime": {"command": ["python3", "./main.py"]}, "capabilities": ["host:artifacts"]}
    write_json(source / "maker" / "paddock.yaml", about)
    write_file(source / "maker" / "main.py", PROGRAM)
    paddock.quickly("plugin", "install", source / "maker", "--yes")
    paddock.quickly("plugin", "enable", "maker", "--no-start")
    return paddock


@pytest.mark.req("G-32", "binary data")
def test_what_an_answer_names_is_written_to_a_file_with_a_daemon_and_without(maker: Paddock) -> None:
    folder = maker.home.parent
    uri = maker("call", "maker.make").json["uri"]
    assert uri == f"artifact://sha256/{hashlib.sha256(CONTENT).hexdigest()}"

    assert "200000 bytes, application/pdf" in maker("artifact", "get", uri, "--output", folder / "one").err
    with daemon(maker):
        told = maker("artifact", "get", uri, "-o", folder / "two", "--json").json
    assert told == {"uri": uri, "file": str(folder / "two"), "size": 200_000, "media_type": "application/pdf"}
    shown = maker.quickly("artifact", "show", uri, "--json").json
    assert (shown["uri"], shown["size"], shown["media_type"]) == (uri, 200_000, "application/pdf")
    assert "200000 bytes" in maker.quickly("artifact", "show", uri).out
    unknown = maker.quickly("artifact", "show", f"artifact://sha256/{'0' * 64}", "--json", code=3)
    assert unknown.error["code"] == "artifacts.unknown"
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes() == CONTENT


@pytest.mark.slow
def test_nothing_is_overwritten_and_nothing_damaged_or_unknown_is_handed_out(maker: Paddock) -> None:
    folder = maker.home.parent
    uri = maker("call", "maker.make").json["uri"]
    (folder / "mine").write_text("mine")

    def refused(*words: object, code: int) -> str:
        return maker.quickly("artifact", "get", *words, "--json", code=code).error["code"]

    assert refused(uri, "-o", folder / "mine", code=6) == "artifacts.file_exists"
    assert refused(uri, "-o", folder / "no" / "folder", code=6) == "artifacts.file_unwritable"
    assert refused(uri, code=6) == "artifacts.no_output"
    assert refused("artifact://sha256/../../x", "-o", folder / "x", code=6) == "invalid_params"
    assert refused(f"artifact://sha256/{'0' * 64}", "-o", folder / "x", code=3) == "artifacts.unknown"
    (kept,) = (maker.home / "data" / "artifacts").glob("of-*/*/*")
    kept.write_bytes(CONTENT[:-1] + b"!")
    assert refused(uri, "-o", folder / "x", code=1) == "artifacts.damaged"
    with daemon(maker):
        assert refused(uri, "-o", folder / "x", code=1) == "artifacts.damaged"
        kept.write_bytes(CONTENT[:-1])
        assert refused(uri, "-o", folder / "x", code=1) == "artifacts.damaged"
        kept.unlink()
        assert refused(uri, "-o", folder / "x", code=3) == "artifacts.missing"
    assert (folder / "mine").read_text() == "mine"
    assert not (folder / "x").exists()
