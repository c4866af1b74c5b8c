"""Firing a hook at one plugin. Whatever goes wrong, the answer is None and the session goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.error_mapping import json_rpc_error
from paddock.core.errors import PaddockError
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginHookFailed, PluginHookFired, PluginHookReturned, PluginHookTimeout
from paddock.core.printable import printable
from paddock.rpc.errors import INTERNAL_ERROR, PeerLost, RpcError
from paddock.runtime.deployment import Deployment
from paddock.runtime.process_run import RunningPlugin
from paddock.runtime.protocol_adapter import HookAdapter


async def fire_hook(
    deployment: Deployment,
    hook: str,
    params: Mapping[str, Any],
    context: CallContext,
    *,
    running: Callable[[], Awaitable[RunningPlugin]],
    one_at_a_time: asyncio.Lock,
    publish: EventSink,
    clock: Clock,
) -> Any:
    """The plugin's answer, or None.

    Args:
        deployment: Whom to tell.
        hook: Which moment of a session it is.
        params: What goes with it.
        context: The session's agent.
        running: Gives the process; may have to start it.
        one_at_a_time: Hooks of one plugin run one after another, in the order in which they came.
        publish: Where what happened is recorded.
        clock: Measures how long it took.
    """
    manifest = deployment.manifest
    name, agent, limit = deployment.name, context.agent_path, float(manifest.timing.hook)
    fired = PluginHookFired(
        name=name, hook=hook, agent_path=agent, session_id=context.session, request_id=context.request
    )
    try:
        async with one_at_a_time:
            conversation = (await running()).connection
            wire = conversation.adapter
            if not isinstance(wire, HookAdapter):
                return None
            publish.publish(fired)
            started = clock.monotonic()
            result = await conversation.call_hook(
                lambda token: wire.build_hook(hook, params, context, token), context, limit
            )
    except TimeoutError:
        publish.publish(PluginHookTimeout(name=name, hook=hook, agent_path=agent, timeout_sec=limit))
        return None
    except (RpcError, PeerLost, PaddockError) as error:
        code, message = _error_fields(error)
        publish.publish(
            PluginHookFailed(name=name, hook=hook, agent_path=agent, error_code=code, error_message=message)
        )
        return None
    took = int((clock.monotonic() - started) * 1e6) / 1000
    publish.publish(PluginHookReturned(name=name, hook=hook, duration_ms=took, has_result=result is not None))
    return result


def _error_fields(error: RpcError | PeerLost | PaddockError) -> tuple[int, str]:
    match error:
        case RpcError():
            return error.code, printable(error.message, 500)
        case PeerLost():
            return INTERNAL_ERROR, error.reason
        case _:
            return json_rpc_error(error)["code"], error.message
