"""Everything that joins a conversation to a body that has begun: its wire, its network, its pipes for big bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from paddock.capabilities.pipes.channel import open_channel
from paddock.plugins.supervision.body import Body, CarryingBody, NetworkedBody
from paddock.plugins.supervision.conversation import Conversation
from paddock.plugins.supervision.wire import CarryingWire


@asynccontextmanager
async def attached(
    conversation: Conversation, body: Body, misused_pipes: Callable[[str], None]
) -> AsyncGenerator[None, None]:
    """Joined for as long as the block runs.

    Args:
        conversation: Whose end is ours.
        body: Whose end is the plugin's.
        misused_pipes: Told why it lost its pipes; it loses nothing else.
    """
    conversation.attach(await body.connect(conversation.peer))
    if isinstance(body, NetworkedBody):
        body.watch_network(conversation.used_network)
    pipes = body.take_artifacts() if isinstance(body, CarryingBody) else None
    async with open_channel(pipes, misused_pipes) as channel:
        if isinstance(conversation.wire, CarryingWire):
            conversation.wire.carry(channel)
        yield
