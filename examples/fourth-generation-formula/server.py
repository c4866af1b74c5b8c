"""Fourth Generation Formula as an MCP server on stdin and stdout. Standard library only."""

from __future__ import annotations

from fgf.methods import METHODS
from fgf.rpc import serve

if __name__ == "__main__":
    serve(METHODS)
