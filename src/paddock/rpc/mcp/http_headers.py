"""The HTTP headers of an MCP request. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from paddock.rpc.mcp.revisions import VERSION_KEY

# The parameter that names the target of a request, which servers and proxies expect in a header.
_NAME_PARAMS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN_VALUE: Final = re.compile(r"(?!=\?base64\?)[!-~](?:[ -~]*[!-~])?")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_RESERVED_HEADERS: Final = re.compile(
    r"host|connection|content-length|content-type|transfer-encoding|accept|accept-encoding|last-event-id|mcp-.*", re.I
)
_MAX_DEPTH: Final = 8
_MAX_MIRRORED: Final = 64


def user_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A person's headers for the server, without those that the protocol sets itself."""
    return tuple((name, value) for name, value in headers.items() if not _RESERVED_HEADERS.fullmatch(name))


def request_revision(message: Mapping[str, Any]) -> str | None:
    """The revision that a stateless request names; None for any other message."""
    params = message.get("params")
    meta: Any = cast("dict[str, Any]", params).get("_meta") if isinstance(params, dict) else None
    version: Any = cast("dict[str, Any]", meta).get(VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


class McpRequestHeaders:
    """Builds the headers of each message; remembers which tool arguments are mirrored in headers."""

    def __init__(self) -> None:
        self._mirrored: dict[str, list[tuple[tuple[str, ...], str]]] = {}  # by tool: path of the argument, its header

    def headers_for(self, message: Mapping[str, Any], negotiated_revision: str | None) -> list[tuple[str, str]]:
        """The protocol's own headers for one message. `agreed` is the revision of a completed handshake."""
        version = request_revision(message)
        if version is None:
            return [("Mcp-Protocol-Version", negotiated_revision)] if negotiated_revision is not None else []
        method = str(message.get("method"))
        params = cast("dict[str, Any]", message["params"])
        headers = [("Mcp-Protocol-Version", version), ("Mcp-Method", encode_header_value(method))]
        name = params.get(_NAME_PARAMS.get(method, ""))
        if isinstance(name, str):
            headers.append(("Mcp-Name", encode_header_value(name)))
        if method == "tools/call":
            headers += self._argument_headers(str(name), params.get("arguments"))
        return headers

    def learn_tools(self, tools: Any) -> None:
        """Learn the mirrored arguments from a page of the server's tools."""
        for tool in cast("list[Any]", tools) if isinstance(tools, list) else ():
            definition = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
            name = definition.get("name")
            if isinstance(name, str):
                self._mirrored[name] = list(_mirrored_arguments(definition.get("inputSchema")))[:_MAX_MIRRORED]

    def _argument_headers(self, tool: str, arguments: Any) -> Iterator[tuple[str, str]]:
        for path, header in self._mirrored.get(tool, ()):
            value = arguments
            for key in path:
                value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
            if isinstance(value, bool):
                value = "true" if value else "false"
            if isinstance(value, str | int | float):
                yield f"Mcp-Param-{header}", encode_header_value(str(value))


def encode_header_value(text: str) -> str:
    """Encode a text as a header's value, in base64 where it would not survive as it is."""
    if _PLAIN_VALUE.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="


def _mirrored_arguments(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The arguments of a tool that its schema mirrors in headers."""
    properties: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(path) >= _MAX_DEPTH:
        return
    for name, inner in cast("dict[str, Any]", properties).items():
        header: Any = cast("dict[str, Any]", inner).get("x-mcp-header") if isinstance(inner, dict) else None
        if isinstance(header, str) and _TOKEN.fullmatch(header):
            yield (*path, name), header
        yield from _mirrored_arguments(inner, (*path, name))
