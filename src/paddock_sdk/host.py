"""The `host` object for plugins: every service of the host by name, requested over the wire.

    value = await host.cache.get("k")          in async code
    value = host.cache.get("k").wait()         elsewhere

Every service that the host serves is an attribute, and there are no others. One that the plugin was not granted is
false (`if host.cache:`). Using it anyway sends the request; the host refuses, records the attempt, and CapabilityDenied
is raised here.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from paddock_sdk.answer import Answer
from paddock_sdk.call import JsonObject
from paddock_sdk.log import Log
from paddock_sdk.service import Ask, Service
from paddock_sdk.storage import Sql

if TYPE_CHECKING:
    from paddock_sdk.artifacts import Artifacts

# Attribute name -> name on the wire, where they differ. The key-value store is `keyvalue`, as on the
# wire; `storage` is its name in classes written for Shu.
WIRE_NAMES = {"logger": "log", "rate_limit": "rate", "sql": "storage", "storage": "keyvalue"}
# Services that every plugin may use; all others are declared as `host:<name>`.
ALWAYS_AVAILABLE = frozenset({"audit", "log", "logger"})
SERVICES = ("artifacts", "audit", "cache", "http", "keyvalue", "rate", "rate_limit", "secrets", "sql", "storage")


class Cache(Service):
    """Values with an optional time to live."""

    def get(self, key: str) -> Answer[Any]:
        """Return the value; None if there is none or it has expired."""
        return self.ask("get", {"key": key}, _value)

    def set(self, key: str, value: Any, ttl: float | None = None) -> Answer[None]:
        """Store a value, for `ttl` seconds if given."""
        return self.ask("set", {"key": key, "value": value} | ({} if ttl is None else {"ttl": ttl}), _ignore_result)

    def delete(self, key: str) -> Answer[None]:
        return self.ask("delete", {"key": key}, _ignore_result)


class KeyValueStore(Service):
    """The plugin's own persistent values, by key."""

    def get(self, reference: str) -> Answer[Any]:
        """Return the value; None if there is none."""
        return self.ask("get", {"key": reference}, _value)

    def put(self, reference: str, value: Any) -> Answer[None]:
        return self.ask("put", {"key": reference, "value": value}, _ignore_result)

    def delete(self, reference: str) -> Answer[None]:
        return self.ask("delete", {"key": reference}, _ignore_result)

    def list(self, prefix: str = "", *, after: str = "", limit: int = 100) -> Answer[list[str]]:
        """Return one page of the keys with a prefix, in order. Pass the last key as `after` for the next page."""
        params = {"prefix": prefix, "after": after, "limit": limit}
        return self.ask("list", params, lambda result: result["keys"])


class Rate(Service):
    """Rate limits for the plugin's own actions."""

    def limit(self, bucket: str, cost: float = 1, *, per_minute: float = 60) -> Answer[JsonObject]:
        """Take `cost` from a bucket: returns `allowed`, and `retry_after` in seconds if it is not."""
        return self.ask("limit", {"bucket": bucket, "cost": cost, "per_minute": per_minute}, lambda result: result)


class Http(Service):
    """HTTP requests through the host, which checks and records each one."""

    def fetch(
        self, request: JsonObject | str, *, retries: int | None = None, backoff: float | None = None
    ) -> Answer[JsonObject]:
        """Send a request and return the response, whatever its status.

        The response has `status`, `headers` with names in lower case, `body`, `url` and `attempts`. Its body is text if
        it is text, else bytes. A request is a URL, or an object with `url` and optionally `method`, `headers`, `body`
        (text or bytes) or `json`, `timeout` in seconds, `max_bytes`, `redirects`. `retries` and `backoff` say how often
        and after how many seconds a request is repeated, if repeating is safe.

        Raises:
            CapabilityDenied: the plugin may not reach this host, or the call does not declare an effect on the outside.
            HostRefused: there was no response.
        """
        params: JsonObject = {"request": _encode_request({"url": request} if isinstance(request, str) else request)}
        if retries is not None:
            params["retries"] = retries
        if backoff is not None:
            params["backoff"] = backoff
        return self.ask("fetch", params, _decode_response)


class Secrets(Service):
    """Secrets that the plugin declares by name. Never log one, and keep none longer than a call."""

    def get(self, name: str) -> Answer[str | None]:
        """Return the secret of the call's user, or else the shared one; None if it is not set."""
        return self.ask("get", {"name": name}, _value)


class Audit(Service):
    """The plugin's own entries in the host's ledger, recorded with the current call."""

    def write(self, action: str, **details: Any) -> Answer[bool]:
        """Write an entry; returns whether it was recorded. Above 50 a second it is not."""
        return self.ask("write", {"action": action, "details": details}, lambda result: result["written"])


