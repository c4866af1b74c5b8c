"""Servers that offer the same tool over HTTP, each in processes of its own: ours, peers', and what costs least."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _home import install, write_package
from _peers import python_with
from mcp_call import FAIR, SCHEMA

PATIENCE = 120.0  # seconds for a server to come up
TOOL = "echo"
_PADDOCK = [sys.executable, "-m", "paddock.cli"]

# As lean as a server can be, so that what is measured is what stands in front of it.
SERVER = f"""
import json, sys

TOOL = {{"name": "echo", "description": "Says it again", "inputSchema": {SCHEMA!r}}}

def answer(method, params):
    if method == "initialize":
        about = {{"name": "echo", "version": "1"}}
        told = {{"protocolVersion": params["protocolVersion"], "capabilities": {{"tools": {{}}}}, "serverInfo": about}}
        return {{"result": told}}
    if method == "tools/list":
        return {{"result": {{"tools": [TOOL]}}}}
    if method == "tools/call":
        return {{"result": {{"content": [{{"type": "text", "text": params["arguments"]["text"]}}], "isError": False}}}}
    if method == "ping":
        return {{"result": {{}}}}
    return {{"error": {{"code": -32601, "message": "there is no such method"}}}}

for line in sys.stdin.buffer:
    asked = json.loads(line)
    if "id" in asked:
        told = {{"jsonrpc": "2.0", "id": asked["id"], **answer(asked["method"], asked.get("params") or {{}})}}
        sys.stdout.write(json.dumps(told) + "\\n")
        sys.stdout.flush()
