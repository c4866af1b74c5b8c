"""What the author of a plugin imports: the stdio loop, and the few values that handlers see.

    from paddock_sdk import Context, Plugin

    plugin = Plugin("greeter", "1.0.0")

    @plugin.tool
    def greet(params, context: Context):
        return {"text": f"Hello, {params['name']}"}

    plugin.run()

Standard library only, and nothing of the host: a plugin may carry a copy of this package anywhere.
"""

from __future__ import annotations

from paddock_sdk.call import Context, JsonObject
from paddock_sdk.faults import (
    Cancelled,
    ConfigInvalid,
    HostGone,
    HostRefused,
    InvalidParams,
    NotApplicable,
    PluginFault,
)
from paddock_sdk.log import Log
from paddock_sdk.stdio import Plugin
from paddock_sdk.storage import Rows, Storage

__all__ = [
    "Cancelled",
    "ConfigInvalid",
    "Context",
    "HostGone",
    "HostRefused",
    "InvalidParams",
    "JsonObject",
    "Log",
    "NotApplicable",
    "Plugin",
    "PluginFault",
    "Rows",
    "Storage",
]
