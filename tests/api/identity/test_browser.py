"""Signing in with a real browser: it keeps the cookie, and pages of others get nothing with it."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fixtures.browser import CHROMIUM, browser
from fixtures.commands import Paddock
from fixtures.daemons import daemon
from paddock.config.directories import user_name

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")]


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><body>somebody else's</body>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class has it so
        del format, args


@contextmanager
def pages_of_somebody_else() -> Generator[str, None, None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.req("B-23", "cookies")
def test_somebody_signs_in_with_the_link_and_a_page_of_others_cannot_use_their_session(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    with daemon(paddock) as started, browser(tmp_path) as person, pages_of_somebody_else() as elsewhere:
        base = "http://{}:{}".format(*started.tcp)
        me = f"fetch('{base}/api/v1/me', {{credentials: 'include'}}).then(said => said.status, () => 'nothing')"
        person.open(paddock.quickly("login", "--json").json["url"])
        linked = person.says("document.querySelectorAll('link[rel=stylesheet]').length")
        assert person.says("document.styleSheets.length") == linked > 0, "its own style is allowed"
        person.says("document.querySelector('button').click()")
        person.sees("location.pathname === '/' && document.readyState === 'complete'")
        shown = person.says("document.querySelector('summary .name').innerText")
        assert user_name(os.geteuid()) in shown, shown
        (cookie,) = person.cookies(base)
        assert (cookie["name"], cookie["secure"], cookie["httpOnly"]) == ("__Host-paddock", True, True)
        person.open(f"{base}/api/v1/me")
        assert '"via":"session"' in person.says("document.body.innerText")

        person.open(elsewhere)
        assert person.says(me) == "nothing"
        person.says(
            "(() => { const form = document.createElement('form'); form.method = 'post';"
            f" form.action = '{base}/logout'; document.body.append(form); form.submit(); }})()"
        )
        person.sees("document.body.innerText.includes('http.wrong_origin')")
        person.open(f"{base}/api/v1/me")
        assert '"via":"session"' in person.says("document.body.innerText"), "and is still signed in"
