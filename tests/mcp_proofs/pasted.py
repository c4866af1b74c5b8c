"""A client that takes its settings literally: it starts what they name, as they name it, with the official library."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from fixtures.commands import PATIENCE, SOURCE
from fixtures.ready_commands import write_ready_program


def with_paddock_on_the_path(folder: Path) -> dict[str, str]:
    """The variables of a client on whose path `paddock` is."""
    program = folder / "bin" / "paddock"
    program.parent.mkdir(parents=True, exist_ok=True)
    write_ready_program(program, SOURCE)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}


@asynccontextmanager
async def client_of(settings: str, key: str, variables: dict[str, str]) -> AsyncGenerator[Client, None]:
    """A client connected to the only server that its settings have, which is Paddock."""
    ((_, server),) = json.loads(settings)[key].items()
    way = StdioServerParameters(command=server["command"], args=server["args"], env=variables | server.get("env", {}))
    async with asyncio.timeout(PATIENCE), Client(way, mode="legacy") as client:
        yield client


def said(result: Any) -> str:
    """The text of a tool's answer."""
    assert not result.is_error, result
    return result.content[0].text
