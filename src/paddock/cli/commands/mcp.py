"""`paddock mcp`: an MCP server on stdio, for a client that starts this command."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_message
from paddock.core.ids import DEFAULT_TENANT

if TYPE_CHECKING:
    from paddock.cli.client.stdio import StdioLines


_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DRAIN_TIMEOUT_S = 10.0  # for requests in flight after the end of the client's input

WriteStdoutLine: TypeAlias = Callable[[bytes], None]


class LineTransport(Protocol):
    """Handles the client's lines."""

    def receive_line(self, line: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait for the requests in flight."""
        ...


OpenLineTransport: TypeAlias = Callable[[WriteStdoutLine], AbstractAsyncContextManager[LineTransport]]


@command("mcp", examples=["paddock mcp", "paddock mcp --as user:ann", "paddock mcp --tenant acme"])
@click.option(
    "--as",
    "acting_as",
    metavar="PRINCIPAL",
    help="Act as another principal, with its permissions: user:ann, key:ID, agent:PATH, or "
    "acme/user:bob of another tenant.",
)
@options.tenant
@click.option("--json", "as_json", is_flag=True, help="Print an error at the start as a JSON document on stdout.")
def mcp(*, acting_as: str | None, tenant: str, as_json: bool) -> None:
    """Run an MCP server on stdin and stdout, with every permitted tool, prompt and resource, for an MCP client.

    A running daemon serves the requests; without one, a host is opened for this session.

    For Claude Desktop (claude_desktop_config.json) and Cursor (.cursor/mcp.json), add

    `{"mcpServers": {"paddock": {"command": "paddock", "args": ["mcp"]}}}`

    and for VS Code (.vscode/mcp.json)

    `{"servers": {"paddock": {"type": "stdio", "command": "paddock", "args": ["mcp"]}}}`
    """
    del as_json
    from paddock.cli.client.event_loop import run_async
    from paddock.cli.client.unix_socket_transport import find_daemon
    from paddock.config.directories import find_directories
    from paddock.web.daemon_address import socket_path

    if acting_as is not None:
        from paddock.principals.principal_name import parse_principal_name

        tenant = parse_principal_name(acting_as, tenant).tenant  # also validates it for use in a header
    daemon = find_daemon(socket_path(find_directories(os.environ, Path.home())))
    open_transport = (
        _in_process_transport(acting_as, tenant)
        if daemon is None
        else _daemon_transport(daemon.path, acting_as, tenant)
    )
    raise click.exceptions.Exit(run_async(_serve_stdio(open_transport)))


def _in_process_transport(acting_as: str | None, tenant: str) -> OpenLineTransport:
    from paddock.cli.client.mcp_in_process import open_in_process_transport

    return lambda write: open_in_process_transport(acting_as, tenant, write)


def _daemon_transport(path: Path, acting_as: str | None, tenant: str) -> OpenLineTransport:
    from paddock.cli.client.api_client import path_segment
    from paddock.cli.client.mcp_bridge import open_bridge

    target = "/mcp" if tenant == DEFAULT_TENANT else f"/mcp?tenant={path_segment(tenant)}"
    headers = [] if acting_as is None else [("Paddock-As", acting_as)]
    return lambda write: open_bridge(path, target, headers, write)


async def _serve_stdio(open_transport: OpenLineTransport) -> int:
    """Serve until the end of the client's input or a signal; return the exit code."""
    import asyncio

    from paddock.cli.client.stdio import open_stdio_lines
    from paddock.core.error_formats import EXIT_INTERRUPTED, EXIT_OK
    from paddock.rpc.framing import FramingViolation

    loop, signals, stopped = asyncio.get_running_loop(), list[signal.Signals](), asyncio.Event()
    with open_stdio_lines() as streams:

        def on_signal(number: signal.Signals) -> None:
            signals.append(number)
            stopped.set()
            streams.stop_reading()

        for item in _STOP_SIGNALS:
            loop.add_signal_handler(item, on_signal, item)
        async with open_transport(streams.write) as transport:
            try:
                await _forward_lines(streams, transport)
            except FramingViolation as violation:
                print_message(f"the client said what cannot be taken: {violation.detail}")
                return 1
            if not streams.reader_gone:
                waits = {loop.create_task(transport.drain()), loop.create_task(stopped.wait())}
                await asyncio.wait(waits, timeout=_DRAIN_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
                for item in waits:
                    item.cancel()
    return EXIT_INTERRUPTED if signal.SIGINT in signals else EXIT_OK


async def _forward_lines(streams: StdioLines, transport: LineTransport) -> None:
    async for line in streams.lines():
        transport.receive_line(line)
