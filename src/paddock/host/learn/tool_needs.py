"""Hosts that only the calls of a plugin reach, as far as its tools say so. Pure.

A trial starts the plugin and calls nothing. A tool that takes the URL of any page needs every public host. A person
decides about that: it is proposed, and never ticked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from paddock.cage.learn.proposal import Learned
from paddock.cage.observe.observation import Observations
from paddock.core.printable import printable
from paddock.manifest.capability import covers
from paddock.manifest.network import NetworkAccess
from paddock.plugins.tool_pinning.normalize import TOOL, Definition

_URL_FORMATS = ("uri", "url", "iri")
_URL_FIELDS = ("url", "urls", "uri", "uris")


def propose_hosts_of_tools(definitions: Iterable[Definition], learned: Learned) -> None:
    """Propose every public host to a plugin that has no network and a tool that takes URLs."""
    if any(isinstance(one, NetworkAccess) for one in learned.granted):
        return
    for definition in definitions:
        field = next(_url_fields(definition), None)
        if field is not None:
            reason = f"its tool {printable(definition.name, 60)} takes any URL, as {printable(field, 60)}"
            learned.propose(NetworkAccess("*", None), reason)
            return


def was_reached_for(capability: NetworkAccess, seen: Observations) -> bool:
    """Whether a plugin tried to reach what a capability grants, and was refused."""
    attempts = (*seen.network, *seen.loopback)
    return any(one.port is not None and covers(capability, NetworkAccess(one.host, one.port)) for one in attempts)


def _url_fields(definition: Definition) -> Iterator[str]:
    if definition.kind != TOOL:
        return
    for name, described in _members(_members(_members(definition.raw).get("inputSchema")).get("properties")).items():
        if _members(described).get("format") in _URL_FORMATS or name.lower() in _URL_FIELDS:
            yield name


def _members(value: Any) -> dict[str, Any]:
    """The members of an object; a server may send anything."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
