"""The page about audit events, and their rows for pages about one kind of them."""

from __future__ import annotations

from paddock.core.events.calls import REPORTED_BY
from paddock.core.events.index import EVENT_TYPES, Event


def event_rows(prefix: str = "") -> str:
    """A table of the published events whose names begin like this: when each is recorded, and with which data."""
    rows = [
        f"| `{name}` | {_when(kind)} | {_data(kind)} |"
        for name, kind in sorted(EVENT_TYPES.items())
        if name.startswith(prefix) and not kind.reserved
    ]
    return "| event | when | data |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def reserved_event_rows() -> str:
    """A table of the events that no feature publishes yet."""
    rows = [
        f"| `{name}` | {kind.reserved} | {_when(kind)} | {_data(kind)} |"
        for name, kind in sorted(EVENT_TYPES.items())
        if kind.reserved
    ]
    return "| event | reserved for | when | data |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def event_reference() -> str:
    """Every audit event with its data."""
    return f"""\
# Audit events

What is recorded, and with which data. Time and tenant are added to each.

{event_rows()}
## Reserved events

These are not recorded yet. Their names and data are fixed for features that Paddock does not have yet.

{reserved_event_rows()}"""


def _when(kind: type[Event]) -> str:
    first_line = (kind.__doc__ or "").strip().splitlines()[0]
    covered_by = " and ".join(f"`{name}`" for name in REPORTED_BY.get(kind.type, ()))
    return f"{first_line} Not an entry of its own: covered by {covered_by}." if covered_by else first_line


def _data(kind: type) -> str:
    return ", ".join(f"`{name}`" for name in kind.__struct_fields__) or "—"
