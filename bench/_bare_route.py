"""A Starlette route that calls a plugin through the runtime alone: no door, no ledger, nobody proven. Run as a program.

python bench/_bare_route.py HOME PORT
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson
import uvicorn
import uvloop
from _home import opened
from governed_call import FAIR
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.core.ids import DEFAULT_TENANT


async def serve(home: Path, port: int) -> None:
    async with opened(home, FAIR) as host:
        context = host.operator_context(None)
        target = host._gate.catalogue(DEFAULT_TENANT).find("echo.echo.it")  # pyright: ignore[reportPrivateUsage]
        supervisor = host._gate.supervisor  # pyright: ignore[reportPrivateUsage]

        async def execute(request: Request) -> Response:
            params = orjson.loads(await request.body())["params"]
            result = await supervisor.call(target.key, target.spec, params, context)
            return Response(orjson.dumps({"result": result}), media_type="application/json")

        app = Starlette(routes=[Route("/api/v1/plugins/echo/execute", execute, methods=["POST"])])
        config = uvicorn.Config(
            app, host="127.0.0.1", port=port, http="httptools", log_level="error", access_log=False, lifespan="off"
        )
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
