"""Files that a new plugin gets a copy of and that are kept elsewhere: the built SDKs of other languages."""

from __future__ import annotations

from pathlib import Path

from paddock.core.errors import NotFound

# By what they are called in a template: where they lie inside an installed Paddock, and in a checkout.
_PLACES = {
    "paddock-sdk": ("borrowed/typescript", "sdk/typescript/dist"),
    "rpc.sh": ("borrowed/shell/rpc.sh", "examples/shell-status/rpc.sh"),
}


def borrowed(name: str) -> Path:
    """Where it is: inside the package when installed, beside the source in a checkout.

    Raises:
        NotFound: this Paddock came without it.
    """
    room = Path(__file__).parent
    packaged, beside = _PLACES[name]
    for place in (room / packaged, room.parents[2] / beside):
        if place.exists():
            return place
    raise NotFound(
        f"this Paddock came without {name}", code="new.not_borrowed", hint="install the wheel again, or use a checkout"
    )
