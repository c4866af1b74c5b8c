"""The responses to removals, after which the store's log must not hold what was removed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request

from paddock.web.security.authenticate import caller_of


class RetainedLogJson(TypedDict):
    """Whether the store's log still holds what was removed."""

    log: NotRequired[
        Annotated[
            str,
            "The file that still holds what was removed, while another process reads there. Only on the local socket.",
        ]
    ]


class RemovalJson(RetainedLogJson):
    """A person or a group that was removed."""

    name: str
    tenant: str
    removed: bool


def retained_log(request: Request, log: Path | None) -> RetainedLogJson:
    """Return the log that still holds what was removed; its path is for callers on this machine."""
    return {"log": str(log)} if log is not None and caller_of(request).via == "socket" else {}
