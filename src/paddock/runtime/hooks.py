"""Fires a session hook at one plugin. If anything goes wrong, the result is None and the session goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.error_formats import json_rpc_error
from paddock.core.errors import PaddockError
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginHookFailed, PluginHookFired, PluginHookReturned, PluginHookTimeout
from paddock.core.printable import printable
from paddock.rpc.errors import INTERNAL_ERROR, PeerLost, RpcError
from paddock.runtime.deployment import Deployment
from paddock.runtime.process_run import RunningPlugin
from paddock.runtime.protocols.native.adapter import NativeAdapter


async def fire_hook(
    deployment: Deployment,
    hook: str,
    params: Mapping[str, Any],
    context: CallContext,
    *,
    running: Callable[[], Awaitable[RunningPlugin]],
    lock: asyncio.Lock,
    publish: EventSink,
    clock: Clock,
) -> Any:
    """Send a hook to the plugin and return its result, or None.

    Args:
        deployment: The plugin.
        hook: The name of the hook.
        params: The hook's parameters.
        context: The session's agent.
        running: Returns the running process; may have to start it.
        lock: Serialises the hooks of one plugin, in the order in which they came.
        publish: Records audit events.
        clock: Measures the duration.
    """
    manifest = deployment.manifest
    name, agent, timeout_s = deployment.name, context.agent_path, float(manifest.timing.hook)
    fired_event = PluginHookFired(
        name=name, hook=hook, agent_path=agent, session_id=context.session, request_id=context.request
    )
    try:
        async with lock:
            connection = (await running()).connection
            adapter = connection.adapter
            if not isinstance(adapter, NativeAdapter):  # other protocols have no hooks
                return None
            publish.publish(fired_event)
            started = clock.monotonic()
            result = await connection.call_hook(
                lambda token: adapter.build_hook(hook, params, context, token), context, timeout_s
            )
    except TimeoutError:
        publish.publish(PluginHookTimeout(name=name, hook=hook, agent_path=agent, timeout_sec=timeout_s))
        return None
    except (RpcError, PeerLost, PaddockError) as error:
        code, message = _error_fields(error)
        publish.publish(
            PluginHookFailed(name=name, hook=hook, agent_path=agent, error_code=code, error_message=message)
        )
        return None
    duration_ms = int((clock.monotonic() - started) * 1e6) / 1000
    publish.publish(PluginHookReturned(name=name, hook=hook, duration_ms=duration_ms, has_result=result is not None))
    return result


def _error_fields(error: RpcError | PeerLost | PaddockError) -> tuple[int, str]:
    match error:
        case RpcError():
            return error.code, printable(error.message, 500)
        case PeerLost():
            return INTERNAL_ERROR, error.reason
        case _:
            return json_rpc_error(error)["code"], error.message
