"""The ears of a session: log lines, notifications, crashes and the wire itself, each told as an event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.authoring.traffic import Exchange, Traffic
from paddock.config.plugin_fields import fields_of
from paddock.core.clock import Clock
from paddock.manifest.model import Manifest

# One event, as a machine reads it; `event` says which it is.
Tell: TypeAlias = Callable[[dict[str, Any]], None]


class Listening:
    """The workshop's `Audience`, and who taps its wires.

    Attributes:
        manifest: Of the version that was loaded last, or is being loaded.
        shows_traffic, shows_log: What is told of; may change at any time.
    """

    def __init__(self, manifest: Manifest, tell: Tell, clock: Clock, *, shows_traffic: bool = True) -> None:
        self.manifest = manifest
        self.shows_traffic = shows_traffic
        self.shows_log = True
        self.tell = tell
        self._clock = clock

    def tap(self) -> Traffic:
        """A listener for one process."""
        return Traffic(self.manifest.name, secret_fields(self.manifest), self._passed, self._clock)

    def _passed(self, exchange: Exchange) -> None:
        if self.shows_traffic:
            self.tell({"event": "traffic", **exchange.to_value()})

    def logged(self, line: str) -> None:
        if self.shows_log:
            self.tell({"event": "log", "line": line})

    def announced(self, method: str, params: Mapping[str, Any]) -> None:
        if not self.shows_traffic:  # where it is shown, it was seen there
            self.tell({"event": "notification", "name": method, "params": dict(params)})

    def ended(self, reason: str, hint: str) -> None:
        self.tell({"event": "ended", "reason": reason, "hint": hint})


def secret_fields(manifest: Manifest) -> frozenset[str]:
    """The fields of its configuration that are secrets."""
    declared = (*fields_of(manifest.config_schema), *fields_of(manifest.system_config_schema))
    return frozenset(one.name for one in declared if one.secret)
