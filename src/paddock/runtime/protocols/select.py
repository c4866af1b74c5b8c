"""Selects the protocol adapter of a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.manifest.model import CommandRuntime, PythonRuntime, RemoteRuntime
from paddock.runtime.deployment import Deployment
from paddock.runtime.protocol_adapter import ProtocolAdapter

if TYPE_CHECKING:
    from paddock.runtime.protocols.native.adapter import AnswerRequest


def select_adapter(deployment: Deployment, *, answer_request: AnswerRequest, mcp_timeout_s: float) -> ProtocolAdapter:
    """Create the adapter for one process run.

    `answer_request` answers the plugin's requests to the host. `mcp_timeout_s` is how long an MCP server may take for
    each answer before its first call.
    """
    # Imported lazily: a command that opens a host starts one plugin, or none.
    match deployment.manifest.runtime:
        case PythonRuntime():
            from paddock.runtime.protocols.python.adapter import PythonAdapter

            return PythonAdapter(deployment, answer_request)
        case CommandRuntime(protocol="mcp"):
            from paddock.runtime.protocols.mcp.adapter import McpAdapter

            return McpAdapter(deployment, mcp_timeout_s)
        case RemoteRuntime():
            from paddock.runtime.protocols.mcp.adapter import McpAdapter

            return McpAdapter(deployment, mcp_timeout_s, remote=True)
        case None:
            from paddock.runtime.protocols.embedded.endpoint import EmbeddedAdapter

            return EmbeddedAdapter(deployment, answer_request)
        case _:
            from paddock.runtime.protocols.native.adapter import NativeAdapter

            return NativeAdapter(deployment, answer_request)
