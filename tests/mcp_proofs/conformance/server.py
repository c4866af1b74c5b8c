"""The server that the official conformance suite wants to meet, on the official SDK and on its standard streams.

Run as a script: `server.py REVISION`, where that is `2026-07-28` (which has no handshake) or `handshake`. It runs in a
cage behind the gateway, so it imports nothing of the tests.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anyio
import mcp_types as types
import offered
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY
from questions import Asker, Unanswered

from mcp.server import runner

bus = InMemorySubscriptionBus()
gone: set[str] = set()  # which lists are without what comes and goes
TEXT = {"type": "string"}


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=_shown(offered.tools(), "tools"))


async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=_shown(offered.prompts(), "prompts"))


def _shown(listed: list[Any], what: str) -> list[Any]:
    return [one for one in listed if one.name != offered.SOMETIMES or what not in gone]


async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=offered.resources())


async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=offered.templates())


async def read_resource(ctx: Any, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    match uri.removeprefix("test://").split("/"):
        case ["static-text"]:
            found: Any = types.TextResourceContents(
                uri=uri, mime_type="text/plain", text="This is the content of the static text resource."
            )
        case ["static-binary"]:
            found = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=offered.PIXEL)
        case ["watched-resource"]:
            found = types.TextResourceContents(uri=uri, mime_type="text/plain", text="Nothing has changed.")
        case ["template", number, "data"]:
            words = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
            found = types.TextResourceContents(uri=uri, mime_type="application/json", text=words)
        case _:
            raise MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    return types.ReadResourceResult(contents=[found])


async def watch(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()  # nothing here ever changes


async def get_prompt(ctx: Any, params: Any) -> Any:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt" | offered.SOMETIMES:
            said: list[Any] = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            said = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            said = [
                embedded(given["resourceUri"], "Embedded resource content for testing."),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            said = [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            try:
                _, filled = await Asker(ctx, params).form(
                    "user_context", "What context should the prompt use?", {"context": TEXT}, "context"
                )
            except Unanswered as question:
                return question.result
            said = [text(f"In the context of {filled['context']}")]
        case _:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no prompt {params.name}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=one) for one in said])


async def complete(ctx: Any, params: Any) -> types.CompleteResult:
    known = ("paris", "park", "party")
    values = [one for one in known if one.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def call_tool(ctx: Any, params: Any) -> Any:
    try:
        said = await _called(ctx, params.name, params.arguments or {}, Asker(ctx, params))
    except Unanswered as question:
        return question.result
    return said if isinstance(said, types.CallToolResult) else types.CallToolResult(content=said)


async def _called(ctx: Any, name: str, given: dict[str, Any], person: Asker) -> Any:
    match name:
        case "test_simple_text" | offered.SOMETIMES:
            return [text("This is a simple text response for testing.")]
        case "test_image_content":
            return [image()]
        case "test_audio_content":
            return [types.AudioContent(data=offered.SILENCE, mime_type="audio/wav")]
        case "test_embedded_resource":
            return [embedded("test://embedded-resource", "This is an embedded resource content.")]
        case "test_multiple_content_types":
            mixed = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
            return [text("Multiple content types test:"), image(), mixed]
        case "test_error_handling":
            words = "This tool intentionally returns an error for testing"
            return types.CallToolResult(content=[text(words)], is_error=True)
        case "test_tool_with_logging" | "test_logging_tool":
            for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
                await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
                await anyio.sleep(0.05)
            return [text("It has told what it did.")]
        case "test_tool_with_progress":
            await _progress(ctx)
            return [text("It is done.")]
        case "test_reconnection":
            await anyio.sleep(0.2)
            return [text("Reconnection test completed successfully")]
        case "test_header":
            return [text(given["region"])]
        case "test_missing_capability":
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs a model of the client's.", needed)
        case "test_trigger_tool_change":
            await _come_or_go(ctx, "tools")
            return [text("The tools are others now.")]
        case "test_trigger_prompt_change":
            await _come_or_go(ctx, "prompts")
            return [text("The prompts are others now.")]
        case _:
            return await _asked(name, given, person)


async def _asked(name: str, given: dict[str, Any], person: Asker) -> Any:
    """Of the tools that want to know something."""
    match name:
        case "test_elicitation":
            fields = {"username": TEXT, "email": TEXT}
            action, filled = await person.form("user", given["message"], fields, "username", "email")
            return [text(f"User response: action={action}, content={filled}")]
        case "test_elicitation_sep1034_defaults":
            action, filled = await person.form("profile", "Who are you?", DEFAULTS)
            return [text(f"Elicitation completed: action={action}, content={filled}")]
        case "test_elicitation_sep1330_enums":
            action, filled = await person.form("choices", "What do you choose?", CHOICES)
            return [text(f"Elicitation completed: action={action}, content={filled}")]
        case "test_input_required_result_elicitation" | "test_streaming_elicitation":
            _, filled = await person.form("user_name", "What is your name?", {"name": TEXT}, "name")
            return [text(f"Hello, {(filled or {}).get('name')}!")]
        case "test_input_required_result_request_state" | "test_input_required_result_tampered_state":
            await person.form("confirm", "Please confirm", {"ok": {"type": "boolean"}}, "ok")
            return [text("state-ok")]
        case "test_input_required_result_multi_round":
            _, first = await person.form("step1", "Step 1: What is your name?", {"name": TEXT}, "name")
            _, second = await person.form("step2", "Step 2: What is your favorite color?", {"color": TEXT}, "color")
            return [text(f"{first['name']} likes {second['color']}")]
        case "json_schema_2020_12_tool":
            return [text("It fits.")]
        case _:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {name}")


DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
CHOICES = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


async def _progress(ctx: Any) -> None:
    token = (ctx.meta or {}).get("progress_token")
    for done in (0, 50, 100):
        if token is not None:
            await ctx.session.send_progress_notification(token, done, 100, related_request_id=str(ctx.request_id))
        await anyio.sleep(0.05)


async def _come_or_go(ctx: Any, what: str) -> None:
    gone.symmetric_difference_update({what})
    await bus.publish(ToolsListChanged() if what == "tools" else PromptsListChanged())
    if ctx.protocol_version < "2026":
        session = ctx.session
        await (session.send_tool_list_changed() if what == "tools" else session.send_prompt_list_changed())


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def image() -> types.ImageContent:
    return types.ImageContent(data=offered.PIXEL, mime_type="image/png")


def embedded(uri: str, words: str, kind: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=kind, text=words))


async def serve(revision: str) -> None:
    server: Server[Any] = Server(
        "conformance",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=watch,
        on_unsubscribe_resource=watch,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(bus),
    )
    options = server.create_initialization_options(NotificationOptions(tools_changed=True, prompts_changed=True))
    async with stdio_server() as (read, write):
        if revision == "handshake":
            await server.run(read, write, options)
            return
        async with server.lifespan(server) as state:
            await runner._serve_modern_stream(  # pyright: ignore
                server, read, write, lifespan_state=state, raise_exceptions=False
            )


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
