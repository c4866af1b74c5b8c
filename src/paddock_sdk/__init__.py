"""The SDK for plugin authors: the stdio loop, and the values that handlers receive.

    from paddock_sdk import Context, Plugin

    plugin = Plugin("greeter", "1.0.0")

    @plugin.tool
    def greet(name: str, context: Context) -> str:
        return f"Hello, {name}"

    plugin.run()

It uses only the standard library and nothing of the host: a plugin may bundle a copy of this package.
"""

from __future__ import annotations

from paddock_sdk.answer import Answer
from paddock_sdk.call import Context, JsonObject
from paddock_sdk.disclosure import disclose
from paddock_sdk.faults import (
    Cancelled,
    CapabilityDenied,
    ConfigInvalid,
    HostGone,
    HostRefused,
    InvalidParams,
    NoEffect,
    NotApplicable,
    PluginFault,
    ScopeMissing,
)
from paddock_sdk.host import Host
from paddock_sdk.log import Log
from paddock_sdk.payload import read_payload
from paddock_sdk.scopes import requires_scopes
from paddock_sdk.stdio import Plugin
from paddock_sdk.storage import Rows, Storage

__all__ = [
    "Answer",
    "Cancelled",
    "CapabilityDenied",
    "ConfigInvalid",
    "Context",
    "Host",
    "HostGone",
    "HostRefused",
    "InvalidParams",
    "JsonObject",
    "Log",
    "NoEffect",
    "NotApplicable",
    "Plugin",
    "PluginFault",
    "Rows",
    "ScopeMissing",
    "Storage",
    "disclose",
    "read_payload",
    "requires_scopes",
]
