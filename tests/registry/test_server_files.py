"""Servers in one file that are written with the protocol's own libraries: installed from the file alone, and called."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.conftest import Server, Shop

from fixtures.packages import write_file

pytestmark = [pytest.mark.registry, pytest.mark.slow]

CALCULATOR = '''"""Calculates."""

{imports}

mcp = {made}("Calculator")


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


{last}
'''
RUN = 'if __name__ == "__main__":\n    mcp.run()'
LIBRARIES = {
    "mcp before 2": ("from mcp.server.fastmcp import FastMCP", "FastMCP"),
    "mcp": ("from mcp.server.mcpserver import MCPServer", "MCPServer"),
    "fastmcp": ("from fastmcp import FastMCP", "FastMCP"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_with_fastmcp_is_a_plugin_without_a_manifest(shop: Shop, tmp_path: Path, library: str) -> None:
    imports, made = LIBRARIES[library]
    file = write_file(tmp_path / "server.py", CALCULATOR.format(imports=imports, made=made, last=RUN))
    done = shop.paddock.quickly("plugin", "install", file, "--yes", "--json").json
    assert (done["name"], done["server"]["tools"]) == ("calculator", ["add"])
    assert done["server"]["answers"]
    assert shop.paddock.listed()["calculator"]["capabilities"] == []

    shop.paddock.quickly("plugin", "enable", "calculator")
    assert Server(shop.paddock, "calculator").given("add", a=2, b=3) == {"result": 5}


def test_a_file_with_fastmcp_that_never_runs_says_how_it_ends(shop: Shop, tmp_path: Path) -> None:
    imports, made = LIBRARIES["mcp before 2"]
    file = write_file(tmp_path / "server.py", CALCULATOR.format(imports=imports, made=made, last=""))
    refused = shop.paddock.quickly("plugin", "install", file, "--yes", "--json", code=7)
    assert refused.error["code"] == "server.no_answer"
    assert "mcp.run()" in refused.error["hint"]
