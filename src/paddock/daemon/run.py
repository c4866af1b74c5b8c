"""The daemon's main function: hardens the process, opens the host, serves until a signal, and drains.

The process holds keys, so core dumps and memory access by other processes are disabled as far as the kernel allows.
"""

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

from paddock.config.directories import Directories, create_directories, find_directories, user_name
from paddock.config.load import load_settings
from paddock.config.project_file import working_directory
from paddock.config.web_settings import OFF
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.error_formats import EXIT_INTERRUPTED, EXIT_OK
from paddock.core.errors import StoreUnavailable
from paddock.daemon.application import build_application
from paddock.host.host import Host
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.processes import runtime_to_json
from paddock.host.wiring.open_host import Config, open_host
from paddock.web.daemon_address import publish_daemon_url, socket_path
from paddock.web.server.tcp import connection_limits, serve_tcp
from paddock.web.server.unix_socket import claim_socket, serve_unix_socket

EmitDaemonEvent: TypeAlias = Callable[[dict[str, Any]], None]

LOCAL_HOST = "127.0.0.1"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PLUGIN_START_WAIT_S = 2.0  # time for plugins to start before the daemon reports ready, with or without them
_GC_THRESHOLD = 20_000  # allocations between two collections
FORCED_STOP_S = 1.0  # from the second signal to a forced exit
_PR_SET_DUMPABLE = 4  # of prctl

log = logging.getLogger("paddock.daemon")


async def run_daemon(emit: EmitDaemonEvent, configure_log: Callable[[str], None], port: int | None = None) -> int:
    """Run the daemon until a signal. Returns the exit code: 0, or 130 if a second signal cut calls short.

    Args:
        emit: Receives the events of the daemon.
        configure_log: Called with the level of the log, once the settings are known.
        port: The TCP port to listen on, in place of the one in the settings.

    Raises:
        PaddockError: it could not start, for example because another daemon runs.
    """
    disable_core_dumps()
    raise_open_file_limit()

    def emit_stopped() -> None:
        emit({"event": "stopped"})

    with anyio.CancelScope() as scope, stop_on_signals(scope, emit_stopped) as stop:
        directories = find_directories(os.environ, Path.home())
        create_directories(directories)
        # Claim the socket before opening anything, so that a second daemon starts nothing.
        with claim_socket(socket_path(directories)):
            config = Config(role="daemon", cwd=working_directory(), flags=_listen_flags(directories, port))
            async with open_host(config) as host:
                configure_log(host.settings.log.level)
                await _serve(host, emit, stop)
    emit_stopped()
    return EXIT_INTERRUPTED if scope.cancelled_caught else EXIT_OK


def _listen_flags(directories: Directories, port: int | None) -> dict[str, object]:
    """Return the settings that a port on the command line overrides: the host stays, and `off` is switched on."""
    if port is None:
        return {}
    address = load_settings(directories, os.environ, cwd=working_directory()).settings.http.address
    host = LOCAL_HOST if address == OFF else address.rpartition(":")[0]
    return {"http.address": f"{host}:{port}"}


def disable_core_dumps() -> None:
    """Disable core dumps and memory access by other processes of the same user.

    Child processes execute other programs, to which the second does not apply.
    """
    # A limit of 0 forbids dump files only: a configured dump handler program still runs. 1 prevents both.
    with suppress(ValueError, OSError):  # the limit is already lower
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def raise_open_file_limit() -> None:
    """Raise the limit of open files to its maximum: every plugin and client takes a few."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def tune_garbage_collector() -> None:
    """Exclude the objects that exist now from garbage collection, and collect less often.

    Plugins that send dense lines create enough garbage to trigger full collections, each of which paused every call
    while all our modules were scanned. Calls that wait for their ledger entry look like long-lived objects: with the
    default threshold of 700 allocations, collections cost some microseconds per call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


