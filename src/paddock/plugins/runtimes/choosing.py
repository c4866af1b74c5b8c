"""Which protocol a plugin speaks."""

from __future__ import annotations

from paddock.manifest.model import PythonRuntime
from paddock.plugins.runtimes.native.wire import Door, NativeWire
from paddock.plugins.runtimes.python.wire import PythonWire
from paddock.plugins.supervision.deployment import Deployment
from paddock.plugins.supervision.wire import Wire


def wire_for(deployment: Deployment, *, door: Door) -> Wire:
    """The wire of one life of a plugin; `door` answers what the plugin asks of the host."""
    if isinstance(deployment.manifest.runtime, PythonRuntime):
        return PythonWire(deployment, door)
    return NativeWire(deployment, door)
