"""The `host` object that a plugin is given: every service by its name, asked over the wire.

    value = await host.cache.get("k")          in async code
    value = host.cache.get("k").wait()         in any other

All services are there by name. One that the plugin did not declare is false (`if host.cache:`), and using it still goes
to the host, which refuses, keeps a record of the attempt, and so makes it a CapabilityDenied here.
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

# The service's name on the object -> its name on the wire. Most are the same. Values by key are `keyvalue`, as on the
# wire; `storage` is what classes written for Shu know them by.
WIRE_NAMES = {"logger": "log", "rate_limit": "rate", "sql": "storage", "storage": "keyvalue"}
# Who may use it; all others are declared as `host:<name>`.
ALWAYS_AVAILABLE = frozenset({"audit", "log", "logger"})
SERVICES = (
    "artifacts", "audit", "auth", "cache", "cursor", "http", "identity", "kb", "keyvalue", "memory", "model", "ocr",
    "query", "rate", "rate_limit", "scheduler", "secrets", "sql", "storage", "vault",
)  # fmt: skip


class Cache(Service):
    """Values that are kept for a while."""

    def get(self, key: str) -> Answer[Any]:
        """The value; None when there is none, or its time is over."""
        return self.ask("get", {"key": key}, _value)

    def set(self, key: str, value: Any, ttl: float | None = None) -> Answer[None]:
        """Keep a value, for so many seconds if they are given."""
        return self.ask("set", {"key": key, "value": value} | ({} if ttl is None else {"ttl": ttl}), _ignore_result)

    def delete(self, key: str) -> Answer[None]:
        return self.ask("delete", {"key": key}, _ignore_result)


class KeyValueStore(Service):
    """The plugin's own values, by key, for good."""

    def get(self, reference: str) -> Answer[Any]:
        """The object; None when there is none."""
        return self.ask("get", {"key": reference}, _value)

    def put(self, reference: str, value: Any) -> Answer[None]:
        return self.ask("put", {"key": reference, "value": value}, _ignore_result)

    def delete(self, reference: str) -> Answer[None]:
        return self.ask("delete", {"key": reference}, _ignore_result)

    def list(self, prefix: str = "", *, after: str = "", limit: int = 100) -> Answer[list[str]]:
        """The references that begin so, in order, a page at a time: the next page is after the last of this one."""
        asked = {"prefix": prefix, "after": after, "limit": limit}
        return self.ask("list", asked, lambda result: result["keys"])


class Rate(Service):
    """Asking before doing something that must not be done too often."""

    def limit(self, bucket: str, cost: float = 1, *, per_minute: float = 60) -> Answer[JsonObject]:
        """Whether it may be done now: `allowed`, and `retry_after` in seconds where not."""
        return self.ask("limit", {"bucket": bucket, "cost": cost, "per_minute": per_minute}, lambda result: result)


class Http(Service):
    """Web services, asked through the host, which checks and records each request."""

    def fetch(
        self, request: JsonObject | str, *, retries: int | None = None, backoff: float | None = None
    ) -> Answer[JsonObject]:
        """The answer, whatever its status: `status`, `headers` with names in lower case, `body`, `url`, `attempts`.

        A request is a url, or an object with `url` and perhaps `method`, `headers`, `body` (text, or bytes) or `json`,
        `timeout` in seconds, `max_bytes`, `redirects`. The body of an answer is text where it is text, else bytes.
        `retries` and `backoff` say how often and after how many seconds it is tried again, where that does no harm.

        Raises:
            CapabilityDenied: the plugin may not go there, or the call does not say that it changes something outside.
            HostRefused: there was no answer.
        """
        asked: JsonObject = {"request": _encode_request({"url": request} if isinstance(request, str) else request)}
        if retries is not None:
            asked["retries"] = retries
        if backoff is not None:
            asked["backoff"] = backoff
        return self.ask("fetch", asked, _decode_response)


class Secrets(Service):
    """Secrets that the plugin declares by name. Never log one, and keep none longer than a call."""

    def get(self, name: str) -> Answer[str | None]:
        """The value, of whoever the call is for or else of everybody; None where it is not set."""
        return self.ask("get", {"name": name}, _value)


class Audit(Service):
    """A word of the plugin's own in the host's ledger, beside the call that it serves."""

    def write(self, action: str, **details: Any) -> Answer[bool]:
        """Whether it was kept; above 50 a second it is not."""
        return self.ask("write", {"action": action, "details": details}, lambda result: result["written"])


