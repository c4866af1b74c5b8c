"""Two web servers with a certificate on loopback: one that is to be told a secret, and one that is not."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.capabilities.http.outside import authority


@dataclass
class Web:
    """`given` is each Authorization that the first of them got; `authority` is who signed for both."""

    authority: Path
    port: int = 0
    other_port: int = 0
    given: list[str | None] = field(default_factory=list)

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
