"""Which protocol a plugin speaks."""

from __future__ import annotations

from paddock.manifest.model import CommandRuntime, PythonRuntime, RemoteRuntime
from paddock.plugins.runtimes.embedded.wire import EmbeddedWire
from paddock.plugins.runtimes.mcp.wire import McpWire
from paddock.plugins.runtimes.native.wire import Door, NativeWire
from paddock.plugins.runtimes.python.wire import PythonWire
from paddock.plugins.supervision.deployment import Deployment
from paddock.plugins.supervision.wire import Wire


def wire_for(deployment: Deployment, *, door: Door) -> Wire:
    """The wire of one life of a plugin; `door` answers what the plugin asks of the host."""
    match deployment.manifest.runtime:
        case PythonRuntime():
            return PythonWire(deployment, door)
        case CommandRuntime(protocol="mcp"):
            return McpWire(deployment)
        case RemoteRuntime():
            return McpWire(deployment, remote=True)
        case None:
            return EmbeddedWire(deployment, door)
        case _:
            return NativeWire(deployment, door)
