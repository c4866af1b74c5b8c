"""The edges of the API: who may use it, what a body may be, and that every refusal is a problem body."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fixtures.daemons import Daemon, LocalConnection
from paddock.api.routes import api_routes
from paddock.config.settings import Settings
from paddock.core.errors import Denied
from paddock.core.schema.compile import MAX_PROBLEMS
from paddock.rpc.framing import MAX_STRUCTURE_TOKENS
from paddock.web.app import Shutdown
from paddock.web.security.authenticate import PeerCredentials, authenticate_local_peer


def test_the_daemon_says_that_it_lives_and_takes_calls(served: Daemon) -> None:
    assert served.ask("GET", "/healthz").body == {"status": "alive", "pid": served.process.pid}
    assert served.ask("GET", "/readyz").body == {"status": "ready"}


def test_the_socket_and_its_directory_are_for_the_owner_alone(served: Daemon) -> None:
    assert stat.S_IMODE(served.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(served.socket.parent.stat().st_mode) == 0o700


def test_only_the_daemons_own_user_and_root_are_its_operators() -> None:
    assert authenticate_local_peer(PeerCredentials(pid=1, uid=os.geteuid()), os.geteuid())
    assert authenticate_local_peer(PeerCredentials(pid=1, uid=0), 4242).operator == "root"
    with pytest.raises(Denied, match="user 4243"):
        authenticate_local_peer(PeerCredentials(pid=1, uid=4243), 4242)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_who_gets_hold_of_a_connection_is_refused(served: Daemon) -> None:
    program = """
