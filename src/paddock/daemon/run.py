"""A process that holds keys: what is in its memory gets to nobody else, as far as the kernel lets us say so."""

from __future__ import annotations

import asyncio
import ctypes
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

from paddock.config.directories import create_directories, find_directories, user_name
from paddock.config.project_file import working_directory
from paddock.config.web_settings import OFF
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.error_mapping import EXIT_INTERRUPTED, EXIT_OK
from paddock.core.errors import StoreUnavailable
from paddock.daemon.application import build_application
from paddock.host.host import Host, runtime_to_json
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.wiring.open_host import Config, open_host
from paddock.web.daemon_address import publish_daemon_url, socket_path
from paddock.web.server.tcp import connection_limits, serve_tcp
from paddock.web.server.unix_socket import claim_socket, serve_unix_socket

_PR_SET_DUMPABLE = 4  # of prctl


def disable_core_dumps() -> None:
    """Have no core dump made of this process, and no other process of the same person read its memory.

    What it starts is a program of its own, of which the second does not hold.
    """
    # 0 forbids a file only: where the kernel hands the dump to a program, that is started all the same. 1 forbids both.
    with suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


EmitDaemonEvent: TypeAlias = Callable[[dict[str, Any]], None]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PLUGIN_START_WAIT_S = (
    2.0  # seconds that plugins get to start before we say that we are ready, with some of them or without
)
_GC_THRESHOLD = 20_000  # things that may be garbage
FORCED_STOP_S = 1.0  # seconds from the second signal to the end, whatever still goes on

log = logging.getLogger("paddock.daemon")


async def run_daemon(tell: EmitDaemonEvent, configure_log: Callable[[str], None]) -> int:
    """Be the daemon until a signal comes. The exit code: 0, or 130 when a second signal cut calls short.

    Raises:
        PaddockError: it could not start, because another daemon runs for instance.
    """
    disable_core_dumps()
    raise_open_file_limit()

    def stopped() -> None:
        tell({"event": "stopped"})

    with anyio.CancelScope() as everything, stop_on_signals(everything, stopped) as stop:
        directories = find_directories(os.environ, Path.home())
        create_directories(directories)
        # Claimed before anything is opened, so that a second daemon starts nothing.
        with claim_socket(socket_path(directories)):
            async with open_host(Config(role="daemon", cwd=working_directory())) as host:
                configure_log(host.settings.log.level)
                await _serve(host, tell, stop)
    stopped()
    return EXIT_INTERRUPTED if everything.cancelled_caught else EXIT_OK


def raise_open_file_limit() -> None:
    """As many open files as the system lets us have: every plugin and every client takes a few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def tune_garbage_collector() -> None:
    """Leave what is here now out of every later search for garbage, for it is here to stay; and search less often.

    A plugin that sends dense lines makes garbage enough for such searches, and each held up every call for as long as
    it takes to look at all our modules. A call that waits for its entry to be written looks like garbage to come:
    searching after every 700 things, as is usual, took some microseconds of each call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


async def _serve(host: Host, tell: EmitDaemonEvent, stop: asyncio.Event) -> None:
    application = build_application(host, SystemClock(), SystemRandom())
    web, shutdown, http = application.web, application.shutdown, host.settings.http
    path = socket_path(host.directories)
    async with AsyncExitStack() as listeners:
        url = None
        if http.address != OFF:
            tcp = serve_tcp(web, http.address, connection_limits(http), web.render_error)
            url = await listeners.enter_async_context(tcp)
        await listeners.enter_async_context(serve_unix_socket(web, path))
        listeners.enter_context(publish_daemon_url(host.directories, url))
        tasks = await listeners.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_report_plugin_states, host, tell, str(path), url)
        if url is not None and http.first_link:
            tasks.start_soon(_emit_first_login_link, host, tell, http.public_url or url)
        await stop.wait()
        shutdown.draining.set()
        tell({"event": "draining"})
        await host.drain()  # responses still reach their clients while we listen
        shutdown.closing.set()
        application.mcp.close()
        tasks.cancel_scope.cancel()


async def _report_plugin_states(host: Host, tell: EmitDaemonEvent, path: str, url: str | None) -> None:
    """That the daemon is ready, and what becomes of each plugin.

    It takes calls already. The word waits a moment for plugins to start, since most do; a call to one that has not yet
    waits for it.
    """

    def shown(one: Any) -> dict[str, Any]:
        name = log_name(one.key.tenant, one.key.plugin)  # of another tenant: `acme/notes`
        return _plugin_event(name, one.version, runtime_to_json(one, on_demand=host.starts_on_demand(one)))

    at_start = [shown(one) for one in await host.wait_settled(PLUGIN_START_WAIT_S)]
    tune_garbage_collector()
    for told in at_start:
        tell(told)
    running = sum(told["state"] == "running" for told in at_start)
    starting = {told["name"] for told in at_start if told["state"] == "spawning"}
    on_demand = sum(told["on_demand"] for told in at_start)
    counts = {"plugins": len(at_start), "running": running, "starting": len(starting), "on_demand": on_demand}
    in_doubt = sum((await host.metrics.count_unknown_outcomes()).values())
    tell({"event": "ready", "pid": os.getpid(), "socket": path, "url": url, **counts, "in_doubt": in_doubt})
    async for one in host.follow_states():
        told = shown(one)
        tell(told)
        if told["name"] in starting:
            starting.discard(told["name"])  # how its start went is told, like that of the others, and not logged
        else:
            _log_event(told)


async def _emit_first_login_link(host: Host, tell: EmitDaemonEvent, base: str) -> None:
    """A link for whoever starts a daemon for the first time; later ones come from `paddock login`."""
    with suppress(StoreUnavailable):
        made = await host.console_sessions.create_first_link(user_name(os.geteuid()))
        if made is not None:
            link, token = made
            url = f"{base.rstrip('/')}/login/{token.reveal()}"
            tell({"event": "login", "url": url, "person": link.subject, "expires_at": link.expires_at})


def _plugin_event(name: str, version: str, runtime: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: runtime[key] for key in ("state", "on_demand", "pid", "reason", "hint")}
    return {"event": "plugin", "name": name, "version": version, **shown}


def _log_event(told: Mapping[str, Any]) -> None:
    level = logging.WARNING if told["state"] in ("crashed", "failed") else logging.INFO
    facts = {"plugin": told["name"], "state": told["state"], "pid": told["pid"]}
    why = f": {told['reason']}" if told["reason"] else ""
    log.log(level, "%s is %s%s", told["name"], told["state"], why, extra={"facts": facts})


@contextmanager
def stop_on_signals(everything: anyio.CancelScope, stopped: Callable[[], None]) -> Generator[asyncio.Event, None, None]:
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
            loop.call_later(FORCED_STOP_S, out_of_time)
        stop.set()

    for one in STOP_SIGNALS:
        loop.add_signal_handler(one, asked)
    try:
        yield stop
    finally:
        for one in STOP_SIGNALS:
            loop.remove_signal_handler(one)
