"""A program that lets one plugin use its network and tells what came of it; run by an ordinary user."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.cage.network.networked import PUBLIC, open_yard

SCRIPT = """
tell([outcome(talk, host, port) for host, port in (
    ("one.example.test", 443), ("all.example.test", 8080), ("10.0.0.5", 22), ("other.example.test", 443),
    ("one.example.test", 80), ("1.1.1.1", 443))])
"""
GRANTS = ("net:one.example.test:443", "net:all.example.test:*", "net:10.0.0.5:22")


async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"heard " + await reader.read())
    await writer.drain()
    writer.close()


async def main(folder: Path) -> None:
    server = await asyncio.start_server(repeat, "127.0.0.1", 0)
    real: int = server.sockets[0].getsockname()[1]
    async with open_yard(folder) as yard:
        yard.world.names |= {"one.example.test": [PUBLIC], "all.example.test": [PUBLIC]}
        yard.world.servers |= {(PUBLIC, 443): real, (PUBLIC, 8080): real, ("10.0.0.5", 22): real}
        plugin = await yard.start(SCRIPT, *GRANTS)
        heard = await plugin.told()
        await plugin.ended()
    server.close()
    json.dump({"user": os.getuid(), "heard": heard, "connected": len(yard.told.connected())}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
