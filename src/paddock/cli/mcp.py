"""`paddock mcp`: everything that may be used, to an MCP client that starts us and talks with us over its pipes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias

import typer

from paddock.cli.output import reporting, say
from paddock.cli.principals import DEFAULT, OfTenant

if TYPE_CHECKING:
    from paddock.cli.standard_lines import StandardLines

app = typer.Typer(add_completion=False)

_EXAMPLES = "Examples: paddock mcp   ·   paddock mcp --as user:ann   ·   paddock mcp --tenant acme"
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FINISHING = 10.0  # seconds for calls under way when the client says nothing more

Write: TypeAlias = Callable[[bytes], None]


class Carrier(Protocol):
    """Whoever deals with what the client says."""

    def feed(self, line: bytes) -> None: ...

    async def finished(self) -> None:
        """Wait for what is under way."""
        ...


Open: TypeAlias = Callable[[Write], AbstractAsyncContextManager[Carrier]]


@app.command("mcp", epilog=_EXAMPLES)
@reporting
def mcp(
    *,
    acting_as: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="PRINCIPAL",
            help="Act as somebody else, with what they may do: user:ann, key:ID, agent:PATH; acme/user:bob is of"
            " another tenant.",
        ),
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="Tell on stdout, as JSON, why it could not begin.")] = False,
) -> None:
    """Be an MCP server on stdin and stdout, for a client that starts it: every permitted tool, prompt and resource.

    The running daemon does the work; without one, a host is opened for as long as the client stays.

    Claude Desktop (claude_desktop_config.json) and Cursor (.cursor/mcp.json) take it as

    `{"mcpServers": {"paddock": {"command": "paddock", "args": ["mcp"]}}}`

    and VS Code (.vscode/mcp.json) as

    `{"servers": {"paddock": {"type": "stdio", "command": "paddock", "args": ["mcp"]}}}`
    """
    del as_json
    from paddock.cli.daemon import running_daemon
    from paddock.cli.event_loop import run

    if acting_as is not None:
        from paddock.principals.subjects import parse_subject

        tenant = parse_subject(acting_as, tenant).tenant  # nothing else stands in a header
    daemon = running_daemon(tenant=tenant)
    way = _alone(acting_as, tenant) if daemon is None else _by_the_daemon(daemon.path, acting_as, tenant)
    raise typer.Exit(run(_converse(way)))


def _alone(acting_as: str | None, tenant: str) -> Open:
    from paddock.cli.mcp_alone import alone

    return lambda write: alone(acting_as, tenant, write)


def _by_the_daemon(path: Path, acting_as: str | None, tenant: str) -> Open:
    from paddock.cli.daemon import part
    from paddock.cli.mcp_bridge import bridge

    target = "/mcp" if tenant == DEFAULT else f"/mcp?tenant={part(tenant)}"
    headers = [] if acting_as is None else [("Paddock-As", acting_as)]
    return lambda write: bridge(path, target, headers, write)


async def _converse(way: Open) -> int:
    """Talk until the client has nothing more to say, or a signal comes. The exit code."""
    import asyncio

    from paddock.cli.standard_lines import standard_lines
    from paddock.core.outward import EXIT_INTERRUPTED, EXIT_OK
    from paddock.rpc.framing import Violation

    loop, signals, stopped = asyncio.get_running_loop(), list[signal.Signals](), asyncio.Event()
    with standard_lines() as streams:

        def asked(number: signal.Signals) -> None:
            signals.append(number)
            stopped.set()
            streams.end()

        for one in _SIGNALS:
            loop.add_signal_handler(one, asked, one)
        async with way(streams.write) as carrier:
            try:
                await _heard(streams, carrier)
            except Violation as violation:
                say(f"the client said what cannot be taken: {violation.detail}")
                return 1
            if not streams.unheard:
                ends = {loop.create_task(carrier.finished()), loop.create_task(stopped.wait())}
                await asyncio.wait(ends, timeout=_FINISHING, return_when=asyncio.FIRST_COMPLETED)
                for one in ends:
                    one.cancel()
    return EXIT_INTERRUPTED if signal.SIGINT in signals else EXIT_OK


async def _heard(streams: StandardLines, carrier: Carrier) -> None:
    async for line in streams.lines():
        carrier.feed(line)
