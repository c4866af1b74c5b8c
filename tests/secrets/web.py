"""Two web servers with a certificate on loopback: one that is to be told a secret, and one that is not.

The first is an MCP server too.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.capabilities.http.outside import authority

TOOLS = ("length", "refused", "broken")


@dataclass
class Web:
    """`given` is each Authorization that the first of them got, as the web or as MCP; `authority` signed for both."""

    authority: Path
    port: int = 0
    other_port: int = 0
    given: list[str | None] = field(default_factory=list)
    given_with_calls: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


def _answers(web: Web) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers["Authorization"]
            if self.path == "/other":
                self._answer(200, f"somebody else: {given}")
                return
            if self.path == "/mcp":
                web.given_with_calls.append(given)
                self._answer(405, "")
                return
            web.given.append(given)
            match self.path:
                case "/echo":
                    self._answer(200, f"you said {given}", **{"X-Echo": given})
                case "/away":
                    self._answer(302, "", Location=f"https://127.0.0.1:{web.other_port}/other")
                case "/refused":
                    self._answer(401, "no")
                case _:
                    self.connection.close()

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            given = self.headers["Authorization"]
            web.given_with_calls.append(given)
            match asked["method"], asked.get("params", {}).get("name"):
                case "initialize", _:
                    about = {"serverInfo": {"name": "remote", "version": "1"}, "capabilities": {"tools": {}}}
                    self._result(asked, about | {"protocolVersion": "2025-06-18"})
                case "tools/list", _:
                    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
                    self._result(asked, {"tools": tools})
                case "tools/call", "length":
                    self._result(asked, {"content": [{"type": "text", "text": str(len(given))}]})
                case "tools/call", "refused":
                    self._answer(401, "who are you?")
                case "tools/call", "broken":
                    self.connection.close()
                case _ if "id" in asked:
                    self._result(asked, {})
                case _:
                    self._answer(202, "")

        def _result(self, asked: Any, result: Any) -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            self._answer(200, body, **{"Content-Type": "application/json"})

        def _answer(self, status: int, body: str, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "text/plain", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None: ...

    return Answers


@contextmanager
def web(folder: Path) -> Generator[Web, None, None]:
    """Both of them, for as long as the block runs."""
    theirs, _ = authority(folder, "127.0.0.1")
    found = Web(folder / "authority.pem")
    with _serving(found, theirs) as found.port, _serving(found, theirs) as found.other_port:
        yield found


@contextmanager
def _serving(web: Web, tls: ssl.SSLContext) -> Generator[int, None, None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _answers(web)) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()
