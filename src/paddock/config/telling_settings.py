"""The settings of what others are told, and of the log. Rows of the table in `settings.py`."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.addresses import check_private_networks, check_uri, check_web_address
from paddock.config.setting import Kind, row


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Events that are told to others: see the guide on events."""

    source: str = row(
        "urn:paddock",
        "How this host is called in the `source` of its events; the tenant follows. Name each host differently where "
        "one receiver hears of several.",
        kind=Kind.TEXT,
        check=check_uri,
    )
    attempts: int = row(
        14,
        "How often an event is sent to a webhook that does not take it, before it is a dead letter. The pauses double: "
        "14 attempts take about eleven hours.",
        kind=Kind.INTEGER,
        minimum=1,
        maximum=50,
    )
    first_pause_s: float = row(
        5.0,
        "How long to wait after the first attempt that failed, in seconds.",
        kind=Kind.NUMBER,
        minimum=0.01,
        maximum=3600,
    )
    private_receivers: tuple[str, ...] = row(
        (),
        "Addresses that webhooks may be sent to though they are not public, this machine's own among them: "
        "`127.0.0.1:5678`, `10.0.0.0/8`. Others are refused, whatever name leads to them.",
        kind=Kind.NAMES,
        check=check_private_networks,
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What goes to the log."""

    level: str = row(
        "info",
        "Least important message that is written.",
        kind=Kind.TEXT,
        choices=("debug", "info", "warning", "error"),
    )


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """What others are told of calls."""

    otlp_endpoint: str | None = row(
        None,
        "Where an OpenTelemetry collector takes spans over HTTP, such as `http://127.0.0.1:4318`. Unset: nobody gets "
        "any.",
        kind=Kind.TEXT,
        sensitive=True,
        check=check_web_address,
    )
