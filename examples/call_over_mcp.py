"""Call tools through Paddock with the official Python client: pip install mcp.

It starts `paddock mcp` as any MCP client does. With the address of a daemon and a key, the same goes over HTTP.
"""

import asyncio
import os

from mcp import Client, StdioServerParameters


async def main() -> None:
    paddock = StdioServerParameters(command="paddock", args=["mcp"], env=dict(os.environ))
    async with Client(paddock) as client:
        tools = await client.list_tools()
        print(*(tool.name for tool in tools.tools), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
