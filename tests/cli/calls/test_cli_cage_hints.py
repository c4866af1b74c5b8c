"""What a cage refuses to a server for real, and the grant that the error then names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import write_file, write_json

SERVER = """
import json, subprocess, sys, urllib.request

ATTEMPTS = {
    "read": lambda where: open(where).read(),
    "write": lambda where: open(where, "w").write("x"),
    "run": lambda where: subprocess.run([where], check=True),
    "reach": lambda where: urllib.request.urlopen(where, timeout=5),
}
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ATTEMPTS]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer, params = {}, asked.get("params", {})
    match asked["method"]:
        case "initialize":
            answer = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            answer["serverInfo"] = {"name": "eager", "version": "1"}
        case "tools/list":
            answer = {"tools": TOOLS}
        case "tools/call":
            where = params["arguments"]["where"]
            try:
                ATTEMPTS[params["name"]](where)
                text = "done"
            except Exception as error:
                text = f"{where}: {error}" if params["name"] == "reach" else str(error)
            answer = {"content": [{"type": "text", "text": text}], "isError": text != "done"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@pytest.mark.slow
def test_each_kind_of_refusal_names_the_grant_that_would_allow_it(paddock: Paddock, source: Path) -> None:
    script, docs, other = write_file(source / "server.py", SERVER), source / "docs", source / "other"
    docs.mkdir()
    write_file(other / "a.txt", "of somebody")
    file = write_json(source / "mcp.json", {"mcpServers": {"eager": {"command": "python3", "args": [str(script)]}}})
    grants = ("--capability", f"read:fs:{script}", "--capability", f"read:fs:{docs}")
    paddock.quickly("import", file, *grants, "--yes")
    paddock.quickly("plugin", "enable", "eager", "--yes")

    refused = {
        f"read:fs:{other}": ("read", str(other / "a.txt")),
        f"write:fs:{docs}": ("write", str(docs / "new.txt")),
        "exec:git:/": ("run", "git"),
        "net:news.example:80, or net:*": ("reach", "http://news.example/"),
    }
    for grant, (tool, where) in refused.items():
        params = json.dumps({"where": where})
        error = paddock.quickly("call", f"eager.{tool}", "--params", params, "--json", code=7).error
        assert f"grant it {grant}" in error["hint"], error

    # What the last line says is a command that works.
    paddock.quickly("plugin", "upgrade", "eager", "--capability", f"read:fs:{other}", "--yes")
    params = json.dumps({"where": str(other / "a.txt")})
    assert "done" in paddock.quickly("call", "eager.read", "--params", params, "--json").out
