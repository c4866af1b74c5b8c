"""The header of every page of a plugin: name, state, version, signer, dangers, tools to run, and switches.

Operators alone get it: the page of everybody else lists what they may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request

from paddock.console.text.plugin_text import PluginSeverity, plugin_status, trust_text
from paddock.core.errors import PluginError
from paddock.host.host import Host
from paddock.host.plugins.activity import ActivitySummary
from paddock.host.plugins.inventory import InstalledPluginJson, PluginJson
from paddock.manifest.rules.dangers import DangerJson
from paddock.plugins.manage.details import ConsentSectionJson
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, path_param
from paddock.web.security.authenticate import caller_of

_MAX_MENU_TOOLS: Final = 40
_UNUSABLE: Final = ("quarantined", "bad", "gone")  # definitions that cannot be called
BEHAVIOUR_TITLE: Final = "How it behaves"


class PluginHeader(Struct, frozen=True):
    """What stands above every page of a plugin.

    Attributes:
        name: The plugin's name.
        title: What its author calls it.
        version: The version in use; empty if that was removed.
        status: Its state, in words.
        mood: How good that is.
        since: Since when it runs; empty if it does not.
        reason: Why it does not run; empty if it does.
        trust: Who signed it, in words.
        dangers: Its dangerous permissions.
        tools: The tools that can be run.
        more_tools: How many of them are not listed.
        enabled: Whether it is enabled.
        offer_trust: Whether enabling offers to trust its read-only marks: only while they are unknown. Known marks are
            offered on its page and by its trial, where it is shown which tools they are.
        behaves: Whether it describes how the assistant should behave.
        runs_host: Whether the caller operates the host.
    """

    name: str
    title: str
    version: str
    status: str
    mood: PluginSeverity
    since: str = ""
    reason: str = ""
    trust: str = ""
    dangers: tuple[DangerJson, ...] = ()
    tools: tuple[str, ...] = ()
    more_tools: int = 0
    enabled: bool = False
    offer_trust: bool = False
    behaves: bool = False
    runs_host: bool = False


async def load_header(host: Host, request: Request) -> PluginHeader:
    """Load the header of the plugin that a request's path names.

    Raises:
        NotFound: it is not installed.
    """
    context, name = await call_context(host, request), path_param(request)
    try:
        plugin = await host.plugins.inventory.show(name, context.tenant)
    except PluginError as error:  # the version it is pinned to was removed: its other pages say what helps
        return PluginHeader(name, name, "", error.message, "bad", runs_host=HOST.allows(caller_of(request)))
    tools = await host.plugins.features.tools(plugin["name"], tenant=context.tenant)
    return build_header(plugin, tools_known=tools["known"], runs_host=HOST.allows(caller_of(request)))


def build_header(plugin: PluginJson, *, tools_known: bool, runs_host: bool) -> PluginHeader:
    """Build the header of a plugin that was loaded."""
    runtime: Mapping[str, Any] = plugin["runtime"] or {}
    status, mood = plugin_status(plugin["state"], runtime, given_up=plugin["given_up"])
    runnable = [tool["name"] for tool in plugin["tools"] if tool["standing"] not in _UNUSABLE]
    return PluginHeader(
        plugin["name"],
        plugin["title"] or plugin["name"],
        plugin["version"],
        status,
        mood,
        since=str(runtime.get("running_since") or ""),
        reason=str(runtime.get("reason") or ""),
        trust=trust_text(plugin["signature"]),
        dangers=tuple(plugin["dangers"]),
        tools=tuple(runnable[:_MAX_MENU_TOOLS]) if plugin["enabled"] else (),
        more_tools=max(0, len(runnable) - _MAX_MENU_TOOLS),
        enabled=plugin["enabled"],
        offer_trust=not plugin["enabled"] and not tools_known,
        behaves=has_behaviour(plugin["sections"]),
        runs_host=runs_host,
    )


def has_behaviour(sections: list[ConsentSectionJson]) -> bool:
    """Whether a plugin describes how the assistant should behave."""
    return any(section["title"] == BEHAVIOUR_TITLE for section in sections)


def live_values(listed: InstalledPluginJson | PluginJson, activity: ActivitySummary) -> dict[str, Any]:
    """Return the template values of the part of a header that is updated live."""
    runtime: Mapping[str, Any] = listed["runtime"] or {}
    status, mood = plugin_status(listed["state"], runtime, given_up=listed["given_up"])
    return {
        "status": status,
        "mood": mood,
        "since": runtime.get("running_since") or "",
        "reason": runtime.get("reason") or "",
        "in_flight": runtime.get("in_flight") or 0,
        "activity": activity,
    }
