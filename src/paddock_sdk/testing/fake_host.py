"""An in-memory host: cache, objects and tables for a plugin under test, and configurable answers for all else.

It grants the given capabilities, refuses all others as the real host does, and remembers the requests. In a call that
declares effects, it allows only those.
"""

from __future__ import annotations

import binascii
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import CAPABILITY_DENIED, METHOD_NOT_FOUND, PluginFault
from paddock_sdk.host import WIRE_NAMES, declared_services
from paddock_sdk.testing.fake_tables import STORAGE_DENIED, FakeTables, is_definition

_SERVICE_OF = {WIRE_NAMES[name]: name for name in ("storage", "sql")}


DENIED = ("capability_denied", CAPABILITY_DENIED)
UNDECLARED = "The call that it serves does not declare this effect."  # the host's message
_WRITE_METHODS = frozenset(
    {"storage.exec", "storage.begin", "storage.commit", "storage.rollback", "keyvalue.put", "keyvalue.delete"}
)
_EXTERNAL_EFFECTS = frozenset({"external_call", "external_send", "webhook_emit", "final_write", "unknown"})


class FakeHost:
    """The host that a plugin under test talks to.

    Args:
        capabilities: The granted capabilities, as in a manifest: `host:cache`, `storage:write`.
        answers: Answers for services that are not kept here, by method name: a value, or a function of the parameters.
            For example `{"http.fetch": {"status": 200, "headers": {}, "body": ""}}`.
        clock: Decides when a cached value has expired.

    Attributes:
        asked: Every request: its name without the namespace, and its parameters.
        denied: The names of refused requests: not granted, or an effect that the call does not declare.
        cache: The cached values, with their expiry times.
        objects: The stored values by key.
        artifacts: The stored artifacts by URI; a test may add one for the plugin to read.
        pages: The responses of web services by URL: a status and a body. Other URLs are unreachable. For more than
            that, give an answer for `http.fetch`.
        logged: The lines written with `host.log.write`.
        audited: The entries written with `host.audit.write`: the action, and its details.
        buckets: What is left in the buckets of `host.rate.limit`. They do not refill with time; a test may refill them.
        effects: The effects that the current call declares, as in a manifest; None if they are not checked.
    """

    def __init__(
        self,
        capabilities: Iterable[str] = (),
        answers: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        granted = list(capabilities)
        self.capabilities = tuple(granted)
        self.asked: list[tuple[str, JsonObject]] = []
        self.denied: list[str] = []
        self.cache: dict[str, tuple[Any, float]] = {}
        self.objects: dict[str, Any] = {}
        self.artifacts: dict[str, bytes] = {}
        self.pages: dict[str, tuple[int, str | bytes]] = {}
        self.logged: list[JsonObject] = []
        self.audited: list[tuple[str, JsonObject]] = []
        self.buckets: dict[str, float] = {}
        self.effects: frozenset[str] | None = None
        self.tables = FakeTables(writable=any(one.endswith("storage:write") for one in granted))
        self._services = declared_services(granted)
        self._answers = dict(answers or {})
        self._clock = clock

    def answer(self, method: str, params: JsonObject) -> Any:
        """Return the result of a request.

        Raises:
            PluginFault: it is refused; the plugin gets it as HostRefused.
        """
        family, _, operation = method.partition(".")[2].partition(".")
        name = f"{family}.{operation}"
        self.asked.append((name, params))
        if _SERVICE_OF.get(family, family) not in self._services:
            raise self._refusal(family, name, f"the plugin was not granted {name}")
        needed = _required_effects(name, params)
        if needed and self.effects is not None and self.effects.isdisjoint(needed):
            raise self._refusal(family, name, f"the plugin may not ask for {name}: {UNDECLARED}")
        if name in self._answers:
            configured = self._answers[name]
            return configured(params) if callable(configured) else configured
        implementation = getattr(self, f"_{family}_{operation}", None)
        if implementation is not None:
            return implementation(**params)
        if family == "storage":
            return self.tables.answer(operation, params)
        raise PluginFault(f"there is no method {method}", code=METHOD_NOT_FOUND)

    def _refusal(self, family: str, name: str, message: str) -> PluginFault:
        self.denied.append(name)
        code, number = ("storage_access_denied", STORAGE_DENIED) if family == "storage" else DENIED
        return PluginFault(message, {"code": code}, code=number)

    def _cache_get(self, key: str) -> JsonObject:
        value, until = self.cache.get(key, (None, 0.0))
        return {"value": value if until > self._clock() else None}

    def _cache_set(self, key: str, value: Any, ttl: float | None = None) -> JsonObject:
        self.cache[key] = (value, float("inf") if ttl is None else self._clock() + ttl)
        return {}

    def _cache_delete(self, key: str) -> JsonObject:
        self.cache.pop(key, None)
        return {}

    def _keyvalue_get(self, key: str) -> JsonObject:
        return {"value": self.objects.get(key)}

    def _keyvalue_put(self, key: str, value: Any) -> JsonObject:
        self.objects[key] = value
        return {}

    def _keyvalue_delete(self, key: str) -> JsonObject:
        self.objects.pop(key, None)
        return {}

    def _keyvalue_list(self, prefix: str = "", after: str = "", limit: int = 100) -> JsonObject:
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        return {"keys": keys[:limit], "next": keys[limit - 1] if len(keys) > limit else None}

    def _artifacts_put(
        self, base64: str, media_type: str = "application/octet-stream", **_announced: Any
    ) -> JsonObject:
        content = binascii.a2b_base64(base64)
        digest = hashlib.sha256(content).hexdigest()
        uri = f"artifact://sha256/{digest}"
        self.artifacts[uri] = content
        return {"uri": uri, "size": len(content), "sha256": digest, "media_type": media_type}

    def _artifacts_get(self, uri: str, offset: int = 0, length: int = 1 << 20, **_how: Any) -> JsonObject:
        if uri not in self.artifacts:
            raise PluginFault(f"there is no artifact {uri}", {"code": "artifacts.unknown"})
        content = self.artifacts[uri]
        part = content[offset : offset + min(length, 1 << 20)]
        encoded = binascii.b2a_base64(part, newline=False).decode()
        return {
            "base64": encoded,
            "size": len(part),
            "total_size": len(content),
            "is_partial": len(part) < len(content),
        }

    def _artifacts_delete(self, uri: str) -> JsonObject:
        return {"deleted": self.artifacts.pop(uri, None) is not None}

    def _rate_limit(self, bucket: str, cost: float = 1, per_minute: float = 60) -> JsonObject:
        left = self.buckets.get(bucket, per_minute)
        self.buckets[bucket] = left - cost if left >= cost else left
        return {"allowed": left >= cost, "retry_after": 0.0 if left >= cost else (cost - left) * 60 / per_minute}

    def _http_fetch(self, request: JsonObject, **_how: Any) -> JsonObject:
        if request["url"] not in self.pages:
            raise PluginFault("it cannot be reached", {"code": "http.unreachable"})
        status, body = self.pages[request["url"]]
        answer: JsonObject = {"status": status, "headers": {}, "url": request["url"], "attempts": 1}
        if isinstance(body, bytes):
            return answer | {"base64": binascii.b2a_base64(body, newline=False).decode()}
        return answer | {"body": body}

    def _audit_write(self, action: str, details: JsonObject | None = None) -> JsonObject:
        self.audited.append((action, details or {}))
        return {"written": True}

    def _log_write(self, **line: Any) -> JsonObject:
        self.logged.append(line)
        return {}


def _required_effects(name: str, params: JsonObject) -> frozenset[str]:
    """Return the effects of which a call must declare one for this request; empty if none is needed."""
    if name in _WRITE_METHODS and not (name == "storage.exec" and is_definition(params["sql"])):
        return frozenset({"db_write", "unknown"})
    if name == "http.fetch" and params["request"].get("method", "GET").upper() not in ("GET", "HEAD", "OPTIONS"):
        return _EXTERNAL_EFFECTS
    return frozenset()
