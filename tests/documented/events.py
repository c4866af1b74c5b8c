"""The page about audit events, and their rows for pages about one kind of them."""

from __future__ import annotations

import dataclasses

from paddock.core.events.index import EVENT_TYPES


def event_rows(prefix: str = "") -> str:
    """A table of all events whose names begin like this: when each is recorded, and with which data."""
    rows = [
        f"| `{name}` | {(kind.__doc__ or '').strip().splitlines()[0]} | {_data(kind)} |"
        for name, kind in sorted(EVENT_TYPES.items())
        if name.startswith(prefix)
    ]
    return "| event | when | data |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def event_reference() -> str:
    """Every audit event with its data."""
    return (
        "# Audit events\n\nWhat is recorded, and with which data. Time and tenant are added to each.\n\n" + event_rows()
    )


def _data(kind: type) -> str:
    return ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind)) or "—"
