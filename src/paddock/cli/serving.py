"""The life of a daemon: opened, listening, ready, draining, gone."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from starlette.requests import Request
from starlette.types import Scope

from paddock.cli.private_memory import keep_memory_private
from paddock.config.directories import create_directories, find_directories
from paddock.config.http_settings import OFF
from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.core.outward import EXIT_INTERRUPTED, EXIT_OK
from paddock.gateway.gateway import Gateway
from paddock.host.host import Host, runtime_value
from paddock.host.log_files import log_name
from paddock.host.opening import Config, open_host
from paddock.http.acting import context_of
from paddock.http.app import Api
from paddock.http.auth import not_proven
from paddock.http.listening import claimed, listening
from paddock.http.local_address import announced, socket_path
from paddock.http.sites import sites_of
from paddock.http.tcp import limits_of, listening_on_tcp

Tell: TypeAlias = Callable[[dict[str, Any]], None]

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SETTLING = 2.0  # seconds that plugins get to start before we say that we are ready, with some of them or without
_SEARCHED_AFTER = 20_000  # things that may be garbage
HURRY = 1.0  # seconds from the second signal to the end, whatever still goes on

log = logging.getLogger("paddock.daemon")


async def serve_until_stopped(tell: Tell, configure_log: Callable[[str], None]) -> int:
    """Be the daemon until a signal comes. The exit code: 0, or 130 when a second signal cut calls short.

    Raises:
        PaddockError: it could not start, because another daemon runs for instance.
    """
    keep_memory_private()
    allow_many_files()

    def stopped() -> None:
        tell({"event": "stopped"})

    with anyio.CancelScope() as everything, stopping_at_signals(everything, stopped) as stop:
        directories = find_directories(os.environ, Path.home())
        create_directories(directories)
        # Claimed before anything is opened, so that a second daemon starts nothing.
        with claimed(socket_path(directories)):
            async with open_host(Config(role="daemon", cwd=working_directory())) as host:
                configure_log(host.settings.log.level)
                await _serve(host, tell, stop)
    stopped()
    return EXIT_INTERRUPTED if everything.cancelled_caught else EXIT_OK


def allow_many_files() -> None:
    """As many open files as the system lets us have: every plugin and every client takes a few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def collect_briefly() -> None:
    """Leave what is here now out of every later search for garbage, for it is here to stay; and search less often.

    A plugin that sends dense lines makes garbage enough for such searches, and each held up every call for as long as
    it takes to look at all our modules. A call that waits for its entry to be written looks like garbage to come:
    searching after every 700 things, as is usual, took some microseconds of each call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_SEARCHED_AFTER)


async def _serve(host: Host, tell: Tell, stop: asyncio.Event) -> None:
    clock = SystemClock()
    gateway = Gateway(host, Callers(host), clock)
    http = host.settings.http
    provider = None
    if host.settings.oidc.issuer is not None:
        from paddock.http.oidc.opening import signing_in  # most hosts have none, and start sooner without

        provider = signing_in(host, clock, SystemRandom())
    api = Api(
        host,
        clock,
        SystemRandom(),
        mounts={"/mcp": gateway},
        more=provider.endpoints if provider else (),
        bearers=provider.bearers if provider else (),
        challenge=provider.challenge if provider else None,
        sites=sites_of(http),
        sign_in=provider.sign_in if provider else "",
    )
    path = socket_path(host.directories)
    async with AsyncExitStack() as open_doors:
        url = None
        if http.address != OFF:
            tcp = listening_on_tcp(api, http.address, limits_of(http), api.problem)
            url = await open_doors.enter_async_context(tcp)
        await open_doors.enter_async_context(listening(api, path))
        open_doors.enter_context(announced(host.directories, url))
        tasks = await open_doors.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_tell_how_it_goes, host, tell, str(path), url)
        if url is not None and http.first_link:
            tasks.start_soon(_tell_how_to_sign_in, host, tell, http.public_url or url)
        await stop.wait()
        api.draining.set()
        tell({"event": "draining"})
        await host.drain()  # answers find their way while we still listen
        api.closing.set()
        gateway.close()
        tasks.cancel_scope.cancel()


class Callers:
    """Who makes the requests of MCP clients; see `gateway.http_request`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def context_of(self, scope: Scope) -> CallContext:
        return await context_of(self._host, Request(scope))

    async def proven_again(self, scope: Scope) -> CallContext:
        state = scope["state"]
        caller = await state["proof"].caller(scope)
        if caller is None:
            raise not_proven()
        return await context_of(self._host, Request({**scope, "state": {**state, "caller": caller}}))


