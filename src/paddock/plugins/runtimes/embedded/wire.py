"""The wire to an embedded plugin: our own protocol, in which no number says that a function was not called.

What a function raises may come from another call that it made itself, on its way.
"""

from __future__ import annotations

from paddock.plugins.runtimes.native.wire import NativeWire


class EmbeddedWire(NativeWire):
    """See `Wire`."""

    @property
    def refusals(self) -> frozenset[int]:
        return frozenset()
