"""Static files of the console: our own styles and scripts, and bundled third-party ones.

URLs contain a hash of the content, so that browsers may cache them for ever.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NotFound
from paddock.web.request_headers import request_headers

STATIC_PREFIX: Final = "/static"
_STATIC_DIR: Final = Path(__file__).parent / "static"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(Struct, frozen=True):
    """One file, plain and compressed."""

    media_type: str
    content: bytes
    gzipped: bytes
    digest: str


@cache
def load_files() -> dict[str, StaticFile]:
    """Load all files, by name. Done once: they are a part of the program."""
    files: dict[str, StaticFile] = {}
    for path in sorted(_STATIC_DIR.rglob("*")):
        if path.suffix in _MEDIA_TYPES:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            gzipped = gzip.compress(content, 9, mtime=0)
            files[path.relative_to(_STATIC_DIR).as_posix()] = StaticFile(
                _MEDIA_TYPES[path.suffix], content, gzipped, digest
            )
    return files


def static_url(name: str) -> str:
    """Return the URL of a file's current content."""
    return f"{STATIC_PREFIX}/{load_files()[name].digest}/{name}"


async def serve_file(request: Request) -> Response:
    """Serve a static file.

    Raises:
        NotFound: there is none of that name and content.
    """
    name, digest = request.path_params["name"], request.path_params["digest"]
    file = load_files().get(name)
    if file is None or file.digest != digest:
        raise NotFound("there is no such file", code="http.no_route")
    headers = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
    if b"gzip" in request_headers(request.scope).get(b"accept-encoding", b""):
        return Response(file.gzipped, headers=headers | {"content-encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)
