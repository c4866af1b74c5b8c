"""A receiver of webhooks on loopback: a real web server that checks signatures as the specification says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fixtures.commands import PATIENCE


@dataclass(frozen=True, slots=True)
class Got:
    """One request; `signed_by` are the secrets whose signature is right."""

    path: str
    headers: dict[str, str]
    body: bytes
    signed_by: tuple[str, ...]

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def kind(self) -> str:
        return self.event["type"].removeprefix("dev.paddock.")


@dataclass
class Receiver:
    """Answers 204, or what was put into `answers`, each once: a status, or a status with headers."""

    port: int = 0
    scheme: str = "http"
    secrets: list[str] = field(default_factory=list)
    answers: deque[int | tuple[int, dict[str, str]]] = field(default_factory=deque)
    always: int = 204
    got: list[Got] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    hold: threading.Event | None = None  # no request is answered before it is set
    _news: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def wait_for(self, claim: Callable[[list[Got]], Any]) -> list[Got]:
        """What arrived, once this can be said of it."""
        with self._news:
            assert self._news.wait_for(lambda: claim(self.got), PATIENCE), [(one.kind, one.id) for one in self.got]
            return list(self.got)

    def wait_for_more(self, count: int) -> None:
        """Wait a moment for so many; they may need another look."""
        with self._news:
            self._news.wait_for(lambda: len(self.got) >= count, 0.5)

    def of(self, kind: str, count: int = 1) -> list[Got]:
        """The events of a type, once there are so many."""
        some = self.wait_for(lambda got: sum(one.kind == kind for one in got) >= count)
        return [one for one in some if one.kind == kind]

    def keep(self, one: Got) -> None:
        with self._news:
            self.got.append(one)
            self._news.notify_all()


def signature(secret: str, name: str, timestamp: str, body: bytes) -> str:
    """As a receiver works it out, without a line of ours."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{name}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Takes(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            given = headers["webhook-signature"].split(" ")
            right = tuple(
                secret
                for secret in receiver.secrets
                if signature(secret, headers["webhook-id"], headers["webhook-timestamp"], body) in given
            )
            receiver.asked.set()
            if receiver.hold is not None:
                receiver.hold.wait(PATIENCE)
            answer = receiver.answers.popleft() if receiver.answers else receiver.always
            status, more = answer if isinstance(answer, tuple) else (answer, {})
            receiver.keep(Got(self.path, headers, body, right))  # before the answer: whoever has that may count this
            try:
                self.send_response(status)
                for name, value in {"Content-Length": "0", **more}.items():
                    self.send_header(name, value)
                self.end_headers()
            except OSError:
                pass  # whoever asked is gone

        def log_message(self, *_: Any) -> None: ...

    return Takes


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Generator[Receiver, None, None]:
    """A receiver for as long as the block runs."""
    receiver = Receiver(scheme="https" if tls else "http")
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver)) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver.port = server.server_port
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield receiver
        finally:
            if receiver.hold is not None:
                receiver.hold.set()
            server.shutdown()
            serving.join()
