"""Launches plugins: in a cage, as a connection to a remote server, or in this process."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TypeAlias

from paddock.cage.network.egress_proxy import CageNetwork
from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import CagedProcess
from paddock.core.clock import Clock
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.runtime.deployment import InProcessTarget, LaunchTarget, RemoteTarget
from paddock.runtime.endpoint import CagedEndpoint, OpenTransport, PluginEndpoint

LaunchCaged: TypeAlias = Callable[[CageSpec], Awaitable[CagedProcess]]
"""Builds a cage and starts its program. Raises CageUnavailable where no cage can be built."""


class PluginLauncher:
    """Launches the plugins of a host.

    Args:
        launch_caged: Launches the caged ones.
        clock: Measures the log's rate limit.
        network: The network of the cages; None if network use of calls is not recorded.
        connect_timeout_s: How long a remote server may take to accept a connection.
        tls: The certificates to trust; the machine's own by default.
        open_transport: Opens the transport over the pipes to a caged process.
    """

    def __init__(
        self,
        launch_caged: LaunchCaged,
        clock: Clock,
        network: CageNetwork | None = None,
        *,
        connect_timeout_s: float,
        tls: ssl.SSLContext | None = None,
        open_transport: OpenTransport = open_pipe_transport,
    ) -> None:
        self._launch_caged = launch_caged
        self._clock = clock
        self._network = network
        self._connect_timeout_s = connect_timeout_s
        self._given_tls = tls
        self._open_transport = open_transport

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # built lazily: it takes a moment, and most hosts never need it
        return self._given_tls or ssl.create_default_context()

    async def launch(self, target: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        """See `LaunchEndpoint`."""
        match target:
            case CageSpec():
                process = await self._launch_caged(target)
                return CagedEndpoint(process, target.cage_id, on_log, self._clock, self._network, self._open_transport)
            case RemoteTarget():
                # Imported lazily, as the next: most hosts have only caged plugins.
                from paddock.runtime.protocols.mcp.remote_endpoint import connect_remote

                return await connect_remote(target, lambda: self._tls, self._connect_timeout_s)
            case InProcessTarget():
                from paddock.runtime.protocols.embedded.endpoint import EmbeddedEndpoint

                return EmbeddedEndpoint(target)