class Logger(Service):
    """The plugin's log. Its lines are written at once; `write` also has the host record one among its own."""

    def __init__(self, ask: Ask, wire_name: str, log: Log, about: JsonObject) -> None:
        super().__init__(ask, wire_name, declared=True)
        self._log = log
        self._about = about

    def debug(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.debug(_format_message(message, values), **self._about, **fields)

    def info(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.info(_format_message(message, values), **self._about, **fields)

    def warning(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.warning(_format_message(message, values), **self._about, **fields)

    def error(self, message: str, *values: Any, **fields: Any) -> None:
        self._log.error(_format_message(message, values), **self._about, **fields)

    exception = error

    def write(self, level: str, message: str, **fields: Any) -> Answer[None]:
        return self.ask("write", {"level": level, "message": message, "fields": fields}, _ignore_result)


class Host:
    """The host as a plugin sees it.

    Args:
        ask: Sends a question.
        declared: The services that the plugin was given; see `declared_services`.
        log: Where log lines go.
        namespace: How the host's own methods begin.
        about: Stands in every log line, e.g. the request's id.
    """

    # Made when they are first used; see __getattr__.
    artifacts: Artifacts
    audit: Audit
    auth: Service
    cache: Cache
    cursor: Service
    http: Http
    identity: Service
    kb: Service
    keyvalue: KeyValueStore
    log: Logger
    logger: Logger
    memory: Service
    model: Service
    ocr: Service
    query: Service
    rate: Rate
    scheduler: Service
    secrets: Secrets
    sql: Sql
    storage: KeyValueStore
    vault: Service

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

    def __contains__(self, service: str) -> bool:
        return service in self._declared

    def __dir__(self) -> list[str]:
        return sorted(self._declared)

    def __getattr__(self, name: str) -> Service:
        wire_name = f"{self._namespace}.{WIRE_NAMES.get(name, name)}"
        if name in ("log", "logger"):
            made = Logger(self._ask, wire_name, self._log, self._about)
        elif name == "artifacts":
            from paddock_sdk.artifacts import Artifacts  # late: few plugins need it

            made = Artifacts(self._ask, wire_name, declared=name in self._declared)
        elif name in SERVICES:
            made = SERVICE_CLASSES.get(name, Service)(self._ask, wire_name, declared=name in self._declared)
        else:
            raise AttributeError(_no_service(name))
        setattr(self, name, made)  # found at once the next time
        return made


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
    """The services that capabilities (`host:cache`, `storage:write`) give, by their names on the host object."""
    found = set(ALWAYS_AVAILABLE)
    for text in capabilities:
        head, _, rest = text.partition(":")
        if head == "host":
            found.add(rest.partition(":")[0])
        elif "storage" in (head, rest.partition(":")[0]):
            found.add("sql")
    if "storage" in found:
        found.add("keyvalue")
    if "rate" in found:
        found.add("rate_limit")
    return frozenset(found)


def _no_service(name: str) -> str:
    """What is told of a name that no service has. Python itself looks for some that begin with _, and reads nothing."""
    told = f"the host has no service {name!r}"
    if name.startswith("_"):
        return told
    from difflib import get_close_matches  # late: who gets here has made a mistake

    alike = get_close_matches(name, (*SERVICES, "log"), 1)
    meant = f": did you mean host.{alike[0]}?" if alike else ";"
    return f"{told}{meant} it has {', '.join(sorted((*SERVICES, 'log')))}"


def _encode_request(request: JsonObject) -> JsonObject:
    """The request as JSON has it: bytes are written as text."""
    body = request.get("body")
    if not isinstance(body, (bytes, bytearray)):
        return request
    written = binascii.b2a_base64(body, newline=False).decode()
    return {**{name: value for name, value in request.items() if name != "body"}, "base64": written}


def _decode_response(answer: JsonObject) -> JsonObject:
    if "base64" in answer:
        answer["body"] = binascii.a2b_base64(answer.pop("base64"))
    return answer


def _value(result: Any) -> Any:
    return result["value"]


def _ignore_result(_result: Any) -> None:
    return None


def _format_message(message: str, values: tuple[Any, ...]) -> str:
    """A message with its values in their places, as Python's own loggers take them."""
    try:
        return message % values if values else message
    except (TypeError, ValueError):
        return f"{message} {values}"
