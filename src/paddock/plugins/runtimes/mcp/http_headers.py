"""The headers that a request to a server elsewhere carries beside its body. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from paddock.plugins.runtimes.mcp.revisions import VERSION_KEY

# The field of a request that its name is, as servers and proxies in between want to see it.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN: Final = re.compile(r"(?!=\?base64\?)[!-~](?:[ -~]*[!-~])?")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OURS: Final = re.compile(
    r"host|connection|content-length|content-type|transfer-encoding|accept|accept-encoding|last-event-id|mcp-.*", re.I
)
_DEEPEST: Final = 8
_MOST: Final = 64


def own_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A person's headers for the server, without those that the protocol fills in itself."""
    return tuple((name, value) for name, value in given.items() if not _OURS.fullmatch(name))


def stateless_version(message: Mapping[str, Any]) -> str | None:
    """The revision that a stateless request names; None for any other message."""
    params = message.get("params")
    meta: Any = cast("dict[str, Any]", params).get("_meta") if isinstance(params, dict) else None
    version: Any = cast("dict[str, Any]", meta).get(VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


class RequestHeaders:
    """Works out the headers of each message; remembers which arguments a tool wants in headers too."""

    def __init__(self) -> None:
        self._mirrored: dict[str, list[tuple[tuple[str, ...], str]]] = {}  # by tool: where the argument is, its header

    def of(self, message: Mapping[str, Any], agreed: str | None) -> list[tuple[str, str]]:
        """The protocol's own headers for one message. `agreed` is the revision of a handshake that is over."""
        version = stateless_version(message)
        if version is None:
            return [("Mcp-Protocol-Version", agreed)] if agreed is not None else []
        method = str(message.get("method"))
        params = cast("dict[str, Any]", message["params"])
        found = [("Mcp-Protocol-Version", version), ("Mcp-Method", header_text(method))]
        name = params.get(_NAMED.get(method, ""))
        if isinstance(name, str):
            found.append(("Mcp-Name", header_text(name)))
        if method == "tools/call":
            found += self._arguments(str(name), params.get("arguments"))
        return found

    def learn(self, tools: Any) -> None:
        """Take note of a page of the server's tools."""
        for tool in cast("list[Any]", tools) if isinstance(tools, list) else ():
            about = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
            name = about.get("name")
            if isinstance(name, str):
                self._mirrored[name] = list(_marked(about.get("inputSchema")))[:_MOST]

    def _arguments(self, tool: str, arguments: Any) -> Iterator[tuple[str, str]]:
        for path, header in self._mirrored.get(tool, ()):
            value = arguments
            for key in path:
                value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
            if isinstance(value, bool):
                value = "true" if value else "false"
            if isinstance(value, str | int | float):
                yield f"Mcp-Param-{header}", header_text(str(value))


def header_text(text: str) -> str:
    """A text as a header's value, wrapped where it would not survive as it is."""
    if _PLAIN.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="


def _marked(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The arguments of a tool that its schema wants in headers."""
    properties: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(path) >= _DEEPEST:
        return
    for name, inner in cast("dict[str, Any]", properties).items():
        header: Any = cast("dict[str, Any]", inner).get("x-mcp-header") if isinstance(inner, dict) else None
        if isinstance(header, str) and _TOKEN.fullmatch(header):
            yield (*path, name), header
        yield from _marked(inner, (*path, name))
