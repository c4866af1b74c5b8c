"""What pages load beside themselves: our own style and script, and those of others that lie here with them.

Each is known by its content: an address names a hash, and may be kept for ever.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NotFound
from paddock.http.head import head_of

PREFIX: Final = "/static"
_FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, whole and packed."""

    media: str
    content: bytes
    packed: bytes
    digest: str


@cache
def files() -> dict[str, StaticFile]:
    """All of them by name. Read once: they are a part of the program."""
    found: dict[str, StaticFile] = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _KINDS:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            packed = gzip.compress(content, 9, mtime=0)
            found[path.relative_to(_FOLDER).as_posix()] = StaticFile(_KINDS[path.suffix], content, packed, digest)
    return found


def address_of(name: str) -> str:
    """Where a file is found, as long as it is as it is now."""
    return f"{PREFIX}/{files()[name].digest}/{name}"


async def serve_file(request: Request) -> Response:
    """One of them.

    Raises:
        NotFound: there is none of that name and content.
    """
    name, digest = request.path_params["name"], request.path_params["digest"]
    file = files().get(name)
    if file is None or file.digest != digest:
        raise NotFound("there is no such file", code="http.no_route")
    headers = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
    if b"gzip" in head_of(request.scope).get(b"accept-encoding", b""):
        return Response(file.packed, headers=headers | {"content-encoding": "gzip"}, media_type=file.media)
    return Response(file.content, headers=headers, media_type=file.media)
