"""A server on the official SDK that speaks one revision, or all of them, on its standard streams or over HTTP.

Run as a script: `server.py stdio|http|sse REVISION [PORT]`; REVISION may be `all`. The tests put it into cages too,
so it imports nothing of theirs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response

from mcp.server import runner

OBJECT = {"type": "object"}
COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
}
bus = InMemorySubscriptionBus()
extra: list[str] = []


def tool(name: str, description: str, **fields: Any) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema=OBJECT, **fields)


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    names = ["echo", "fail", "refuse", "slow", "hang", "crash", "block", "big", "ask", "visit", "grow", "log", *extra]
    cursor = int(params.cursor) if params is not None and params.cursor else 0
    page = [tool(name, f"It does {name}") for name in names[cursor : cursor + 5]]
    more = cursor + 5 < len(names)
    return types.ListToolsResult(tools=page, next_cursor=str(cursor + 5) if more else None)


async def call_tool(ctx: Any, params: Any) -> Any:
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return text(str(arguments.get("text")), structured=arguments)
        case "fail":
            return types.CallToolResult(content=[types.TextContent(text="it \x1b[31mbroke")], is_error=True)
        case "refuse":
            raise MCPError(code=-32602, message="not like this")
        case "slow":
            token = (ctx.meta or {}).get("progress_token")
            if token is None:
                return text("done, and nobody asked how far it was")
            for step in range(1, 4):
                await ctx.session.send_progress_notification(
                    token, step, 3, f"step {step}", related_request_id=str(ctx.request_id)
                )
                await anyio.sleep(0.05)
            return text("done")
        case "hang":
            await hang()
        case "crash":
            os._exit(3)
        case "big":
            return text("x" * 5_000_000)
        case "block":
            time.sleep(600)  # noqa: ASYNC251  # a server that does one thing at a time
        case "ask":
            return await ask(ctx, params)
        case "visit":
            answer = await ctx.session.elicit_url("Please sign in", "https://example.com/sign-in", "e1", ctx.request_id)
            return text(answer.action)
        case "grow":
            extra.append("grown")
            await bus.publish(ToolsListChanged())
            if ctx.protocol_version < "2026":
                await ctx.session.send_tool_list_changed()
            return text("grown")
        case "log":
            await ctx.session.send_log_message(
                "warning", "looking \x07around", "eyes", related_request_id=ctx.request_id
            )
            return text("logged")
        case "grown":
            return text("new")
    raise MCPError(code=-32602, message=f"there is no {params.name}")


async def hang() -> None:
    note("hang began")
    try:
        await anyio.sleep(600)
    finally:
        note("hang was stopped")


def note(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


async def ask(ctx: Any, params: Any) -> Any:
    if ctx.protocol_version < "2026":
        answer = await ctx.session.elicit_form("Which colour?", COLOUR, ctx.request_id)
        return text(f"{answer.action} {(answer.content or {}).get('colour')}")
    if params.input_responses:
        answer = params.input_responses["colour"]
        return text(f"{answer.action} {(answer.content or {}).get('colour')} {params.request_state}")
    question = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="Which colour?", requested_schema=COLOUR)
    )
    return types.InputRequiredResult(input_requests={"colour": question}, request_state="kept")


def text(words: str, structured: Any = None) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], structured_content=structured)


async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[types.PromptArgument(name="who")])])


async def get_prompt(ctx: Any, params: Any) -> types.GetPromptResult:
    words = types.TextContent(text=f"Greet {(params.arguments or {}).get('who')}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=words)])


async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="memo://one", name="one")])


async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[types.ResourceTemplate(uri_template="memo://{name}", name="memos")]
    )


async def read_resource(ctx: Any, params: Any) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=f"read {params.uri}")])


async def complete(ctx: Any, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[f"{params.argument.value}lice"]))


def make() -> Server[Any]:
    return Server(
        "stand-in",
        version="1.2.3",
        instructions="Be kind to it.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(bus),
    )


async def over_stdio(revision: str) -> None:
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server

    server = make()
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        if revision == "all":
            await server.run(read, write, options)
            return
        async with server.lifespan(server) as state:
            if revision == "2026-07-28":
                # One that has done with handshakes.
                await runner._serve_modern_stream(  # pyright: ignore
                    server, read, write, lifespan_state=state, raise_exceptions=False
                )
            else:
                await runner.serve_loop(server, read, write, lifespan_state=state, init_options=options)


def over_http(revision: str, port: int) -> None:
    import uvicorn

    app = make().streamable_http_app()
    uvicorn.run(
        app if revision in ("all", "2026-07-28") else without_news(app),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )


def over_sse(port: int) -> None:
    """The transport that came before."""
    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    server, transport = make(), SseServerTransport("/messages/")

    async def serve(request: Any) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    routes = [Route("/sse", serve, methods=["GET"]), Mount("/messages/", transport.handle_post_message)]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


def without_news(app: Any) -> Any:
    """The app as it was before there were stateless requests."""

    async def older(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope.get("headers", ())).get(b"mcp-protocol-version") == b"2026-07-28":
            await Response("Bad Request: Unsupported protocol version", 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return older


if __name__ == "__main__":
    way, revision = sys.argv[1], sys.argv[2]
    if revision in HANDSHAKE_PROTOCOL_VERSIONS:
        runner.HANDSHAKE_PROTOCOL_VERSIONS = (revision,)  # pyright: ignore
        runner.LATEST_HANDSHAKE_VERSION = revision  # pyright: ignore
    if way == "stdio":
        asyncio.run(over_stdio(revision))
    elif way == "sse":
        over_sse(int(sys.argv[3]))
    else:
        over_http(revision, int(sys.argv[3]))
