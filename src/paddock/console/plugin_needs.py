"""What plugins lack although they are enabled: configuration, secrets of the tenant, and secrets of the reader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from paddock.console.page import is_operator, plugin_path
from paddock.core.call import CallContext
from paddock.host.host import Host
from paddock.web.security.authenticate import Caller


class NeedKind(StrEnum):
    """What is not set."""

    CONFIGURATION = "configuration"
    SHARED = "shared secret"
    OWN = "own secret"


class PluginNeed(Struct, frozen=True):
    """Something that a plugin needs and that is not set.

    Attributes:
        text: What it is and what fails without it, as a sentence.
        link: The page where it is set.
    """

    kind: NeedKind
    text: str
    link: str


_REPAIR_KINDS: Final[Mapping[str, NeedKind]] = {
    "plugin.configuration": NeedKind.CONFIGURATION,
    "secret.missing": NeedKind.SHARED,
}


async def plugin_needs(
    host: Host, names: Collection[str], context: CallContext, caller: Caller
) -> Mapping[str, list[PluginNeed]]:
    """Return what is not set by the plugin that needs it. Only operators learn what the tenant lacks."""
    needs: dict[str, list[PluginNeed]] = {name: [] for name in names}
    repairs = (await host.repairs.recent_repairs(context.tenant)).open if is_operator(caller) else ()
    subjects: set[str] = set()
    for repair in repairs:
        plugin, _, secret = repair.subject.partition("/")
        kind = _REPAIR_KINDS.get(repair.kind)
        if kind is not None and plugin in needs:
            link = f"/secrets/set?name={quote(secret, safe='')}" if secret else plugin_path(plugin, "settings")
            needs[plugin].append(PluginNeed(kind, repair.cause, link))
            subjects.add(repair.subject)
    for required in await host.secrets.user_requirements.list_of(names, context):
        for secret in required.secrets:
            if secret.operations and secret.state == "missing" and f"{required.plugin}/{secret.name}" not in subjects:
                text = (
                    f"Your own {secret.name} is not set: {', '.join(secret.operations)} cannot run for you without it."
                )
                link = f"/accounts/secrets/set?name={quote(secret.name, safe='')}"
                needs[required.plugin].append(PluginNeed(NeedKind.OWN, text, link))
    return {plugin: found for plugin, found in needs.items() if found}
