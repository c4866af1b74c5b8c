"""Words for what plugins ask of their host and reach beyond it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.words.phrase import Told, Words, counted, sized


def _fetched(told: Told) -> str:
    status = told.said.get("status")
    became = f"answered {status}" if status is not None else f"no answer ({told['error_code']})"
    return (
        f"{told['name']} asked {told['host']} ({told['method']}): {became}"
        f" in {told['duration_ms~took']}, {told['bytes_down~size']} received"
    )


def _connected(told: Told) -> str:
    where = f"{told['host']}:{told['port']}"
    if told.said.get("error"):
        return f"{told['name']} could not reach {where}: {told['error']}"
    moved = sized(told.number("bytes_up") + told.number("bytes_down"))
    return f"{told['name']} was connected to {where} for {told['duration_ms~took']}, {moved}"


def _denied(told: Told) -> str:
    why = "the rules forbid it" if told.said.get("policies") else f"{told['capability']} was never granted"
    return f"{told['name']} was not allowed to use {told['method']}: {why}"


def _kept_from(told: Told) -> str:
    where = f"{told['host']}{told.when('port', ':{}')}"
    times = told.number("times")
    often = f" ({counted(times, 'time')})" if times > 1 else ""
    return f"{told['name']} was kept from reaching {where}{often}: {told['reason']}"


ASKING: Final[Mapping[str, Words]] = {
    "plugin.capability_denied": Words("Denied by the host", _denied),
    "plugin.capability_overreach": Words("Claims too much", "{name} claimed more than it declares: {claimed}"),
    "plugin.denial_flood": Words("Denied too often", "{name} was denied so often that the rest is not recorded"),
    "plugin.asked": Words("Asked the host", "{name} used {method} {count~time}"),
    "plugin.audited": Words("Plugin's own note", "{name} notes: {action}"),
    "plugin.fetched": Words("Web request", _fetched),
    "plugin.net_connected": Words("Connection", _connected),
    "plugin.net_denied": Words("Connection refused", _kept_from),
    "plugin.storage_denied": Words("Storage refused", "{name} reached for data that is not its own"),
    "plugin.storage_dropped": Words("Tables dropped", "The tables of {name} were dropped: {tables}"),
    "plugin.artifact_created": Words(
        "File made",
        "{plugin_id} made a {artifact_type} of {size_bytes~size}",
    ),
    "secret.used": Words("Secret used", "{plugin} was given the secret {secret}"),
}
