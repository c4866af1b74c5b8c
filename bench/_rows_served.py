"""One route, as a row of ours or with FastAPI: how long it takes to import, what it keeps, and what a request costs.

Run with `rows` or `fastapi` by `http_rows.py`, each with an interpreter that has what it needs. Prints JSON.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

REQUESTS = 4000
BODY = json.dumps({"name": "parrot.say", "params": {"text": "hello"}, "idempotency_key": "a-key"}).encode()


def resident() -> int:
    """Bytes that this process keeps for itself."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def rows() -> Any:
    from starlette.requests import Request

    from paddock.core.schema_annotations import MemberConstraint
    from paddock.web.routing.errors import ErrorMiddleware
    from paddock.web.routing.route import ApiRoute, JsonResponse, RequestBody, bool_param_spec, int_param_spec
    from paddock.web.routing.router import Router, serve_route
    from paddock.web.routing.validation import validated_body

    class CallBody(TypedDict):
        name: str
        params: NotRequired[dict[str, Any]]
        idempotency_key: NotRequired[Annotated[str, MemberConstraint(max_length=255)]]

    async def make_call(request: Request) -> JsonResponse[dict[str, Any]]:
        given = validated_body(request, CallBody)
        return JsonResponse({"name": given["name"], "result": given.get("params", {})})

    query = {"detach": bool_param_spec("Detach."), "limit": int_param_spec("How many.", 100, 1000)}
    row = ApiRoute(
        "POST",
        "/calls",
        make_call,
        "Call",
        "The call.",
        query=query,
        request_body=RequestBody(CallBody, {"name": "parrot.say"}),
    )
    table = Router([row])

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        await serve_route(table.find_route(scope), scope, receive, send)

    return ErrorMiddleware(answered, lambda: "err_1")


def fastapi() -> Any:
    from fastapi import FastAPI, Query  # pyright: ignore[reportMissingImports]  # see _peers.py
    from pydantic import BaseModel, ConfigDict, Field

    class Call(BaseModel):
        model_config = ConfigDict(extra="forbid")
        name: str
        params: dict[str, Any] = {}
        idempotency_key: Annotated[str, Field(max_length=255)] | None = None

    class Made(BaseModel):
        name: str
        result: dict[str, Any]

    app = FastAPI()

    @app.post("/api/v1/calls")
    async def make_call(call: Call, detach: bool = False, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Made:
        del detach, limit
        return Made(name=call.name, result=call.params)

    return app


async def ask(app: Any, caller: Any) -> int:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    status = 0

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/v1/calls",
        "raw_path": b"/api/v1/calls",
        "query_string": b"limit=5",
        "root_path": "",
        "headers": headers,
        "state": {"caller": caller},
    }
    await app(scope, receive, send)
    return status


async def measured(app: Any, caller: Any) -> float:
    for _ in range(200):
        assert await ask(app, caller) == 200
    began = time.process_time()
    for _ in range(REQUESTS):
        await ask(app, caller)
    return (time.process_time() - began) / REQUESTS


def main(which: str) -> None:
    import starlette.applications
    import starlette.routing

    if which == "rows":  # what the daemon has anyway, besides its API
        import orjson

        from paddock.core.schema.compile import compile_trusted
        from paddock.host.host import Host
        from paddock.host.identity.caller import local_principal
        from paddock.web.security.authenticate import Caller

        del orjson, compile_trusted, Host
        caller: Any = Caller(local_principal("bench"), "bench", "socket")
    else:
        caller = None
    del starlette
    before, began = resident(), time.process_time()
    app = rows() if which == "rows" else fastapi()
    built = time.process_time() - began
    kept = resident() - before
    print(json.dumps({"built": built, "kept": kept, "request": asyncio.run(measured(app, caller))}))


main(sys.argv[1])
