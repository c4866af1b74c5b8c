"""Launches plugins: in a cage, as a connection to a remote server, or in this process."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cached_property

from paddock.cage.launcher import Launcher
from paddock.cage.network.egress_proxy import CageNetwork
from paddock.cage.spec import CageSpec
from paddock.core.clock import Clock
from paddock.runtime.deployment import InProcessTarget, LaunchTarget, RemoteTarget
from paddock.runtime.endpoint import CagedEndpoint, PluginEndpoint
from paddock.runtime.protocols.embedded.endpoint import EmbeddedEndpoint
from paddock.runtime.protocols.mcp.remote_endpoint import connect_remote


class PluginLauncher:
    """The host's `EndpointLauncher`.

    Args:
        cages: Builds the cages.
        clock: Measures the log's rate limit.
        network: The network of the cages; None if network use of calls is not recorded.
        connect_timeout_s: How long a remote server may take to accept a connection.
        tls: The certificates to trust; the machine's own by default.
    """

    def __init__(
        self,
        cages: Launcher,
        clock: Clock,
        network: CageNetwork | None = None,
        *,
        connect_timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._cages = cages
        self._clock = clock
        self._network = network
        self._connect_timeout_s = connect_timeout_s
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # built lazily: it takes a moment, and most hosts never need it
        return self._given_tls or ssl.create_default_context()

    async def launch(self, target: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        match target:
            case CageSpec():
                process = await self._cages.launch(target)
                return CagedEndpoint(process, target.cage_id, on_log, self._clock, self._network)
            case RemoteTarget():
                return await connect_remote(target, lambda: self._tls, self._connect_timeout_s)
            case InProcessTarget():
                return EmbeddedEndpoint(target)