class Logger(Service):
    """The plugin's log. Lines are written at once; `write` also has the host record one among its own."""

    def __init__(self, ask: Ask, wire_name: str, log: Log, fields: JsonObject) -> None:
        super().__init__(ask, wire_name, declared=True)
        self._log = log
        self._fields = fields

    def debug(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.debug(_format_message(message, values), **self._fields, **fields)

    def info(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.info(_format_message(message, values), **self._fields, **fields)

    def warning(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.warning(_format_message(message, values), **self._fields, **fields)

    def error(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.error(_format_message(message, values), **self._fields, **fields)

    exception = error

    def write(self, level: str, message: str, **fields: Any) -> Answer[None]:
        return self.ask("write", {"level": level, "message": message, "fields": fields}, _ignore_result)


class Host:
    """The host as a plugin sees it.

    Args:
        ask: Sends a request.
        declared: The services that the plugin was granted; see `declared_services`.
        log: The destination of log lines.
        namespace: The prefix of the host's own methods.
        about: Fields of every log line, e.g. the request's id.
    """

    # Created on first use; see __getattr__.
    artifacts: Artifacts
    audit: Audit
    cache: Cache
    http: Http
    keyvalue: KeyValueStore
    log: Logger
    logger: Logger
    rate: Rate
    secrets: Secrets
    sql: Sql
    storage: KeyValueStore

    def __init__(
        self,
        ask: Ask,
        declared: frozenset[str],
        log: Log,
        namespace: str = "paddock",
        about: JsonObject | None = None,
    ) -> None:
        self._ask = ask
        self._declared = declared
        self._namespace = namespace
        self._log = log
        self._about = about or {}

    def declare(self, services: frozenset[str]) -> None:
        """Replace the services that the plugin was granted."""
        self._declared = services
        for name in [name for name in vars(self) if name in SERVICES]:
            delattr(self, name)  # made again with the new grant on its next use

    def __contains__(self, service: str) -> bool:
        return service in self._declared

    def __dir__(self) -> list[str]:
        return sorted(self._declared)

    def __getattr__(self, name: str) -> Service:
        wire_name = f"{self._namespace}.{WIRE_NAMES.get(name, name)}"
        if name in ("log", "logger"):
            service = Logger(self._ask, wire_name, self._log, self._about)
        elif name == "artifacts":
            from paddock_sdk.artifacts import Artifacts  # late: few plugins need it

            service = Artifacts(self._ask, wire_name, declared=name in self._declared)
        elif name in SERVICES:
            service = SERVICE_CLASSES[name](self._ask, wire_name, declared=name in self._declared)
        else:
            raise AttributeError(_no_service(name))
        setattr(self, name, service)  # the next access finds it directly
        return service


SERVICE_CLASSES: dict[str, type[Service]] = {
    "audit": Audit,
    "cache": Cache,
    "http": Http,
    "keyvalue": KeyValueStore,
    "rate": Rate,
    "rate_limit": Rate,
    "secrets": Secrets,
    "sql": Sql,
    "storage": KeyValueStore,
}


def declared_services(capabilities: Iterable[str]) -> frozenset[str]:
    """Return the services that capabilities (`host:cache`, `storage:write`) grant, by attribute name."""
    services = set(ALWAYS_AVAILABLE)
    for text in capabilities:
        head, _, rest = text.partition(":")
        if head == "host":
            services.add(rest.partition(":")[0])
        elif "storage" in (head, rest.partition(":")[0]):
            services.add("sql")
    if "storage" in services:
        services.add("keyvalue")
    if "rate" in services:
        services.add("rate_limit")
    return frozenset(services)


def _no_service(name: str) -> str:
    """Return the message for an unknown service. Python itself probes names with `_`, which need no suggestion."""
    message = f"the host has no service {name!r}"
    if name.startswith("_"):
        return message
    from difflib import get_close_matches  # late: only needed after a mistake

    similar = get_close_matches(name, (*SERVICES, "log"), 1)
    suggestion = f": did you mean host.{similar[0]}?" if similar else ";"
    return f"{message}{suggestion} it has {', '.join(sorted((*SERVICES, 'log')))}"


def _encode_request(request: JsonObject) -> JsonObject:
    """Return the request as JSON: bytes are encoded as base64."""
    body = request.get("body")
    if not isinstance(body, (bytes, bytearray)):
        return request
    encoded = binascii.b2a_base64(body, newline=False).decode()
    return {**{name: value for name, value in request.items() if name != "body"}, "base64": encoded}


def _decode_response(response: JsonObject) -> JsonObject:
    if "base64" in response:
        response["body"] = binascii.a2b_base64(response.pop("base64"))
    return response


def _value(result: Any) -> Any:
    return result["value"]


def _ignore_result(_result: Any) -> None:
    return None


def _format_message(message: str, values: tuple[Any, ...]) -> str:
    """Insert the values into a message, as Python's logging module does."""
    try:
        return message % values if values else message
    except (TypeError, ValueError):
        return f"{message} {values}"
