"""The capability methods by wire name, and the grant that each requires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, HostService, StorageAccess
from paddock.manifest.model import Dialect, Manifest
from paddock.manifest.permissions import PASSIVE_KINDS

_READ, _WRITE = StorageAccess("read"), StorageAccess("write")
_VALUES, _CACHE, _ARTIFACTS = HostService("storage"), HostService("cache"), HostService("artifacts")
_HTTP = HostService("http")

REQUIRED_CAPABILITIES: Mapping[str, Capability | None] = {
    "log.write": None,  # every plugin may use it
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
# Methods that change and store nothing. All others are only for plugins that may act, whatever was granted. Log lines
# and ledger entries are stored too, but no plugin can read them.
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
# The name is followed by `(`, `ON` or `USING`: `CREATE TABLE … AS SELECT` would copy rows. SQLite itself refuses a
# second statement behind the first.
_DEFINITION = re.compile(
    r"""\s*CREATE\s+(?:
        TABLE\s+IF\s+NOT\s+EXISTS\s+{name}\s*\(
        | (?:UNIQUE\s+)?INDEX\s+IF\s+NOT\s+EXISTS\s+{name}\s+ON\s
        | VIRTUAL\s+TABLE\s+IF\s+NOT\s+EXISTS\s+{name}\s+USING\s
    )""".format(name=r"(?:[A-Za-z_][A-Za-z0-9_]*|\"[A-Za-z0-9_ -]+\")"),
    re.IGNORECASE | re.VERBOSE,
)
SAFE_HTTP_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""HTTP methods that change nothing on the server."""


class CapabilityMethod(Struct, frozen=True):
    """One method that a plugin can request."""

    name: str  # family.operation, as in REQUIRED_CAPABILITIES
    needs: Capability | None
    defines: bool = False  # makes an empty table, where there is none: that changes no data

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def recorded_name(self) -> str:
        """The name in records of what a call used; a definition is no write there either."""
        return "storage.define" if self.defines else self.name

    @property
    def writes(self) -> bool:
        return self.name not in READ_METHODS and not self.defines


_DEFINE = CapabilityMethod("storage.exec", _WRITE, defines=True)
_METHODS = {name: CapabilityMethod(name, needs) for name, needs in REQUIRED_CAPABILITIES.items()}


def wire_namespace(manifest: Manifest) -> str:
    """Return the prefix of the host's methods for this plugin's dialect."""
    return "kaged" if manifest.dialect is Dialect.KAGED else "paddock"


def find_method(manifest: Manifest, wire_name: str) -> CapabilityMethod:
    """Return the method of this wire name in the plugin's dialect.

    Raises:
        NotFound: there is none; names of the other namespace are unknown too.
    """
    namespace, _, name = wire_name.partition(".")
    method = _METHODS.get(name) if namespace == wire_namespace(manifest) else None
    if method is None:
        raise NotFound(
            f"this host serves no {printable(wire_name, 80)}",
            code="method_not_found",
            hint=f"its methods begin with '{wire_namespace(manifest)}.', e.g. {wire_namespace(manifest)}.storage.query",
        )
    return method


def effective_method(manifest: Manifest, method: CapabilityMethod, params: Mapping[str, Any]) -> CapabilityMethod:
    """Return the method to authorize, as it follows from the parameters.

    `http.fetch` with an unsafe HTTP method is `http.send`. `storage.exec` of a definition writes nothing, except for
    kinds that may not even define.
    """
    if method.name == "storage.exec" and manifest.kind not in PASSIVE_KINDS:
        return _DEFINE if _DEFINITION.match(str(params.get("sql", ""))) else method
    if method.name == "http.fetch" and http_method(params) not in SAFE_HTTP_METHODS:
        return _METHODS["http.send"]
    return method


def http_method(params: Mapping[str, Any]) -> str:
    """Return the requested HTTP method in upper case; empty if it is not text."""
    request = params.get("request")
    if not isinstance(request, dict):
        return "GET"  # nothing can be sent
    method: Any = cast("dict[str, Any]", request).get("method", "GET")
    return method.upper() if isinstance(method, str) else ""
