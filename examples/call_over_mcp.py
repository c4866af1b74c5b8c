"""Call tools through Paddock with the official Python client: pip install mcp.

It starts `paddock mcp` as any MCP client does. With an API key in PADDOCK_KEY it asks a daemon over HTTP instead.
"""

import asyncio
import os

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mcp import Client, StdioServerParameters


async def main() -> None:
    paddock = StdioServerParameters(command="paddock", args=["mcp"], env=dict(os.environ))
    async with Client(paddock) as client:
        tools = await client.list_tools()
        print(*(tool.name for tool in tools.tools), sep="\n")


async def over_http(address: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        tools = await client.list_tools()
        print(*(tool.name for tool in tools.tools), sep="\n")


if __name__ == "__main__":
    key = os.environ.get("PADDOCK_KEY")
    address = os.environ.get("PADDOCK_MCP", "http://127.0.0.1:7433/mcp")
    asyncio.run(over_http(address, key) if key else main())