"""
STARLETTE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
import orjson

async def answer(request: Request) -> Response:
    asked = orjson.loads(await request.body())
    result = {"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}
    told = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
    return Response(orjson.dumps(told), media_type="application/json")

uvicorn.run(Starlette(routes=[Route("/mcp", answer, methods=["POST"])]), host="127.0.0.1", port=int(sys.argv[1]),
            loop="uvloop", http="httptools", log_level="error", access_log=False)
"""
SDK = f"""
import sys, uvicorn
import mcp_types as types
from mcp.server.lowlevel import Server

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="Says it again", input_schema={SCHEMA!r})])

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(text=params.arguments["text"])])

server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)
uvicorn.run(server.streamable_http_app(json_response=True), host="127.0.0.1", port=int(sys.argv[1]),
            loop="uvloop", http="httptools", log_level="error", access_log=False)
"""
FASTMCP = """
import sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

behind = StdioTransport(command=sys.argv[2], args=[sys.argv[3]], keep_alive=True)
create_proxy(behind).run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False,
                         log_level="ERROR", json_response=True)
"""
FORGE = {
    "JWT_SECRET_KEY": "for-a-measurement-on-loopback-only",
    "AUTH_ENCRYPTION_SECRET": "for-a-measurement-on-loopback-too",
    "PLATFORM_ADMIN_EMAIL": "admin@example.com",
    "PLATFORM_ADMIN_PASSWORD": "For-a-measurement-1",
    "ENVIRONMENT": "development",
    "REQUIRE_STRONG_SECRETS": "false",
    "MCPGATEWAY_UI_ENABLED": "false",
    "SSRF_ALLOW_LOCALHOST": "true",
    "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    "PLUGINS_ENABLED": "false",
    "RATE_LIMITING_ENABLED": "false",
    "LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs."""

    url: str
    tool: str
    pid: int  # of the process that speaks HTTP
    started_in: float  # seconds
    headers: Mapping[str, str]

    def memory(self) -> float:
        """What it takes of memory that is not shared with others, in MB."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextmanager
def bare_starlette(folder: Path) -> Generator[Served, None, None]:
    """A route that answers by itself: what HTTP costs."""
    with _script(folder / "bare_route.py", STARLETTE) as (port, began, child):
        _reached(port, child)
        yield Served(f"http://127.0.0.1:{port}/mcp", TOOL, child.pid, time.monotonic() - began, {})


@contextmanager
def official_sdk(folder: Path) -> Generator[Served, None, None]:
    """The official SDK's own server, with a function in its process for the tool."""
    with _script(folder / "sdk_server.py", SDK) as (port, began, child):
        _reached(port, child)
        yield Served(f"http://127.0.0.1:{port}/mcp", TOOL, child.pid, time.monotonic() - began, {})


@contextmanager
def ours(folder: Path) -> Generator[Served, None, None]:
    """A daemon with the server in a cage, reached with an API key."""
    runtime = {"command": ["python3", "./server.py"], "protocol": "mcp"}
    install(
        folder / "home",
        write_package(folder / "server", "server", {"server.py": SERVER}, runtime=runtime, capabilities=[]),
    )
    with daemon(folder / "home", "/mcp", f"server__{TOOL}") as one:
        yield one


@contextmanager
def daemon(home: Path, path: str, tool: str = "") -> Generator[Served, None, None]:
    """A daemon on this home, reached over TCP with the API key of an operator."""
    environ = {**os.environ, **FAIR, "PADDOCK_HOME": str(home), "PADDOCK_HTTP_ADDRESS": "127.0.0.1:0"}

    def told(*words: str) -> str:
        done = subprocess.run([*_PADDOCK, *words], env=environ, check=True, capture_output=True, text=True)
        return done.stdout

    told("user", "add", "ann", "--role", "operator")
    token = json.loads(told("apikey", "add", "ann", "--role", "operator", "--json"))["token"]
    began = time.monotonic()
    with _running([*_PADDOCK, "serve", "--json"], environ, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        ready: dict[str, Any] = {}
        while ready.get("event") != "ready":
            ready = json.loads(child.stdout.readline())
        took = time.monotonic() - began
        yield Served(f"{ready['url']}{path}", tool, ready["pid"], took, {"authorization": f"Bearer {token}"})


@contextmanager
def script_at(command: list[str], path: str) -> Generator[Served, None, None]:
    """A program of ours that takes a port as its last argument."""
    port, began = _free_port(), time.monotonic()
    with _running([*command, str(port)], os.environ) as child:
        _reached(port, child)
        yield Served(f"http://127.0.0.1:{port}{path}", "", child.pid, time.monotonic() - began, {})


@contextmanager
def fastmcp_proxy(folder: Path) -> Generator[Served, None, None]:
    """FastMCP's proxy in front of the same server, as a bare child process that is kept."""
    arguments = [sys.executable, str(_server(folder))]
    with _script(folder / "proxy.py", FASTMCP, python_with("fastmcp"), arguments) as (port, began, child):
        _reached(port, child)
        yield Served(f"http://127.0.0.1:{port}/mcp", TOOL, child.pid, time.monotonic() - began, {})


@contextmanager
def context_forge(folder: Path) -> Generator[Served, None, None]:
    """ContextForge in front of its own bridge to the same server."""
    python = python_with("mcp-contextforge-gateway")
    home = folder / "forge"
    home.mkdir()
    environ = {**os.environ, **FORGE, "DATABASE_URL": f"sqlite:///{home}/mcp.db", "HOME": str(home)}
    port, behind = _free_port(), _free_port()
    bare = f"{sys.executable} {_server(folder)}"
    bridge = ["-m", "mcpgateway.translate", "--stdio", bare, "--expose-streamable-http", "--port", str(behind)]
    with ExitStack() as stack:
        stack.enter_context(_running([str(python), *bridge], environ, cwd=home))
        began = time.monotonic()
        command = [str(python.with_name("mcpgateway")), "--host", "127.0.0.1", "--port", str(port)]
        child = stack.enter_context(_running(command, environ, cwd=home))
        _reached(port, child, "/health")
        took = time.monotonic() - began
        asking = ["-m", "mcpgateway.utils.create_jwt_token", "--username", FORGE["PLATFORM_ADMIN_EMAIL"], "--admin"]
        told = subprocess.run([python, *asking], env=environ, check=True, capture_output=True, text=True, cwd=home)
        headers = {"authorization": f"Bearer {told.stdout.split()[-1]}"}
        _reached(behind, child)
        known = {"name": "bench", "url": f"http://127.0.0.1:{behind}/mcp", "transport": "STREAMABLEHTTP"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/gateways",
            json.dumps(known).encode(),
            {**headers, "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE):
            yield Served(f"http://127.0.0.1:{port}/mcp/", f"bench-{TOOL}", child.pid, took, headers)


def _server(folder: Path) -> Path:
    return folder / "server" / "server.py"


@contextmanager
def _script(
    path: Path, text: str, python: Path | None = None, arguments: list[str] | None = None
) -> Generator[tuple[int, float, subprocess.Popen[str]], None, None]:
    path.write_text(text, encoding="utf-8")
    port, began = _free_port(), time.monotonic()
    environ = dict(os.environ)
    command = [str(python or sys.executable), str(path), str(port), *(arguments or [])]
    with _running(command, environ) as child:
        yield port, began, child


@contextmanager
def _running(
    command: list[str], environ: Mapping[str, str], cwd: Path | None = None, stdout: int = subprocess.DEVNULL
) -> Generator[subprocess.Popen[str], None, None]:
    child = subprocess.Popen(
        command, env=dict(environ), cwd=cwd, stdout=stdout, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(child.pid, signal.SIGTERM)  # a group of our own making, with what the server has started
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _reached(port: int, child: subprocess.Popen[str], path: str = "/") -> None:
    """Wait until somebody answers there, whatever it says."""
    last = time.monotonic() + PATIENCE
    while time.monotonic() < last:
        assert child.poll() is None, f"it ended with {child.returncode}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"nobody answers on port {port}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