import os, socket, sys
directory = os.open(sys.argv[1], os.O_PATH)
os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX); s.connect(f"/proc/self/fd/{directory}/paddock.sock")
s.sendall(b"GET /api/v1/plugins HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
sys.stdout.write(s.makefile().read())
"""
    served.socket.chmod(0o666)
    served.socket.parent.chmod(0o711)
    try:
        said = subprocess.run(
            [sys.executable, "-I", "-c", program, str(served.socket.parent)], capture_output=True, text=True, timeout=30
        )
    finally:
        served.socket.chmod(0o600)
        served.socket.parent.chmod(0o700)

    assert said.stdout.startswith("HTTP/1.1 403 "), said
    assert json.loads(said.stdout.rpartition("\n")[2])["code"] == "auth.not_the_operator"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_request"),
        (b"\xff\xfe", 400, "invalid_request"),
        (b"[1, 2]", 400, "invalid_request"),
        (b'"text"', 400, "invalid_request"),
        (b"null", 400, "invalid_request"),
        (b'{"a": NaN}', 400, "invalid_request"),
        (b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}", 400, "invalid_request"),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "invalid_request"),
        (b'{"a": 18446744073709551616}', 400, "invalid_request"),
        (b'{"a": "\\ud800"}', 400, "invalid_request"),
        (b'{"a": [' + b"[]," * MAX_STRUCTURE_TOKENS + b"[]]}", 400, "invalid_request"),
        (b'{"text": "' + b"x" * 1024 * 1024 + b'"}', 413, "http.body_too_large"),
    ],
    ids=[
        "cut",
        "no utf-8",
        "list",
        "text",
        "null",
        "nan",
        "deep",
        "deeper",
        "big number",
        "surrogate",
        "wide",
        "large",
    ],
)
def test_a_body_that_is_no_json_object_is_refused(served: Daemon, body: bytes, status: int, code: str) -> None:
    answer = served.ask("POST", "/plugins/parrot/call/say", body)

    assert (answer.status, answer.body["code"]) == (status, code)


def test_a_body_without_a_length_is_cut_off_at_the_same_size(served: Daemon) -> None:
    connection = LocalConnection(served.socket)
    chunk = b"x" * 65_536
    try:
        connection.request("POST", "/api/v1/plugins/parrot/call/say", iter([chunk] * 17), encode_chunked=True)
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # it hung up while we were still sending, which says the same
    finally:
        connection.close()

    assert status == 413


def test_mistakes_in_a_body_of_ours_are_told_all_at_once(served: Daemon) -> None:
    answer = served.ask("POST", "/calls", {"name": 3, "params": [], "when": "now"})

    assert answer.status == 400
    assert [one["path"] for one in answer.body["errors"]] == ["name", "params", "when"]


def test_of_endless_mistakes_only_the_first_are_told(served: Daemon) -> None:
    answer = served.ask("POST", "/calls", {f"field-{number}": 1 for number in range(10_000)})

    assert (answer.status, len(answer.body["errors"])) == (400, MAX_PROBLEMS)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "http.no_route"),
        ("GET", "/../../etc/passwd", 404, "http.no_route"),
        ("DELETE", "/plugins", 405, "http.method_not_allowed"),
        ("GET", "/plugins/parrot/call/say", 405, "http.method_not_allowed"),
        ("GET", "/plugins/", 404, "http.no_route"),
        ("GET", "/plugins/a%00b", 404, "http.no_route"),
        ("GET", "/plugins/parrot%2Flogs", 404, "http.no_route"),
        ("POST", "/plugins/parrot%2fdisable", 404, "http.no_route"),
        ("POST", "/plugins/parrot%2Fcall%2Fsay", 404, "http.no_route"),
        ("GET", "/calls/" + "x" * 30_000, 404, "call.not_found"),
        ("GET", "/plugins/" + "x" * 30_000, 404, "plugin.not_found"),
        ("GET", "/" + "x" * 30_000, 404, "http.no_route"),
    ],
)
def test_an_address_or_verb_that_is_none_of_ours_gets_a_problem_body(
    served: Daemon, method: str, path: str, status: int, code: str
) -> None:
    answer = served.ask(method, path)

    assert (answer.status, answer.body["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "code", "detail", "error_id", "errors"} <= answer.body.keys()
    assert answer.body["error_id"].startswith("err_")
    assert len(json.dumps(answer.body)) < 2_000
    assert ("allow" in answer.headers) == (status == 405)


def test_the_published_description_names_every_route_and_every_one_of_them_is_there(served: Daemon) -> None:
    described = served.ask("GET", "/openapi.json").body

    assert described["openapi"].startswith("3.1")
    operations = [(method, path) for path, verbs in described["paths"].items() for method in verbs]
    # Only the rows are looked at; nobody calls a handler.
    nobody = cast("Any", SimpleNamespace(settings=Settings()))
    rows = api_routes(nobody, Shutdown(), nobody)
    assert sorted(operations) == sorted(
        (row.method.lower(), row.prefix + row.path.replace(":path", "")) for row in rows
    )
    for method, path in operations:
        # Of what goes on and on only the head is asked for. A body would be an object.
        verb = "HEAD" if method == "get" and "{" not in path else method.upper()
        filled = re.sub(r"{\w+}", "nobody", path)
        answer = served.ask(verb, f"/{filled}", b"[" if verb == "POST" else None)
        assert answer.status != 405, (method, path)
        if verb == "HEAD":
            assert answer.status != 404, path
        else:
            assert "http.no_route" not in str(answer.body), path


@pytest.mark.req("B-05", "metrics")
def test_numbers_are_given_in_the_form_that_prometheus_reads(served: Daemon) -> None:
    answer = served.ask("GET", "/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE paddock_calls_total counter" in answer.body


def test_the_published_description_lists_what_a_detached_and_a_followed_call_are_answered(served: Daemon) -> None:
    answers = served.ask("GET", "/openapi.json").body["paths"]["/api/v1/calls"]["post"]["responses"]

    failing = (400, 401, 403, 404, 409, 413, 415, 421, 429, 500, 502, 503, 504)
    assert set(answers) == {"200", "202", *map(str, failing)}
    assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}


@pytest.mark.parametrize("path", ["/plugins/parrot/notifications", "/plugins/parrot/logs?follow=1", "/plugins"])
def test_asking_only_for_the_head_of_something_that_goes_on_holds_nothing(served: Daemon, path: str) -> None:
    connection = LocalConnection(served.socket)
    try:
        for _ in range(2):  # the second answer comes only when the first is done
            connection.request("HEAD", f"/api/v1{path}")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"")
    finally:
        connection.close()


def test_words_that_are_not_http_end_only_their_own_connection(served: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as speaking:
        speaking.settimeout(30)
        speaking.connect(str(served.socket))
        speaking.sendall(b"\x00\x01\x02 not http at all\r\n\r\n")
        assert speaking.recv(4096).startswith(b"HTTP/1.1 400")

    assert served.ask("GET", "/healthz").status == 200
