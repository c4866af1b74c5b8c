"""Which protocol a plugin speaks."""

from __future__ import annotations

from paddock.manifest.model import CommandRuntime, PythonRuntime, RemoteRuntime
from paddock.runtime.deployment import Deployment
from paddock.runtime.protocol_adapter import ProtocolAdapter
from paddock.runtime.protocols.embedded.endpoint import EmbeddedAdapter
from paddock.runtime.protocols.mcp.adapter import McpAdapter
from paddock.runtime.protocols.native.adapter import CapabilityHandler, NativeAdapter
from paddock.runtime.protocols.python.adapter import PythonAdapter


def select_adapter(deployment: Deployment, *, door: CapabilityHandler) -> ProtocolAdapter:
    """The wire of one life of a plugin; `door` answers what the plugin asks of the host."""
    match deployment.manifest.runtime:
        case PythonRuntime():
            return PythonAdapter(deployment, door)
        case CommandRuntime(protocol="mcp"):
            return McpAdapter(deployment)
        case RemoteRuntime():
            return McpAdapter(deployment, remote=True)
        case None:
            return EmbeddedAdapter(deployment, door)
        case _:
            return NativeAdapter(deployment, door)
