"""What a plugin can ask for, by its name on the wire, and which grant each needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, HostService, StorageAccess
from paddock.manifest.model import Dialect, Manifest

_READ, _WRITE = StorageAccess("read"), StorageAccess("write")
_VALUES, _CACHE, _ARTIFACTS = HostService("storage"), HostService("cache"), HostService("artifacts")
_HTTP = HostService("http")

REQUIRED_CAPABILITIES: Mapping[str, Capability | None] = {
    "log.write": None,  # every plugin may
    "audit.write": None,
    "rate.limit": HostService("rate"),
    "storage.query": _READ,
    "storage.schema": _READ,
    "storage.exec": _WRITE,
    "storage.begin": _WRITE,
    "storage.commit": _WRITE,
    "storage.rollback": _WRITE,
    "keyvalue.get": _VALUES,
    "keyvalue.put": _VALUES,
    "keyvalue.delete": _VALUES,
    "keyvalue.list": _VALUES,
    "cache.get": _CACHE,
    "cache.set": _CACHE,
    "cache.delete": _CACHE,
    "artifacts.put": _ARTIFACTS,
    "artifacts.commit": _ARTIFACTS,
    "artifacts.get": _ARTIFACTS,
    "artifacts.delete": _ARTIFACTS,
    "secrets.get": HostService("secrets"),
    "http.fetch": _HTTP,
    "http.send": _HTTP,
}
# What changes or keeps nothing. Everything else only a plugin that may act can ask for, whatever it was granted. A line
# of the log or the ledger is kept too, but no plugin can read it.
READ_METHODS = frozenset(
    {
        "log.write",
        "audit.write",
        "storage.query",
        "storage.schema",
        "keyvalue.get",
        "keyvalue.list",
        "cache.get",
        "artifacts.get",
        "secrets.get",
        "http.fetch",
    }
)
SAFE_HTTP_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of HTTP that change nothing where they are sent."""


@dataclass(frozen=True, slots=True)
class CapabilityMethod:
    """One thing that can be asked for."""

    name: str  # family.operation, as in NEEDS
    needs: Capability | None

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def writes(self) -> bool:
        return self.name not in READ_METHODS


_METHODS = {name: CapabilityMethod(name, needs) for name, needs in REQUIRED_CAPABILITIES.items()}


def wire_namespace(manifest: Manifest) -> str:
    """How the host's own methods begin for this plugin."""
    return "kaged" if manifest.dialect is Dialect.KAGED else "paddock"


def find_method(manifest: Manifest, wire_name: str) -> CapabilityMethod:
    """The method that a plugin of this dialect means.

    Raises:
        NotFound: there is none; names of the other namespace are unknown too.
    """
    ours, _, name = wire_name.partition(".")
    method = _METHODS.get(name) if ours == wire_namespace(manifest) else None
    if method is None:
        raise NotFound(
            f"this host serves no {printable(wire_name, 80)}",
            code="method_not_found",
            hint=f"its methods begin with '{wire_namespace(manifest)}.', e.g. {wire_namespace(manifest)}.storage.query",
        )
    return method


def effective_method(method: CapabilityMethod, params: Mapping[str, Any]) -> CapabilityMethod:
    """What a request comes to: one that `fetch`es with a method that changes something is a `send`."""
    if method.name == "http.fetch" and http_method(params) not in SAFE_HTTP_METHODS:
        return _METHODS["http.send"]
    return method


def http_method(params: Mapping[str, Any]) -> str:
    """The method of HTTP that is asked for; empty where it cannot be read."""
    request = params.get("request")
    if not isinstance(request, dict):
        return "GET"  # nothing can be sent
    named: Any = cast("dict[str, Any]", request).get("method", "GET")
    return named.upper() if isinstance(named, str) else ""
