"""Paddock: a plugin host for AI agents.

    from paddock import Config, open_host

    async with open_host(Config(home=...)) as host:
        result = await host.call("memory-markdown.recall", {"query": "..."})

Importing this package costs nothing: the names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.core.errors import NoEffect as NoEffect
    from paddock.host.host import Host as Host
    from paddock.host.wiring.open_host import Config as Config
    from paddock.host.wiring.open_host import open_host as open_host

__all__ = ["Config", "Host", "NoEffect", "__version__", "open_host"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("Config", "Host", "open_host"):
        from paddock.host.wiring import open_host as wiring

        return getattr(wiring, name)
    if name == "NoEffect":
        from paddock.core.errors import NoEffect

        return NoEffect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
