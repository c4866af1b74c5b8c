"""Which protocol a plugin speaks."""

from __future__ import annotations

from paddock.plugins.runtimes.native.wire import NativeWire
from paddock.plugins.supervision.deployment import Deployment, Door
from paddock.plugins.supervision.wire import Wire


def wire_for(deployment: Deployment, *, door: Door) -> Wire:
    """The wire of one life of a plugin; `door` answers what the plugin asks of the host."""
    return NativeWire(deployment, door)
