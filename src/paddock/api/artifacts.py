"""`/artifacts`: download binary artifacts that plugins produced."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from paddock.core.errors import CallerError
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import TENANT_PARAM, ApiRoute, ExtraResponse, path_param
from paddock.web.routing.validation import TEXT, ParameterSpec

OCTET_STREAM = "application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


class ArtifactRoutes:
    """Routes that download artifacts."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/artifacts/{sha256}",
                self.get_artifact,
                "Download an artifact",
                "Its bytes, with the media type that its plugin declared. `sha256` is the last part of its URL. For"
                " operators, callers who were given its address in an answer, and callers who may call what made it;"
                " for all others there is no such artifact.",
                query=TENANT_PARAM,
                allow_impersonation=True,
                headers={"Range": ParameterSpec("A single byte range, as `bytes=0-1023`.", {**TEXT, "maxLength": 80})},
                media_type=OCTET_STREAM,
                extra_responses=(ExtraResponse(206, OCTET_STREAM, "The requested byte range."),),
            )
        ]

    async def get_artifact(self, request: Request) -> Response:
        digest, context = path_param(request, "sha256"), await call_context(self._host, request)
        artifact, tenant = await self._host.plugins.artifacts.access.find_readable(context, digest), context.tenant
        await self._host.plugins.artifacts.check_size(tenant, artifact)
        range_header = request.headers.get("range")
        offset, length = (0, artifact.size) if range_header is None else parse_range(range_header, artifact.size)
        headers = {
            "Content-Type": artifact.media_type,  # as it is: only the plugin knows the charset of a text
            "Accept-Ranges": "bytes",
            "Content-Length": str(length),
            # The plugin chose the media type; a browser must not render it as a page of ours.
            "Content-Disposition": f'attachment; filename="{digest}"',
            "X-Content-Type-Options": "nosniff",
        }
        if range_header is not None:
            headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{artifact.size}"
        return StreamingResponse(
            self._host.plugins.artifacts.read_chunks(tenant, digest, offset, length),
            200 if range_header is None else 206,
            headers,
        )


def parse_range(range_header: str, size: int) -> tuple[int, int]:
    """Parse a `Range` header into offset and length, for `size` bytes.

    Raises:
        CallerError: it is not a single range, or outside the content.
    """
    match = _RANGE.fullmatch(range_header.strip())
    first, last = (match[1], match[2]) if match else ("", "")
    if not first and last:  # suffix range: the last N bytes
        offset, end = max(0, size - int(last)), size
    elif first:
        offset, end = int(first), min(size, int(last) + 1 if last else size)
    else:
        offset = end = 0
    if offset >= end:
        raise CallerError(
            f"{range_header[:80]!r} is no part of the {size} bytes",
            code="artifacts.range",
            hint="ask for one range, e.g. bytes=0-1023",
        )
    return offset, end - offset
