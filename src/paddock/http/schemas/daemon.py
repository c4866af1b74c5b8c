"""Small answers about the daemon as a whole."""

from __future__ import annotations

from paddock.http.schemas.building import COUNT, YES_NO, Schema, listed, one_of, record, ref

SCHEMAS: dict[str, Schema] = {
    "Alive": record({"status": one_of(("alive",)), "pid": COUNT}, optional=("pid",)),
    "Ready": record({"status": one_of(("ready",))}),
    "Condition": record({"takes_calls": YES_NO, "troubles": listed(ref("Trouble"))}),
    "Done": record({"status": one_of(("done",))}),
}