async def _serve(host: Host, emit: EmitDaemonEvent, stop: asyncio.Event) -> None:
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
        tasks.start_soon(_report_plugin_states, host, emit, str(path), url)
        if url is not None and http.first_link:
            tasks.start_soon(_emit_first_login_link, host, emit, http.public_url or url)
        await stop.wait()
        shutdown.draining.set()
        emit({"event": "draining"})
        await host.drain()  # responses still reach their clients while we listen
        shutdown.closing.set()
        application.mcp.close()
        tasks.cancel_scope.cancel()


async def _report_plugin_states(host: Host, emit: EmitDaemonEvent, path: str, url: str | None) -> None:
    """Emit the `ready` event and every change of a plugin's state.

    The daemon already serves calls. The event waits a moment for plugins to start, since most do; a call to a plugin
    that is still starting waits for it.
    """

    def to_event(snapshot: Any) -> dict[str, Any]:
        name = log_name(snapshot.key.tenant, snapshot.key.plugin)  # with its tenant, if not the default: `acme/notes`
        return _plugin_event(
            name,
            snapshot.version,
            runtime_to_json(snapshot, on_demand=host.plugins.processes.starts_on_demand(snapshot)),
        )

    settled = await host.plugins.processes.wait_settled(PLUGIN_START_WAIT_S)
    changes = host.plugins.processes.follow_states()  # before anything else is awaited: no change may fall in between
    initial = [to_event(snapshot) for snapshot in settled]
    tune_garbage_collector()
    for event in initial:
        emit(event)
    running = sum(event["state"] == "running" for event in initial)
    starting = {event["name"] for event in initial if event["state"] == "spawning"}
    on_demand = sum(event["on_demand"] for event in initial)
    counts = {"plugins": len(initial), "running": running, "starting": len(starting), "on_demand": on_demand}
    in_doubt = sum((await host.observability.metrics.count_unknown_outcomes()).values())
    emit({"event": "ready", "pid": os.getpid(), "socket": path, "url": url, **counts, "in_doubt": in_doubt})
    async for snapshot in changes:
        event = to_event(snapshot)
        emit(event)
        if event["name"] in starting:
            starting.discard(event["name"])  # the end of its start is emitted, but not logged
        else:
            _log_event(event)


async def _emit_first_login_link(host: Host, emit: EmitDaemonEvent, base_url: str) -> None:
    """Emit a login link at the first start of a daemon; later ones come from `paddock login`."""
    with suppress(StoreUnavailable):
        created = await host.identity.console_sessions.create_first_link(user_name(os.geteuid()))
        if created is not None:
            link, token = created
            url = f"{base_url.rstrip('/')}/login/{token.reveal()}"
            emit({"event": "login", "url": url, "person": link.subject, "expires_at": link.expires_at})


def _plugin_event(name: str, version: str, runtime: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: runtime[key] for key in ("state", "on_demand", "pid", "reason", "hint", "action")}
    return {"event": "plugin", "name": name, "version": version, **fields}


def _log_event(event: Mapping[str, Any]) -> None:
    level = logging.WARNING if event["state"] in ("crashed", "failed") else logging.INFO
    facts = {"plugin": event["name"], "state": event["state"], "pid": event["pid"]}
    reason = f": {event['reason']}" if event["reason"] else ""
    log.log(level, "%s is %s%s", event["name"], event["state"], reason, extra={"facts": facts})


@contextmanager
def stop_on_signals(scope: anyio.CancelScope, emit_stopped: Callable[[], None]) -> Generator[asyncio.Event, None, None]:
    """Yield an event that the first signal sets; the second cancels `scope`, and forces an exit soon after."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def force_exit() -> None:
        emit_stopped()
        os._exit(EXIT_INTERRUPTED)

    def on_signal() -> None:
        if stop.is_set():
            scope.cancel()
            # Plugins may take their time to end, but a second signal is urgent: once this process is gone, the
            # warden kills them.
            loop.call_later(FORCED_STOP_S, force_exit)
        stop.set()

    for stop_signal in STOP_SIGNALS:
        loop.add_signal_handler(stop_signal, on_signal)
    try:
        yield stop
    finally:
        for stop_signal in STOP_SIGNALS:
            loop.remove_signal_handler(stop_signal)