async def _tell_how_it_goes(host: Host, tell: Tell, path: str, url: str | None) -> None:
    """That the daemon is ready, and what becomes of each plugin.

    It takes calls already. The word waits a moment for plugins to start, since most do; a call to one that has not yet
    waits for it.
    """

    def shown(one: Any) -> dict[str, Any]:
        name = log_name(one.key.tenant, one.key.plugin)  # of another tenant: `acme/notes`
        return _told(name, one.version, runtime_value(one, on_demand=host.on_demand(one)))

    at_start = [shown(one) for one in await host.settled(SETTLING)]
    collect_briefly()
    for told in at_start:
        tell(told)
    running = sum(told["state"] == "running" for told in at_start)
    starting = {told["name"] for told in at_start if told["state"] == "spawning"}
    on_demand = sum(told["on_demand"] for told in at_start)
    counts = {"plugins": len(at_start), "running": running, "starting": len(starting), "on_demand": on_demand}
    in_doubt = sum((await host.metrics.in_doubt()).values())
    tell({"event": "ready", "pid": os.getpid(), "socket": path, "url": url, **counts, "in_doubt": in_doubt})
    async for one in host.follow_states():
        told = shown(one)
        tell(told)
        if told["name"] in starting:
            starting.discard(told["name"])  # how its start went is told, like that of the others, and not logged
        else:
            _log(told)


async def _tell_how_to_sign_in(host: Host, tell: Tell, base: str) -> None:
    """A link for whoever starts a daemon for the first time; later ones come from `paddock login`."""
    with suppress(StoreUnavailable):
        made = await host.console.first_link(user_name(os.geteuid()))
        if made is not None:
            link, token = made
            url = f"{base.rstrip('/')}/login/{token.reveal()}"
            tell({"event": "login", "url": url, "person": link.subject, "expires_at": link.expires_at})


def _told(name: str, version: str, runtime: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: runtime[key] for key in ("state", "on_demand", "pid", "reason", "hint")}
    return {"event": "plugin", "name": name, "version": version, **shown}


def _log(told: Mapping[str, Any]) -> None:
    level = logging.WARNING if told["state"] in ("crashed", "failed") else logging.INFO
    facts = {"plugin": told["name"], "state": told["state"], "pid": told["pid"]}
    why = f": {told['reason']}" if told["reason"] else ""
    log.log(level, "%s is %s%s", told["name"], told["state"], why, extra={"facts": facts})


@contextmanager
def stopping_at_signals(
    everything: anyio.CancelScope, stopped: Callable[[], None]
) -> Generator[asyncio.Event, None, None]:
    """An event that the first signal sets; the second ends everything, with a little time to do so in order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def out_of_time() -> None:
        stopped()
        os._exit(EXIT_INTERRUPTED)

    def asked() -> None:
        if stop.is_set():
            everything.cancel()
            # Plugins are asked to end, and may take their time. Whoever signals twice has none: when this process is
            # gone the warden ends them all.
            loop.call_later(HURRY, out_of_time)
        stop.set()

    for one in SIGNALS:
        loop.add_signal_handler(one, asked)
    try:
        yield stop
    finally:
        for one in SIGNALS:
            loop.remove_signal_handler(one)
