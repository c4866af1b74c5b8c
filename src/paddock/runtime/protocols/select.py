"""Selects the protocol adapter of a plugin."""

from __future__ import annotations

from paddock.manifest.model import CommandRuntime, PythonRuntime, RemoteRuntime
from paddock.runtime.deployment import Deployment
from paddock.runtime.protocol_adapter import ProtocolAdapter
from paddock.runtime.protocols.embedded.endpoint import EmbeddedAdapter
from paddock.runtime.protocols.mcp.adapter import McpAdapter
from paddock.runtime.protocols.native.adapter import AnswerRequest, NativeAdapter
from paddock.runtime.protocols.python.adapter import PythonAdapter


def select_adapter(deployment: Deployment, *, answer_request: AnswerRequest, mcp_timeout_s: float) -> ProtocolAdapter:
    """Create the adapter for one process run.

    `answer_request` answers the plugin's requests to the host. `mcp_timeout_s` is how long an MCP server may take for
    each answer before its first call.
    """
    match deployment.manifest.runtime:
        case PythonRuntime():
            return PythonAdapter(deployment, answer_request)
        case CommandRuntime(protocol="mcp"):
            return McpAdapter(deployment, mcp_timeout_s)
        case RemoteRuntime():
            return McpAdapter(deployment, mcp_timeout_s, remote=True)
        case None:
            return EmbeddedAdapter(deployment, answer_request)
        case _:
            return NativeAdapter(deployment, answer_request)
